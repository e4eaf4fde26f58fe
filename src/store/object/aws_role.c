/* Access keys of a role, which somebody gives out for a while: to a pod, a container, a machine. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "store/object/aws.h"
#include "store/object/object.h"
#include "store/object/xml.h"
#include "tenure/store.h"

#define S       INT64_C(1000000000)
#define MACHINE "http://169.254.169.254"
#define PATIENCE                                                                                   \
    (2 * S) /* whoever answers there is on the same machine, or is not there at all                \
             */
#define TASK "http://169.254.170.2"

static const char *variable(const char *name)
{
    const char *text = getenv(name);

    return text && *text ? text : NULL;
}

/* Ends keys as they say; the machine's clock may be wrong, so that a refusal is what counts. */
static void set_end(struct tn_aws_keys *keys, const char *expiration)
{
    struct tm utc = {0};

    if (!expiration || !strptime(expiration, "%Y-%m-%dT%H:%M:%S", &utc))
        return;
    tn_object_lifetime_set(&keys->life, (int64_t)timegm(&utc) - (int64_t)time(NULL));
}

static char *copy_text(const json_t *all, const char *name)
{
    const char *text = json_string_value(json_object_get(all, name));

    return text ? strdup(text) : NULL;
}

static enum tenure_status take_json(const struct tn_http_answer *answer, const char *source,
                                    struct tn_aws_keys *keys, struct tenure_error *err)
{
    json_t *all = json_loadb(answer->body, answer->len, 0, NULL);

    keys->id = copy_text(all, "AccessKeyId");
    keys->secret = copy_text(all, "SecretAccessKey");
    keys->session = copy_text(all, "Token");
    set_end(keys, json_string_value(json_object_get(all, "Expiration")));
    json_decref(all);
    if (answer->code == 200 && tn_aws_keys_complete(keys, source))
        return TENURE_OK;
    tn_aws_keys_free(keys);
    return tenure_fail(err, tn_object_fetch_status(answer->code), "HTTP %ld: no access keys",
                       answer->code);
}

/* ---- A pod: its token for keys of a role ---------------------------------- */

static enum tenure_status take_xml(const struct tn_http_answer *answer, struct tn_aws_keys *keys,
                                   struct tenure_error *err)
{
    struct tn_xml all = {answer->body, answer->body + answer->len}, found;
    char id[256], secret[256], session[8192], end[64] = "", code[64] = "", message[200] = "";

    if (answer->code == 200 && tn_xml_next(&all, "Credentials", &found) &&
        tn_xml_text(found, "AccessKeyId", id, sizeof id) &&
        tn_xml_text(found, "SecretAccessKey", secret, sizeof secret) &&
        tn_xml_text(found, "SessionToken", session, sizeof session)) {
        keys->id = strdup(id);
        keys->secret = strdup(secret);
        keys->session = strdup(session);
        tn_xml_text(found, "Expiration", end, sizeof end);
        set_end(keys, end);
    }
    explicit_bzero(secret, sizeof secret);
    explicit_bzero(session, sizeof session);
    if (tn_aws_keys_complete(keys, "the pod's role"))
        return TENURE_OK;
    tn_xml_text(all, "Code", code, sizeof code);
    tn_xml_text(all, "Message", message, sizeof message);
    return tenure_fail(err,
                       strcmp(code, "Throttling") == 0 ? TENURE_UNAVAILABLE
                                                       : tn_object_fetch_status(answer->code),
                       "HTTP %ld: the role is refused: %s", answer->code, message);
}

static enum tenure_status from_pod(const struct tn_aws_choice *choice, struct tn_aws_keys *keys,
                                   int64_t deadline, struct tenure_error *err)
{
    const struct tn_secret file = {.file = variable("AWS_WEB_IDENTITY_TOKEN_FILE")};
    const char *session = variable("AWS_ROLE_SESSION_NAME"),
               *sts = variable("AWS_ENDPOINT_URL_STS");
    struct tn_object_fetch f = {.cancel_fd = choice->cancel_fd,
                                .header = "Content-Type: application/x-www-form-urlencoded"};
    struct tn_http_answer answer = {0};
    char *token = tn_secret_load(&file, err), *escaped = NULL, *role = NULL, *name = NULL;
    char *body = NULL, url[200];
    enum tenure_status status;

    if (!token)
        return err->code;
    escaped = tn_object_escape(token, false);
    tn_secret_free(token);
    role = tn_object_escape(variable("AWS_ROLE_ARN"), false);
    name = tn_object_escape(session ? session : "tenure", false);
    if (!escaped || !role || !name ||
        asprintf(&body,
                 "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=%s&RoleSessionName=%s"
                 "&WebIdentityToken=%s",
                 role, name, escaped) < 0)
        body = NULL;
    snprintf(url, sizeof url, "https://sts.%s.amazonaws.com/", choice->region);
    f.url = sts ? sts : url;
    f.body = body;
    status = body ? tn_object_fetch(&f, deadline, &answer, err)
                  : tenure_fail(err, TENURE_NOMEM, "out of memory");
    if (!status)
        status = take_xml(&answer, keys, err);
    if (status && status != TENURE_CANCELLED)
        tenure_fail_context(err, "s3: %s", f.url);
    tn_object_fetch_free(&answer);
    tn_secret_free(body);
    tn_secret_free(escaped);
    free(role);
    free(name);
    return status;
}

