/*
 * tenure.yaml: whatever it holds, reading ends, with complaints or with a
 * configuration that can be shown; and a secret never shows.
 */
#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/show.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MARKER "S3cr3tS3cr3t"

static const char *variable(void *arg, const char *name)
{
    (void)arg;
    return name[0] == 'P' ? MARKER : name[0] == 'E' ? "" : name[0] == 'V' ? "value" : NULL;
}

static char *file(void *arg, const char *path, struct tenure_error *err)
{
    (void)arg;
    if (path[0] == '/')
        return strdup(MARKER);
    tenure_fail(err, TENURE_DENIED, "password file %.100s: cannot be read", path);
    return NULL;
}

static bool names_marker(const struct tn_config *c)
{
    for (size_t i = 0; i < c->n_elections; i++) {
        const struct tn_config_election *e = &c->elections[i];
        const char *open[] = {e->name.text,
                              e->run.elector.id,
                              e->run.elector.address,
                              e->run.elector.build,
                              e->run.program.user,
                              e->run.program.cwd,
                              e->run.probe.spec,
                              e->run.warm_file,
                              e->run.watchdog,
                              e->run.api.listen[0],
                              e->run.api.listen[0] ? e->run.api.listen[1] : NULL,
                              e->run.api.token_file,
                              e->run.api.tls_cert,
                              e->run.api.tls_client_ca,
                              e->run.api.hosts ? MARKER : NULL};

        for (size_t j = 0; j < sizeof open / sizeof open[0]; j++) {
            if (open[j] && strstr(open[j], MARKER))
                return true; /* put there, where everybody may read it */
        }
        for (size_t j = 0; e->run.seal && e->run.seal[j]; j++) {
            if (strstr(e->run.seal[j], MARKER))
                return true;
        }
    }
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct tn_config_world world = {.variable = variable, .file = file};
    struct tn_config c;
    char *text = malloc(size + 1), *shown = NULL;
    size_t len = 0;

    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    enum tenure_status status = tn_config_read(&c, "fuzz.yaml", text, size, &world);
    assert((status == TENURE_OK) == (c.n_complaints == 0));
    FILE *to = open_memstream(&shown, &len);
    if (status == TENURE_OK)
        tn_config_show(&c, to);
    fclose(to);
    for (unsigned i = 0; i < c.n_complaints && i < TN_CONFIG_COMPLAINTS; i++)
        assert(strncmp(c.complaints[i], "fuzz.yaml:", 10) == 0 && !strchr(c.complaints[i], '\n'));
    json_t *j = tn_config_json(&c);
    char *dump = json_dumps(j, 0);
    if (status == TENURE_OK && !strstr(text, MARKER) && !names_marker(&c)) {
        assert(!strstr(shown, MARKER));
        assert(!dump || !strstr(dump, MARKER));
        assert(c.n_elections > 0 && c.elections[0].timing.hold_ns > 0);
    }
    free(dump);
    json_decref(j);
    free(shown);
    free(text);
    tn_config_free(&c);
    return 0;
}
