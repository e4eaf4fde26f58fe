#include "duration.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Longest name first where one begins with another. */
static const struct {
    const char *name;
    int64_t ns;
} units[] = {
    {"ms", 1000000},
    {"us", 1000},
    {"ns", 1},
    {"s", INT64_C(1000000000)},
    {"m", INT64_C(60) * 1000000000},
    {"h", INT64_C(3600) * 1000000000},
    {"d", INT64_C(86400) * 1000000000},
};
#define N_UNITS (sizeof units / sizeof units[0])

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static int64_t unit_at(const char **text)
{
    for (size_t i = 0; i < N_UNITS; i++) {
        size_t n = strlen(units[i].name);

        if (strncmp(*text, units[i].name, n) == 0) {
            *text += n;
            return units[i].ns;
        }
    }
    return 0;
}

/* One "number unit", added to *total. */
static bool part(const char **text, int64_t *total)
{
    const char *p = *text;
    int64_t whole = 0, fraction = 0, scale = 1, value;

    if (!is_digit(*p))
        return false;
    for (; is_digit(*p); p++) {
        if (__builtin_mul_overflow(whole, 10, &whole) ||
            __builtin_add_overflow(whole, *p - '0', &whole))
            return false;
    }
    if (*p == '.') {
        if (!is_digit(*++p))
            return false;
        for (; is_digit(*p); p++) {
            if (scale == 1000000000)
                continue; /* below a nanosecond of a second: dropped */
            fraction = fraction * 10 + (*p - '0');
            scale *= 10;
        }
    }
    int64_t unit = unit_at(&p);
    if (unit == 0 || __builtin_mul_overflow(whole, unit, &value))
        return false;
    /* 128 bits: a fraction of nine digits times a day does not fit 63. */
    int64_t rest = (int64_t)((__extension__(__int128) fraction) * unit / scale);
    if (__builtin_add_overflow(value, rest, &value) || __builtin_add_overflow(*total, value, total))
        return false;
    *text = p;
    return true;
}

bool tn_duration_parse(const char *text, int64_t *ns)
{
    int64_t total = 0;

    if (strcmp(text, "0") == 0) {
        *ns = 0;
        return true;
    }
    do {
        if (!part(&text, &total))
            return false;
    } while (*text);
    *ns = total;
    return true;
}

void tn_duration_format(int64_t ns, char out[TN_DURATION_TEXT])
{
    /* Seconds above all: "150s" compares at a glance with "15s", "2m30s" does not. */
    static const char *const names[] = {"s", "ms", "us", "ns"};
    int64_t unit = 1000000000;
    int i = 0;

    while (ns % unit != 0) {
        unit /= 1000;
        i++;
    }
    snprintf(out, TN_DURATION_TEXT, "%" PRId64 "%s", ns / unit, names[i]);
}
