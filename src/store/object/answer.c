/* What answers say: tags, and errors by their codes. */
#include <string.h>

#include "store/object/object.h"
#include "store/object/xml.h"

bool tn_object_etag(const char *header, char tag[TN_OBJECT_TAG_MAX + 1])
{
    size_t n = strlen(header);

    if (n > 2 && header[0] == '"' && header[n - 1] == '"') {
        header++;
        n -= 2;
    }
    if (n == 0 || n > TN_OBJECT_TAG_MAX ||
        strspn(header, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_-") < n)
        return false;
    memcpy(tag, header, n);
    tag[n] = '\0';
    return true;
}

void tn_object_error(const struct tn_object_exchange *x, char *code, size_t code_size,
                     char *message, size_t message_size)
{
    struct tn_xml all = {x->answer.body, x->answer.body + x->answer.len}, error;

    *code = *message = '\0';
    if (tn_xml_next(&all, "Error", &error)) {
        tn_xml_text(error, "Code", code, code_size);
        tn_xml_text(error, "Message", message, message_size);
    }
}

void tn_object_fail(struct tn_object_exchange *x, const struct tn_object_fault *faults,
                    const char *service, const char *code, const char *message)
{
    long http = x->answer.code;
    bool definite = (http >= 300 && http < 500 && http != 408);

    for (const struct tn_object_fault *f = faults; f->code; f++) {
        if (strcmp(f->code, code) != 0)
            continue;
        x->status = tenure_fail(&x->err, f->status, "%s", f->words);
        x->again = f->fresh;
        x->lost = x->verb == TN_OBJECT_PUT && !f->definite;
        return;
    }
    if (http >= 300 && http < 400)
        x->status = tenure_fail(&x->err, TENURE_CONFIG,
                                "HTTP %ld: it is elsewhere: set endpoint= (s3: or region=)", http);
    else if (http == 401 || http == 403)
        x->status =
            tenure_fail(&x->err, TENURE_DENIED, "HTTP %ld %s: the login is refused", http, code);
    else if (http == 404 || http == 405)
        x->status = tenure_fail(&x->err, TENURE_CONFIG,
                                "HTTP %ld: this does not answer as %s does; check the endpoint",
                                http, service);
    else
        x->status = tenure_fail(&x->err, TENURE_UNAVAILABLE, "HTTP %ld%s%s%s%s", http,
                                *code ? " " : "", code, *message ? ": " : "", message);
    x->lost = x->verb == TN_OBJECT_PUT && !definite;
}
