#include "tenure/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "tenure/version.h"
#include "tn_version.h"

static const struct {
    const char *word;
    const char *meaning;
    enum tenure_class class_;
} table[] = {
#define TENURE_X(name, value, cls, word_, meaning_) [value] = {word_, meaning_, TENURE_CLASS_##cls},
    TENURE_STATUS_MAP(TENURE_X)
#undef TENURE_X
};

static bool known(enum tenure_status status)
{
    return (unsigned)status < sizeof table / sizeof table[0];
}

const char *tenure_status_word(enum tenure_status status)
{
    return known(status) ? table[status].word : "?";
}

const char *tenure_status_meaning(enum tenure_status status)
{
    return known(status) ? table[status].meaning : "not a status";
}

enum tenure_class tenure_status_class(enum tenure_status status)
{
    return known(status) ? table[status].class_ : TENURE_CLASS_PERMANENT;
}

enum tenure_status tenure_fail(struct tenure_error *err, enum tenure_status status,
                               const char *format, ...)
{
    if (err) {
        va_list args;

        err->code = status;
        va_start(args, format);
        vsnprintf(err->text, sizeof err->text, format, args);
        va_end(args);
        tn_text_tame(err->text, ' '); /* a server's words may hold line breaks */
    }
    return status;
}

enum tenure_status tenure_fail_context(struct tenure_error *err, const char *format, ...)
{
    char context[TENURE_ERROR_TEXT_MAX + 1];
    char text[TENURE_ERROR_TEXT_MAX + 1];
    va_list args;

    if (!err)
        return TENURE_OK;
    va_start(args, format);
    vsnprintf(context, sizeof context, format, args);
    va_end(args);
    memcpy(text, err->text, sizeof text);
    text[TENURE_ERROR_TEXT_MAX] = '\0';
    /* The front survives when both together are too long: it says where. */
    size_t used = strlen(context);
    memcpy(err->text, context, used);
    snprintf(err->text + used, sizeof err->text - used, ": %s", text);
    tn_text_tame(err->text, ' '); /* a server's words may hold line breaks */
    return err->code;
}

const char *tenure_version(void)
{
    return TN_VERSION;
}

unsigned tenure_version_number(void)
{
    return TENURE_VERSION_NUMBER;
}
