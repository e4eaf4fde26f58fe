/* What the doctor tells: a line a promise while it goes on, and a verdict at the end. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/duration.h"
#include "base/text.h"
#include "cli/doctor/doctor.h"

#define COLUMNS 80
#define INDENT  24 /* where sentences begin */

static const char *const words[] = {"ok", "weak", "untested", "broken"};

static struct doctor_finding *current(struct doctor *d)
{
    return &d->findings[d->n_findings - 1];
}

/* ---- A check ------------------------------------------------------------- */

static bool live(const struct doctor *d)
{
    return !d->common.json && isatty(STDOUT_FILENO);
}

void doctor_begin(struct doctor *d, const char *name)
{
    struct doctor_finding *f = &d->findings[d->n_findings++];

    memset(f, 0, sizeof *f);
    f->name = name;
    if (live(d)) {
        printf("  %s...%s       %s", cli_dim(), cli_plain(), name);
        fflush(stdout);
    }
}

void doctor_say(struct doctor *d, enum doctor_verdict verdict, const char *format, ...)
{
    struct doctor_finding *f = current(d);
    va_list args;

    if (verdict < f->verdict || (verdict == f->verdict && f->text[0]))
        return;
    f->verdict = verdict;
    va_start(args, format);
    vsnprintf(f->text, sizeof f->text, format, args);
    va_end(args);
    tn_text_repair(f->text, '?');
}

void doctor_say_error(struct doctor *d, const char *what, enum tenure_status status)
{
    /* Rights are a promise too, and are told first; trouble on the way is not the store's word. */
    bool trouble = tenure_status_class(status) == TENURE_CLASS_TRANSIENT ||
                   status == TENURE_UNKNOWN || status == TENURE_DENIED;

    doctor_say(d, trouble ? DOCTOR_UNTESTED : DOCTOR_BROKEN, "%s: '%s'%s%s", what,
               tenure_status_word(status), d->err.text[0] ? ": " : "", d->err.text);
}

bool doctor_well(const struct doctor *d)
{
    return d->findings[d->n_findings - 1].verdict <= DOCTOR_WEAK;
}

void doctor_wrap(const char *text, unsigned indent, unsigned used)
{
    unsigned column = used;

    while (*text) {
        unsigned n = (unsigned)strcspn(text, " ");

        if (column > indent && column + 1 + n > COLUMNS) {
            printf("\n%*s", (int)indent, "");
            column = indent;
        } else if (column > indent) {
            putchar(' ');
            column++;
        }
        printf("%.*s", (int)n, text);
        column += n;
        text += n + (text[n] == ' ');
    }
    putchar('\n');
}

static const char *paint(enum doctor_verdict verdict)
{
    return verdict == DOCTOR_OK ? cli_green() : verdict == DOCTOR_WEAK ? cli_bold() : cli_red();
}

void doctor_end(struct doctor *d)
{
    const struct doctor_finding *f = current(d);

    if (d->common.json)
        return;
    printf("%s  %s%-8s%s  %-12s", live(d) ? "\r\033[K" : "", paint(f->verdict), words[f->verdict],
           cli_plain(), f->name);
    doctor_wrap(f->text, INDENT, INDENT);
    fflush(stdout);
}

const char *doctor_time(int64_t ns, char out[24])
{
    double us = (double)ns / 1e3;

    if (us < 1000)
        snprintf(out, 24, "%.0f us", us);
    else if (us < 1e6)
        snprintf(out, 24, us < 1e5 ? "%.1f ms" : "%.0f ms", us / 1e3);
    else
        snprintf(out, 24, "%.1f s", us / 1e6);
    return out;
}

/* ---- The end ------------------------------------------------------------- */

static void show_json(struct doctor *d, enum doctor_verdict worst)
{
    json_t *promises = json_array(), *limits = json_array();
    const char *const *limit = doctor_limits(d->info.scheme);

    for (unsigned i = 0; i < d->n_findings; i++)
        json_array_append_new(promises, json_pack("{s:s, s:s, s:s}", "name", d->findings[i].name,
                                                  "verdict", words[d->findings[i].verdict], "text",
                                                  d->findings[i].text));
    if (d->info.promise)
        json_array_append_new(limits, json_string(d->info.promise));
    for (; *limit; limit++)
        json_array_append_new(limits, json_string(*limit));
    json_t *all = json_pack("{s:s, s:I, s:s, s:s, s:i}", "store", d->shown, "ttl_ms",
                            (json_int_t)(d->timing.ttl_ns / TN_MS), "verdict", words[worst],
                            "prefix", d->prefix, "tombstones_left", (int)d->left);
    json_object_update(all, d->facts);
    json_object_set_new(all, "promises", promises);
    json_object_set_new(all, "limits", limits);
    json_dumpf(all, stdout, JSON_COMPACT | JSON_REAL_PRECISION(6));
    putchar('\n');
    json_decref(all);
}

static void show_limits(const struct doctor *d)
{
    const char *const *limit = doctor_limits(d->info.scheme);

    if (!d->info.scheme)
        return;
    printf("\nWhat tests cannot show about %s:\n", d->info.scheme);
    printf("  - ");
    doctor_wrap(d->info.promise ? d->info.promise : "", 4, 4);
    for (; *limit; limit++) {
        printf("  - ");
        doctor_wrap(*limit, 4, 4);
    }
}

static void show_end(const struct doctor *d, const unsigned count[4], enum doctor_verdict worst)
{
    static const char *const ends[] = {
        "this store can carry leadership",
        "it can carry leadership; see what is weak",
        "not everything could be tested: see above",
        "do NOT trust leadership to this store",
    };
    char ttl[TN_DURATION_TEXT], text[300];

    show_limits(d);
    if (d->left && d->info.shared) {
        snprintf(text, sizeof text,
                 "%u tombstones of a few bytes stay under %s: a register is never removed, so that "
                 "no late write can bring it back.",
                 d->left, d->prefix);
        putchar('\n');
        doctor_wrap(text, 0, 0);
    }
    tn_duration_format(d->timing.ttl_ns, ttl);
    printf("\n%s%u ok, %u weak, %u broken%s", paint(worst), count[DOCTOR_OK], count[DOCTOR_WEAK],
           count[DOCTOR_BROKEN], cli_plain());
    if (count[DOCTOR_UNTESTED])
        printf(", %u untested", count[DOCTOR_UNTESTED]);
    printf(": %s (ttl %s)\n", ends[worst], ttl);
}

int doctor_conclude(struct doctor *d)
{
    static const int codes[] = {CLI_OK, CLI_OK, CLI_FAILED, CLI_UNSOUND};
    enum doctor_verdict worst = DOCTOR_OK;
    unsigned count[4] = {0};

    for (unsigned i = 0; i < d->n_findings; i++) {
        count[d->findings[i].verdict]++;
        if (d->findings[i].verdict > worst)
            worst = d->findings[i].verdict;
    }
    if (d->common.json)
        show_json(d, worst);
    else
        show_end(d, count, worst);
    if (worst == DOCTOR_UNTESTED && d->misnamed)
        return CLI_USAGE;
    return worst == DOCTOR_WEAK && d->strict ? CLI_WEAK : codes[worst];
}
