/*
 * Configurations and what is said about them.
 *
 *     test_config DIRECTORY       for each NAME.yaml: the output must be NAME.txt
 *     UPDATE=1 test_config DIR    write NAME.txt anew
 *
 * The output is what `tenure config check` prints: complaints, or what takes
 * effect.  Variables and files are invented, and one of them is a canary that
 * must not show anywhere.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/show.h"

#define CANARY "c4n4ry"

static const char *variable(void *arg, const char *name)
{
    static const char *const known[][2] = {{"HOME", "/home/user"},
                                           {"HOSTNAME", "node-1"},
                                           {"PASSWORD", CANARY},
                                           {"EMPTY", ""},
                                           {"PG_URL", "postgres://app:" CANARY "@db/app"},
                                           {"TTL", "20s"}};

    (void)arg;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(name, known[i][0]) == 0)
            return known[i][1];
    }
    return NULL;
}

static char *file(void *arg, const char *path, struct tenure_error *err)
{
    (void)arg;
    if (strcmp(path, "/run/secrets/token") == 0)
        return strdup(CANARY);
    tenure_fail(err, TENURE_DENIED, "password file %s: No such file or directory", path);
    return NULL;
}

static const struct tn_config_world world = {.variable = variable, .file = file};

static char *slurp(const char *path, size_t *len)
{
    FILE *f = fopen(path, "rb");
    char *text = calloc(1, TN_CONFIG_BYTES_MAX + 2);

    *len = f && text ? fread(text, 1, TN_CONFIG_BYTES_MAX + 1, f) : 0;
    if (f)
        fclose(f);
    return text;
}

static char *output_of(const char *name, const char *path)
{
    struct tn_config c = {0};
    size_t len, out_len = 0;
    char *text = slurp(path, &len), *out = NULL;
    FILE *to = open_memstream(&out, &out_len);

    if (tn_config_read(&c, name, text, len, &world) == TENURE_OK)
        tn_config_show(&c, to);
    for (unsigned i = 0; i < c.n_complaints && i < TN_CONFIG_COMPLAINTS; i++)
        fprintf(to, "%s\n", c.complaints[i]);
    fclose(to);
    json_t *j = tn_config_json(&c);
    char *dump = json_dumps(j, 0);
    if (!dump || strstr(dump, CANARY)) {
        free(out);
        out = strdup("the JSON form shows a secret\n");
    }
    free(dump);
    json_decref(j);
    tn_config_free(&c);
    free(text);
    return out;
}

static bool check(const char *dir, const char *name, bool update)
{
    char path[1024], golden[1024];
    size_t len;

    snprintf(path, sizeof path, "%s/%s", dir, name);
    snprintf(golden, sizeof golden, "%s/%.*s.txt", dir, (int)strlen(name) - 5, name);
    char *out = output_of(name, path), *wanted = slurp(golden, &len);
    if (update) {
        FILE *f = fopen(golden, "wb");

        fputs(out, f);
        fclose(f);
    }
    bool ok = (update || strcmp(out, wanted) == 0) && !strstr(out, CANARY);
    if (!ok)
        printf("# %s: got\n%s# wanted\n%s", name, out, wanted);
    free(out);
    free(wanted);
    return ok;
}

static int is_yaml(const struct dirent *entry)
{
    size_t n = strlen(entry->d_name);

    return n > 5 && strcmp(entry->d_name + n - 5, ".yaml") == 0;
}

int main(int argc, char **argv)
{
    const char *dir = argc > 1 ? argv[1] : ".";
    struct dirent **list = NULL;
    int n = scandir(dir, &list, is_yaml, alphasort), failed = n <= 0;

    printf("1..%d\n", n);
    for (int i = 0; i < n; i++) {
        bool ok = check(dir, list[i]->d_name, getenv("UPDATE"));

        printf("%s %d %s\n", ok ? "ok" : "not ok", i + 1, list[i]->d_name);
        failed |= !ok;
        free(list[i]);
    }
    free(list);
    return failed;
}
