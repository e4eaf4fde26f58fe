/* Where access keys come from. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/object/aws.h"
#include "tenure/store.h"

void tn_aws_keys_free(struct tn_aws_keys *keys)
{
    tn_secret_free(keys->id);
    tn_secret_free(keys->secret);
    tn_secret_free(keys->session);
    memset(keys, 0, sizeof *keys);
}

/* ---- Profiles ------------------------------------------------------------ */

static char *trim(char *text)
{
    char *end = text + strlen(text);

    text += strspn(text, " \t");
    while (end > text && strchr(" \t\r\n", end[-1]))
        *--end = '\0';
    return text;
}

/* The setting of a section of an INI file; "[profile NAME]" is "[NAME]". */
static char *read_setting(const char *path, const char *profile, const char *name)
{
    FILE *file = fopen(path, "re");
    char *line = NULL, *found = NULL;
    size_t size = 0;
    bool inside = false;

    while (file && !found && getline(&line, &size, file) >= 0) {
        char *text = trim(line), *end = strchr(text, ']'), *equals = strchr(text, '=');

        if (*text == '[' && end) {
            *end = '\0';
            text = trim(text + 1);
            if (strncmp(text, "profile ", 8) == 0)
                text = trim(text + 8);
            inside = strcmp(text, profile) == 0;
        } else if (inside && equals && *text != '#' && *text != ';') {
            *equals = '\0';
            if (strcmp(trim(text), name) == 0)
                found = strdup(trim(equals + 1));
        }
    }
    if (line)
        explicit_bzero(line, size);
    free(line);
    if (file)
        fclose(file);
    return found;
}

static const char *profile_name(const char *profile)
{
    const char *name = profile ? profile : getenv("AWS_PROFILE");

    return name && *name ? name : "default";
}

char *tn_aws_profile(const char *profile, const char *name)
{
    static const struct {
        const char *variable, *file;
    } files[] = {{"AWS_SHARED_CREDENTIALS_FILE", "credentials"}, {"AWS_CONFIG_FILE", "config"}};
    char *found = NULL;

    for (size_t i = 0; i < 2 && !found; i++) {
        const char *path = getenv(files[i].variable), *home = getenv("HOME");
        char usual[512];

        if (!path || !*path) {
            snprintf(usual, sizeof usual, "%s/.aws/%s", home ? home : "", files[i].file);
            path = usual;
        }
        found = read_setting(path, profile_name(profile), name);
    }
    return found;
}

/* ---- The chain ----------------------------------------------------------- */

bool tn_aws_keys_complete(struct tn_aws_keys *keys, const char *source)
{
    keys->source = source;
    if (keys->session && !*keys->session) {
        free(keys->session);
        keys->session = NULL;
    }
    if (keys->id && *keys->id && keys->secret && *keys->secret && !strpbrk(keys->id, " \r\n/,") &&
        !(keys->session && strpbrk(keys->session, "\r\n")))
        return true;
    tn_aws_keys_free(keys);
    return false;
}

static char *copy_of(const char *text)
{
    return text ? strdup(text) : NULL;
}

static bool from_environment(struct tn_aws_keys *keys)
{
    keys->id = copy_of(getenv("AWS_ACCESS_KEY_ID"));
    keys->secret = copy_of(getenv("AWS_SECRET_ACCESS_KEY"));
    keys->session = copy_of(getenv("AWS_SESSION_TOKEN"));
    return tn_aws_keys_complete(keys, "the environment");
}

static bool from_profile(const char *profile, struct tn_aws_keys *keys)
{
    keys->id = tn_aws_profile(profile, "aws_access_key_id");
    keys->secret = tn_aws_profile(profile, "aws_secret_access_key");
    keys->session = tn_aws_profile(profile, "aws_session_token");
    return tn_aws_keys_complete(keys, "a profile");
}

static enum tenure_status from_url(const struct tn_aws_choice *choice, struct tn_aws_keys *keys,
                                   struct tenure_error *err)
{
    keys->secret = tn_secret_load(&choice->password, err);
    if (!keys->secret)
        return err->code;
    keys->id = strdup(choice->user);
    return tn_aws_keys_complete(keys, "the URL")
               ? TENURE_OK
               : tenure_fail(err, TENURE_CONFIG, "s3: the user or the password is empty");
}

static enum tenure_status load(const struct tn_aws_choice *choice, struct tn_aws_keys *keys,
                               int64_t deadline, struct tenure_error *err)
{
    enum tenure_status status;

    if (choice->user)
        return from_url(choice, keys, err);
    /* Who names a profile means it. */
    if ((!choice->profile && from_environment(keys)) || from_profile(choice->profile, keys))
        return TENURE_OK;
    status = choice->profile ? tenure_fail(err, TENURE_DENIED, "s3: the profile has no access keys")
                             : tn_aws_role(choice, keys, deadline, err);
    if (status && status != TENURE_CANCELLED && status != TENURE_NOMEM)
        tenure_fail_context(err,
                            "there are no credentials: no AWS_ACCESS_KEY_ID and "
                            "AWS_SECRET_ACCESS_KEY, no profile '%.60s' in ~/.aws/credentials, no "
                            "user= and password_file=, and no role is given out here",
                            profile_name(choice->profile));
    return status;
}

enum tenure_status tn_aws_keys_load(const struct tn_aws_choice *choice, struct tn_aws_keys *keys,
                                    int64_t deadline, struct tenure_error *err)
{
    struct tn_aws_keys fresh = {0};
    enum tenure_status status;
    bool spare;

    if (keys->id && tn_object_lifetime_good(&keys->life))
        return TENURE_OK;
    spare = keys->id && tn_object_lifetime_spare(&keys->life, &deadline);
    status = load(choice, &fresh, deadline, err);
    if (status && spare && status != TENURE_CANCELLED) {
        keys->life.tried_ns = tenure_now();
        return TENURE_OK;
    }
    if (!status) {
        tn_aws_keys_free(keys);
        *keys = fresh;
    }
    return status;
}
