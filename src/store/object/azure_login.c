/* Where a login for Azure's storage comes from. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "store/object/azure.h"
#include "tenure/store.h"

#define S        INT64_C(1000000000)
#define RESOURCE "https%%3A%%2F%%2Fstorage.azure.com%%2F" /* in a format */
#define PATIENCE                                                                                   \
    (2 * S) /* whoever answers there is on the same machine, or is not there at all                \
             */
#define MACHINE "http://169.254.169.254"

void tn_azure_login_free(struct tn_azure_login *login)
{
    if (login->secret)
        explicit_bzero(login->secret, login->len);
    free(login->secret);
    memset(login, 0, sizeof *login);
}

static const char *variable(const char *name)
{
    const char *text = getenv(name);

    return text && *text ? text : NULL;
}

/* ---- Secrets that last --------------------------------------------------- */

static enum tenure_status take_key(struct tn_azure_login *login, const char *text,
                                   const char *source, struct tenure_error *err)
{
    size_t n = strlen(text);

    login->secret = malloc(n + 1);
    if (!login->secret)
        return tenure_fail(err, TENURE_NOMEM, "azblob: out of memory");
    if (!tn_base64_decode(text, n, login->secret, &login->len) || login->len == 0) {
        tn_azure_login_free(login);
        return tenure_fail(err, TENURE_CONFIG, "azblob: the account's key of %s is not base64",
                           source);
    }
    login->kind = TN_AZURE_KEY;
    return TENURE_OK;
}

static enum tenure_status take_sas(struct tn_azure_login *login, const char *text,
                                   const char *source, struct tenure_error *err)
{
    text += *text == '?';
    if (!strstr(text, "sig=") || strpbrk(text, " \t\r\n#"))
        return tenure_fail(err, TENURE_CONFIG,
                           "azblob: %s is not a shared access signature (sv=...&sig=...)", source);
    login->secret = strdup(text);
    if (!login->secret)
        return tenure_fail(err, TENURE_NOMEM, "azblob: out of memory");
    login->len = strlen(login->secret);
    login->kind = TN_AZURE_SAS;
    return TENURE_OK;
}

static enum tenure_status from_secret(const struct tn_secret *secret, bool is_sas,
                                      struct tn_azure_login *login, struct tenure_error *err)
{
    char *text = tn_secret_load(secret, err);
    enum tenure_status status;

    if (!text)
        return err->code;
    status =
        (is_sas ? take_sas : take_key)(login, text, is_sas ? "what sas_ names" : "the URL", err);
    tn_secret_free(text);
    return status;
}

/* ---- Tokens that end ----------------------------------------------------- */

/* A request for a token.  Every string is owned. */
struct token_request {
    char *url, *header, *body;
};

static void free_request(struct token_request *rq)
{
    free(rq->url);
    tn_secret_free(rq->header);
    tn_secret_free(rq->body);
}

/* "3599" or 3599. */
static int64_t seconds_of(const json_t *value)
{
    return json_is_string(value) ? strtoll(json_string_value(value), NULL, 10)
                                 : json_integer_value(value);
}

/* Its lifetime counts from before the request was sent. */
static enum tenure_status take_token(struct tn_azure_login *login,
                                     const struct tn_http_answer *answer, int64_t sent,
                                     struct tenure_error *err)
{
    json_t *all = json_loadb(answer->body, answer->len, 0, NULL);
    const char *token = json_string_value(json_object_get(all, "access_token"));
    int64_t lasts = seconds_of(json_object_get(all, "expires_in"));
    enum tenure_status status = TENURE_OK;

    if (answer->code != 200 || !token || strpbrk(token, "\r\n")) {
        const char *why = json_string_value(json_object_get(all, "error_description"));

        status = tenure_fail(err,
                             answer->code == 404 ? TENURE_UNAVAILABLE /* it begins */
                                                 : tn_object_fetch_status(answer->code),
                             "HTTP %ld: no token for storage: %.200s", answer->code,
                             why ? why : "is an identity assigned here?");
    } else if (!(login->secret = strdup(token))) {
        status = tenure_fail(err, TENURE_NOMEM, "out of memory");
    } else {
        login->kind = TN_AZURE_BEARER;
        login->len = strlen(token);
        tn_object_lifetime_set(&login->life, lasts > 0 ? lasts - (tenure_now() - sent) / S : 3600);
    }
    json_decref(all);
    return status;
}

static enum tenure_status fetch_token(const struct tn_object_conf *conf,
                                      const struct token_request *rq, struct tn_azure_login *login,
                                      int64_t deadline, struct tenure_error *err)
{
    const struct tn_object_fetch f = {
        .url = rq->url, .header = rq->header, .body = rq->body, .cancel_fd = conf->http.cancel_fd};
    struct tn_http_answer answer = {0};
    int64_t sent = tenure_now();
    enum tenure_status status = tn_object_fetch(&f, deadline, &answer, err);

    if (!status)
        status = take_token(login, &answer, sent, err);
    if (status && status != TENURE_CANCELLED)
        tenure_fail_context(err, "azblob: %.*s", (int)strcspn(rq->url, "?"), rq->url);
    tn_object_fetch_free(&answer);
    return status;
}

