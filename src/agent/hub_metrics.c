/* The metrics of several processes as one text: each family once, with the samples of all. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/hub_inner.h"
#include "status/metrics.h"

#define FAMILIES 128

struct family {
    char name[96];
    char *head, *samples;
    size_t head_len, samples_len;
    FILE *head_out, *samples_out;
};

struct merge {
    struct family families[FAMILIES];
    size_t n;
};

/* Those of the agent, which it counts itself. */
static bool ours(const char *name)
{
    return strncmp(name, "tenure_http_", 12) == 0 || strcmp(name, "tenure_build_info") == 0;
}

static struct family *family_of(struct merge *m, const char *name)
{
    for (size_t i = 0; i < m->n; i++) {
        if (strcmp(m->families[i].name, name) == 0)
            return &m->families[i];
    }
    if (m->n == FAMILIES)
        return NULL;
    struct family *f = &m->families[m->n];
    snprintf(f->name, sizeof f->name, "%s", name);
    f->head_out = open_memstream(&f->head, &f->head_len);
    f->samples_out = open_memstream(&f->samples, &f->samples_len);
    m->n++;
    return f;
}

static bool begins(const char *line, size_t n, const char *word)
{
    size_t len = strlen(word);

    return n >= len && memcmp(line, word, len) == 0;
}

/* The name in "# HELP name ..."; false if the line is another one. */
static bool name_in(const char *line, size_t n, char *out, size_t size)
{
    static const char word[] = "# HELP ";
    const char *name = line + sizeof word - 1;
    size_t len = 0;

    if (!begins(line, n, word))
        return false;
    n -= sizeof word - 1;
    while (len < n && len + 1 < size && name[len] != ' ')
        len++;
    memcpy(out, name, len);
    out[len] = '\0';
    return len > 0;
}

/* "# HELP name ..." begins a family, "# TYPE name ..." is the other line of its head.  There is no
 * NUL behind the text. */
static void take_text(struct merge *m, const char *text, size_t len)
{
    struct family *f = NULL;
    bool fresh = false;

    for (const char *at = text, *end; at < text + len; at = end + 1) {
        char name[96];

        end = memchr(at, '\n', (size_t)(text + len - at));
        if (!end)
            return; /* half a line is none */
        size_t n = (size_t)(end - at);
        if (name_in(at, n, name, sizeof name)) {
            f = ours(name) ? NULL : family_of(m, name);
            fresh = f && f->head_out && ftell(f->head_out) == 0;
        }
        if (!f || begins(at, n, "# EOF"))
            continue;
        if (*at == '#' && fresh && f->head_out)
            fwrite(at, 1, n + 1, f->head_out);
        else if (*at != '#' && f->samples_out)
            fwrite(at, 1, n + 1, f->samples_out);
    }
}

/* Whoever does not answer leads nothing; and a leader gauge is always exported. */
static void take_leg(struct merge *m, const struct tn_leg *leg, struct family *up,
                     struct family *leader)
{
    unsigned status = 0;
    size_t len = 0;
    const char *body = tn_leg_body(leg, &status, &len);
    char name[2 * TENURE_NAME_MAX + 4], id[2 * TENURE_ID_MAX + 4];
    bool answered = body && status == 200;

    tn_metrics_label(leg->far->name, name, sizeof name);
    pthread_mutex_lock(&leg->far->hub->lock);
    const char *known = json_string_value(json_object_get(leg->far->last, "id"));
    tn_metrics_label(known ? known : "", id, sizeof id);
    pthread_mutex_unlock(&leg->far->hub->lock);
    if (up && up->samples_out)
        fprintf(up->samples_out, "tenure_election_up{name=\"%s\"} %d\n", name, answered);
    if (answered)
        take_text(m, body, len);
    else if (leader && leader->samples_out)
        fprintf(leader->samples_out, "tenure_leader{name=\"%s\",id=\"%s\"} %d\n", name, id,
                tn_election_leads(leg->far->election));
}

static void print(struct merge *m, FILE *out)
{
    for (size_t i = 0; i < m->n; i++) {
        struct family *f = &m->families[i];

        if (f->head_out)
            fclose(f->head_out);
        if (f->samples_out)
            fclose(f->samples_out);
        if (f->head)
            fwrite(f->head, 1, f->head_len, out);
        if (f->samples)
            fwrite(f->samples, 1, f->samples_len, out);
        free(f->head);
        free(f->samples);
    }
}

char *tn_hub_metrics(struct tn_call *c, const struct tn_http_counts *http, size_t *len)
{
    static const char heads[] =
        "# HELP tenure_leader 1: this candidate leads.\n"
        "# TYPE tenure_leader gauge\n"
        "# HELP tenure_election_up 1: the process of this election answers.\n"
        "# TYPE tenure_election_up gauge\n";
    struct merge *m = calloc(1, sizeof *m);
    char *text = NULL;
    FILE *out = m ? open_memstream(&text, len) : NULL;

    if (out) {
        take_text(m, heads, sizeof heads - 1);
        struct family *leader = family_of(m, "tenure_leader");
        struct family *up = family_of(m, "tenure_election_up");
        for (size_t i = 0; i < c->n; i++)
            take_leg(m, &c->legs[i], up, leader);
        print(m, out);
        tn_metrics_agent(out, http, c->open);
        if (c->open)
            fputs("# EOF\n", out);
        bool failed = ferror(out) != 0;
        failed |= fclose(out) != 0;
        if (failed) {
            free(text);
            text = NULL;
        }
    }
    free(m);
    return text;
}
