/* Registers as messages: their subjects, and what they hold. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "store/nats/nats.h"

/* ---- Subjects ------------------------------------------------------------ */

/* len characters of a key behind what is in out. */
static void append(const char *key, size_t len, char out[TN_NATS_SUBJECT])
{
    size_t n = strlen(out);

    for (size_t i = 0; i < len && n < TN_NATS_SUBJECT - 1; i++)
        out[n++] = (char)(key[i] == '/' ? '.' : key[i] == '.' ? '=' : key[i]);
    out[n] = '\0';
}

void tn_nats_subject(const struct tn_nats *h, const char *key, char out[TN_NATS_SUBJECT])
{
    snprintf(out, TN_NATS_SUBJECT, "$KV.%s.k.", h->conf.bucket);
    append(key, strlen(key), out);
}

void tn_nats_wildcard(const struct tn_nats *h, const char *prefix, char out[TN_NATS_SUBJECT])
{
    const char *end = strrchr(prefix, '/');

    snprintf(out, TN_NATS_SUBJECT, "$KV.%s.k.", h->conf.bucket);
    append(prefix, end ? (size_t)(end - prefix) + 1 : 0, out);
    strcat(out, ">"); /* there is room: a prefix is no longer than a key */
}

bool tn_nats_key(const struct tn_nats *h, const char *subject, char key[TENURE_KEY_MAX + 1])
{
    char base[TN_NATS_SUBJECT];
    size_t n;

    tn_nats_subject(h, "", base);
    n = strlen(base);
    if (strncmp(subject, base, n) != 0 || strlen(subject + n) > TENURE_KEY_MAX)
        return false;
    snprintf(key, TENURE_KEY_MAX + 1, "%s", subject + n);
    for (char *c = key; *c; c++)
        *c = (char)(*c == '.' ? '/' : *c == '=' ? '.' : *c == '/' ? '=' : *c);
    return tenure_key_valid(key);
}

void tn_nats_send_last(struct tn_nats *h, struct tn_nats_call *call, const char *subject)
{
    char body[TN_NATS_SUBJECT + 32];

    snprintf(body, sizeof body, "{\"last_by_subj\":\"%s\"}", subject);
    tn_nats_send_api(h, call, "STREAM.MSG.GET", body);
}

/* ---- Messages ------------------------------------------------------------ */

/* The text of a member that is base64, malloc'ed; an absent one is empty.  NULL: it is not that. */
static char *bytes_of(const json_t *message, const char *name, size_t *len)
{
    const json_t *text = json_object_get(message, name);
    size_t n = json_string_length(text);
    char *out = malloc(n / 4 * 3 + 1);

    *len = 0;
    if (out && (!n || tn_base64_decode(json_string_value(text), n, out, len))) {
        out[*len] = '\0';
        return out;
    }
    free(out);
    return NULL;
}

/* kvStore_Delete() and kvStore_Purge() of NATS's clients leave a message with this header. */
static bool is_deletion(const json_t *message)
{
    size_t len;
    char *headers = bytes_of(message, "hdrs", &len);
    bool deletion = headers && strstr(headers, "KV-Operation:");

    free(headers);
    return deletion;
}

enum tenure_status tn_nats_message(struct tn_nats *h, const struct tn_nats_call *call,
                                   struct tn_nats_message *message, struct tenure_error *err)
{
    json_t *root;
    const json_t *found;
    const char *subject;
    json_int_t seq;
    int code;
    enum tenure_status status = tn_nats_answer(h, call, &root, &code, err);

    memset(message, 0, sizeof *message);
    if (status || code == TN_NATS_NO_MESSAGE) {
        json_decref(root);
        return status;
    }
    found = json_object_get(root, "message");
    subject = json_string_value(json_object_get(found, "subject"));
    seq = json_integer_value(json_object_get(found, "seq"));
    if (code) {
        status = tn_nats_explain(h, root, code, err);
    } else if (!subject || strlen(subject) >= sizeof message->subject || seq <= 0 ||
               !(message->data = bytes_of(found, "data", &message->len))) {
        status = tenure_fail(err, TENURE_UNAVAILABLE, "nats: the answer cannot be understood");
    } else {
        message->seq = (unsigned long long)seq;
        message->deleted = is_deletion(found);
        snprintf(message->subject, sizeof message->subject, "%s", subject);
    }
    json_decref(root);
    return status;
}

void tn_nats_message_free(struct tn_nats_message *message)
{
    free(message->data);
    memset(message, 0, sizeof *message);
}

enum tenure_status tn_nats_decode(const char *key, const struct tn_nats_message *message,
                                  struct tenure_value *value, struct tenure_error *err)
{
    struct tn_frame frame;
    char version[TENURE_VERSION_MAX + 1];

    if (!message->seq || message->deleted)
        return tenure_value_absent(value, err);
    if (!tn_frame_parse(message->data, message->len, &frame))
        return tenure_fail(err, TENURE_CORRUPT,
                           "nats: %s: key %s holds something that tenure did not write; it was not "
                           "touched",
                           message->subject, key);
    snprintf(version, sizeof version, "%llu", message->seq);
    return tn_frame_value(&frame, version, value, err);
}

void tn_nats_mark(const struct tn_nats_message *last, char mark[TENURE_VERSION_MAX + 1])
{
    uint8_t nonce[TENURE_NONCE_SIZE] = {0};
    char hex[TN_NONCE_HEX + 1];

    if (last->seq) /* sequences repeat after a restore, nonces do not */
        tn_frame_nonce(last->data, last->len, nonce);
    tn_hex_encode(nonce, sizeof nonce, hex);
    snprintf(mark, TENURE_VERSION_MAX + 1, "%llu.%s", last->seq, hex);
}

bool tn_nats_seq(const char *version, unsigned long long *seq)
{
    size_t n = strlen(version);

    *seq = strtoull(version, NULL, 10);
    return n > 0 && n <= 18 && version[0] != '0' && strspn(version, "0123456789") == n;
}