/* A pod of AKS: the cluster's token in a file is exchanged for one of Azure's. */
static enum tenure_status ask_authority(struct token_request *rq, struct tenure_error *err)
{
    const char *host = variable("AZURE_AUTHORITY_HOST");
    const struct tn_secret file = {.file = variable("AZURE_FEDERATED_TOKEN_FILE")};
    char *assertion = tn_secret_load(&file, err), *escaped;

    if (!assertion)
        return err->code;
    escaped = tn_object_escape(assertion, false);
    tn_secret_free(assertion);
    host = host ? host : "https://login.microsoftonline.com/";
    if (!escaped ||
        asprintf(&rq->url, "%s%s%s/oauth2/v2.0/token", host,
                 host[strlen(host) - 1] == '/' ? "" : "/", variable("AZURE_TENANT_ID")) < 0)
        rq->url = NULL;
    rq->header = strdup("Content-Type: application/x-www-form-urlencoded");
    if (!escaped ||
        asprintf(&rq->body,
                 "grant_type=client_credentials&client_id=%s&scope=" RESOURCE ".default"
                 "&client_assertion_type=urn%%3Aietf%%3Aparams%%3Aoauth%%3Aclient-assertion-type"
                 "%%3Ajwt-bearer&client_assertion=%s",
                 variable("AZURE_CLIENT_ID"), escaped) < 0)
        rq->body = NULL;
    tn_secret_free(escaped);
    return rq->url && rq->header && rq->body
               ? TENURE_OK
               : tenure_fail(err, TENURE_NOMEM, "azblob: out of memory");
}

/* A machine, or a service that runs programs: there is somebody to ask beside it. */
static enum tenure_status ask_machine(struct token_request *rq, struct tenure_error *err)
{
    const char *service = variable("IDENTITY_ENDPOINT"), *client = variable("AZURE_CLIENT_ID");
    const char *header = variable("IDENTITY_HEADER"),
               *machine = variable("AZURE_POD_IDENTITY_AUTHORITY_HOST");
    bool beside = service && header;
    int n;

    if (beside)
        n = asprintf(&rq->url, "%s?api-version=2019-08-01&resource=" RESOURCE "%s%s", service,
                     client ? "&client_id=" : "", client ? client : "");
    else
        n = asprintf(
            &rq->url,
            "%s/metadata/identity/oauth2/token?api-version=2018-02-01&resource=" RESOURCE "%s%s",
            machine ? machine : MACHINE, client ? "&client_id=" : "", client ? client : "");
    if (n < 0)
        rq->url = NULL;
    if (asprintf(&rq->header, "%s: %s", beside ? "X-IDENTITY-HEADER" : "Metadata",
                 beside ? header : "true") < 0)
        rq->header = NULL;
    return rq->url && rq->header ? TENURE_OK
                                 : tenure_fail(err, TENURE_NOMEM, "azblob: out of memory");
}

static enum tenure_status from_identity(const struct tn_object_conf *conf,
                                        struct tn_azure_login *login, int64_t deadline,
                                        struct tenure_error *err)
{
    struct token_request rq = {0};
    bool workload = variable("AZURE_FEDERATED_TOKEN_FILE") && variable("AZURE_TENANT_ID") &&
                    variable("AZURE_CLIENT_ID");
    enum tenure_status status = (workload ? ask_authority : ask_machine)(&rq, err);

    if (!workload && deadline > tenure_now() + PATIENCE)
        deadline = tenure_now() + PATIENCE;
    if (!status)
        status = fetch_token(conf, &rq, login, deadline, err);
    if (status && !workload && status != TENURE_NOMEM && status != TENURE_CANCELLED)
        tenure_fail_context(err, "there is no password_file=, sas_file=, AZURE_STORAGE_KEY or "
                                 "AZURE_STORAGE_SAS_TOKEN, and no managed identity answers");
    free_request(&rq);
    return status;
}

/* ---- The chain ----------------------------------------------------------- */

static bool is_given(const struct tn_secret *secret)
{
    return secret->text || secret->file || secret->env;
}

static enum tenure_status load(const struct tn_object_conf *conf, struct tn_azure_login *login,
                               int64_t deadline, struct tenure_error *err)
{
    const char *key = variable("AZURE_STORAGE_KEY"), *sas = variable("AZURE_STORAGE_SAS_TOKEN");

    if (is_given(&conf->remote.password))
        return from_secret(&conf->remote.password, false, login, err);
    if (is_given(&conf->sas))
        return from_secret(&conf->sas, true, login, err);
    if (key)
        return take_key(login, key, "AZURE_STORAGE_KEY", err);
    if (sas)
        return take_sas(login, sas, "AZURE_STORAGE_SAS_TOKEN", err);
    return from_identity(conf, login, deadline, err);
}

enum tenure_status tn_azure_login_load(const struct tn_object_conf *conf,
                                       struct tn_azure_login *login, int64_t deadline,
                                       struct tenure_error *err)
{
    struct tn_azure_login fresh = {0};
    enum tenure_status status;
    bool spare;

    if (login->kind && tn_object_lifetime_good(&login->life))
        return TENURE_OK;
    spare = login->kind && tn_object_lifetime_spare(&login->life, &deadline);
    status = load(conf, &fresh, deadline, err);
    if (status && spare && status != TENURE_CANCELLED) {
        login->life.tried_ns = tenure_now();
        return TENURE_OK;
    }
    if (!status) {
        tn_azure_login_free(login);
        *login = fresh;
    }
    return status;
}