/* ---- A container, a machine ----------------------------------------------- */

/* *answer is freed by the caller.  Anything but 200 is DENIED, or UNAVAILABLE. */
static enum tenure_status get(const struct tn_aws_choice *choice, const char *method,
                              const char *url, const char *name, const char *value,
                              int64_t deadline, struct tn_http_answer *answer,
                              struct tenure_error *err)
{
    struct tn_object_fetch f = {.cancel_fd = choice->cancel_fd, .method = method, .url = url};
    char *header = NULL;
    enum tenure_status status;

    if (value && asprintf(&header, "%s: %s", name, value) < 0)
        return tenure_fail(err, TENURE_NOMEM, "s3: out of memory");
    f.header = header;
    status = tn_object_fetch(&f, deadline, answer, err);
    if (!status && answer->code != 200)
        status = tenure_fail(err, tn_object_fetch_status(answer->code), "HTTP %ld: no access keys",
                             answer->code);
    if (status && status != TENURE_CANCELLED)
        tenure_fail_context(err, "s3: %s", url);
    tn_secret_free(header);
    return status;
}

static enum tenure_status from_container(const struct tn_aws_choice *choice,
                                         struct tn_aws_keys *keys, int64_t deadline,
                                         struct tenure_error *err)
{
    const char *relative = variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
    const char *full = variable("AWS_CONTAINER_CREDENTIALS_FULL_URI");
    const struct tn_secret secret = {.file = variable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"),
                                     .text = variable("AWS_CONTAINER_AUTHORIZATION_TOKEN")};
    const struct tn_secret chosen = {.file = secret.file, .text = secret.file ? NULL : secret.text};
    struct tn_http_answer answer = {0};
    char url[600], *token = tn_secret_load(&chosen, err);
    enum tenure_status status;

    if (!token)
        return err->code;
    snprintf(url, sizeof url, "%s%s", relative ? TASK : "", relative ? relative : full);
    status =
        get(choice, "GET", url, "Authorization", *token ? token : NULL, deadline, &answer, err);
    if (!status)
        status = take_json(&answer, "the container's role", keys, err);
    tn_object_fetch_free(&answer);
    tn_secret_free(token);
    return status;
}

/* What is a path, a token or a name in one line; "" if it is none. */
static void take_line(const struct tn_http_answer *answer, char *out, size_t size)
{
    size_t n = answer->body ? strcspn(answer->body, "\r\n") : 0;

    snprintf(out, size, "%.*s", n < size ? (int)n : 0, answer->body ? answer->body : "");
}

static enum tenure_status from_machine(const struct tn_aws_choice *choice, struct tn_aws_keys *keys,
                                       int64_t deadline, struct tenure_error *err)
{
    static const char path[] = "/latest/meta-data/iam/security-credentials/";
    const char *where = variable("AWS_EC2_METADATA_SERVICE_ENDPOINT");
    struct tn_http_answer answer = {0};
    char url[600], token[256], role[128];
    enum tenure_status status;

    where = where ? where : MACHINE;
    if (deadline > tenure_now() + PATIENCE)
        deadline = tenure_now() + PATIENCE;
    snprintf(url, sizeof url, "%s/latest/api/token", where);
    status = get(choice, "PUT", url, "X-aws-ec2-metadata-token-ttl-seconds", "300", deadline,
                 &answer, err);
    take_line(&answer, token, sizeof token);
    tn_object_fetch_free(&answer);
    snprintf(url, sizeof url, "%s%s", where, path);
    if (!status)
        status = get(choice, "GET", url, "X-aws-ec2-metadata-token", token, deadline, &answer, err);
    take_line(&answer, role, sizeof role);
    tn_object_fetch_free(&answer);
    if (!status && (!*role || strpbrk(role, "/?# ")))
        status = tenure_fail(err, TENURE_DENIED, "s3: %s: the machine has no role", where);
    snprintf(url, sizeof url, "%s%s%s", where, path, role);
    if (!status)
        status = get(choice, "GET", url, "X-aws-ec2-metadata-token", token, deadline, &answer, err);
    if (!status)
        status = take_json(&answer, "the machine's role", keys, err);
    tn_object_fetch_free(&answer);
    return status;
}

enum tenure_status tn_aws_role(const struct tn_aws_choice *choice, struct tn_aws_keys *keys,
                               int64_t deadline, struct tenure_error *err)
{
    const char *disabled = variable("AWS_EC2_METADATA_DISABLED");

    if (variable("AWS_WEB_IDENTITY_TOKEN_FILE") && variable("AWS_ROLE_ARN"))
        return from_pod(choice, keys, deadline, err);
    if (variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") ||
        variable("AWS_CONTAINER_CREDENTIALS_FULL_URI"))
        return from_container(choice, keys, deadline, err);
    if (disabled && strcmp(disabled, "true") == 0)
        return tenure_fail(err, TENURE_DENIED, "s3: the machine's role is not to be used");
    return from_machine(choice, keys, deadline, err);
}
