#include "oom.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local unsigned long left; /* allocations until the one that fails; 0: not armed */
static _Thread_local bool sticky, struck;

void tn_oom_arm(unsigned long nth, bool stays)
{
    left = nth;
    sticky = stays;
    struck = false;
}

bool tn_oom_disarm(void)
{
    left = 0;
    return struck;
}

bool tn_oom_strikes(void)
{
    if (left == 0 || --left > 0)
        return false;
    left = sticky;
    struck = true;
    errno = ENOMEM;
    return true;
}

/* ---- What the linker puts in front (-Wl,--wrap) --------------------------- */

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *memory, size_t size);
char *__real_strdup(const char *text);
char *__real_strndup(const char *text, size_t n);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *memory, size_t size);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t n);
int __wrap_asprintf(char **text, const char *format, ...) __attribute__((format(printf, 2, 3)));

void *__wrap_malloc(size_t size)
{
    return tn_oom_strikes() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return tn_oom_strikes() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *memory, size_t size)
{
    return tn_oom_strikes() ? NULL : __real_realloc(memory, size);
}

char *__wrap_strdup(const char *text)
{
    return tn_oom_strikes() ? NULL : __real_strdup(text);
}

char *__wrap_strndup(const char *text, size_t n)
{
    return tn_oom_strikes() ? NULL : __real_strndup(text, n);
}

int __wrap_asprintf(char **text, const char *format, ...)
{
    va_list args;

    if (tn_oom_strikes())
        return -1;
    va_start(args, format);
    int n = vasprintf(text, format, args);
    va_end(args);
    return n;
}

void *tn_oom_malloc(size_t size)
{
    return malloc(size);
}
