/* tenure jobs add, import. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/jobs/jobs.h"

#define INPUT_MAX (256u << 20)

char *cli_jobs_slurp(const struct cli_jobs *j, const char *path, size_t *len)
{
    bool input = strcmp(path, "-") == 0;
    FILE *from = input ? stdin : fopen(path, "re");
    char *text = NULL, part[65536];
    FILE *to = from ? open_memstream(&text, len) : NULL;
    size_t n, total = 0;

    while (to && total <= INPUT_MAX && (n = fread(part, 1, sizeof part, from)) > 0)
        total += fwrite(part, 1, n, to);
    bool well = to && !ferror(from);
    if (!well)
        cli_fail(j->verb, 0, "%s: %s", path, strerror(errno));
    if (from && !input)
        fclose(from);
    if (to && fclose(to) != 0)
        well = false;
    if (well && total > INPUT_MAX) {
        cli_fail(j->verb, 0, "%s: larger than %u bytes", path, INPUT_MAX);
        well = false;
    }
    if (!well)
        free(text);
    return well ? text : NULL;
}

static bool take_weight(const char *text, uint32_t *weight)
{
    char *end;
    unsigned long number = strtoul(text, &end, 10);

    if (*end || end == text || *text == '-' || number < 1 || number > TN_PLAN_WEIGHT_MAX)
        return false;
    *weight = (uint32_t)number;
    return true;
}

static int finish(struct cli_jobs *j, const struct tn_new_job *jobs, size_t n)
{
    struct tenure_error err;
    size_t added = 0;

    if (tn_jobs_add(&j->group, jobs, n, &added, &err))
        return cli_jobs_fail(j, &err);
    if (j->common.json)
        printf("{\"group\":\"%s\",\"added\":%zu,\"there\":%zu}\n", j->group.name, added, n - added);
    else if (added == n)
        printf("%s: %zu job%s added\n", j->group.name, n, n == 1 ? "" : "s");
    else
        printf("%s: %zu added, %zu there already and left as they are\n", j->group.name, added,
               n - added);
    return CLI_OK;
}

/* ---- add ----------------------------------------------------------------- */

int cli_jobs_add(struct cli_jobs *j)
{
    char must[TN_MEMBER_LABELS_MAX + 1] = "", prefer[TN_MEMBER_LABELS_MAX + 1] = "";
    struct tn_new_job *jobs = calloc((size_t)j->n_args + 1, sizeof *jobs);
    struct tenure_error err;
    uint32_t weight = 1;
    size_t spec_len = 0;
    char *spec = NULL;
    int code = CLI_OK;

    if (!jobs)
        return cli_fail(j->verb, CLI_FAILED, "out of memory");
    if (j->weight && !take_weight(j->weight, &weight))
        code = cli_misuse(j->verb, "--weight '%.20s': a number from 1 to %u", j->weight,
                          TN_PLAN_WEIGHT_MAX);
    else if ((j->require && tn_labels_sort(j->require, must, &err)) ||
             (j->prefer && tn_labels_sort(j->prefer, prefer, &err)))
        code = cli_jobs_fail(j, &err);
    else if (j->spec && !(spec = cli_jobs_slurp(j, j->spec, &spec_len)))
        code = CLI_FAILED;
    for (int i = 0; i < j->n_args && !code; i++) {
        const char *fault = tn_jobs_id_fault(j->args[i]);

        jobs[i] = (struct tn_new_job){.id = j->args[i],
                                      .pin = "",
                                      .must = must,
                                      .prefer = prefer,
                                      .weight = weight,
                                      .spec = spec,
                                      .spec_len = spec_len,
                                      .entry = (unsigned)i + 1};
        if (fault)
            code = cli_misuse(j->verb, "'%.60s' cannot be the id of a job: %s", j->args[i], fault);
    }
    if (!code)
        code = finish(j, jobs, (size_t)j->n_args);
    free(spec);
    free(jobs);
    return code;
}

/* ---- import -------------------------------------------------------------- */

/* Labels as "k=v,k=v" or as a mapping; kept in the object, sorted, as `into`. */
static enum tenure_status take_labels(json_t *entry, const char *member, const char *into,
                                      struct tenure_error *err)
{
    json_t *labels = json_object_get(entry, member), *value;
    char text[TN_MEMBER_LABELS_MAX + 1] = "", sorted[TN_MEMBER_LABELS_MAX + 1];
    const char *key;
    size_t n = 0;

    if (json_is_string(labels) && json_string_length(labels) <= TN_MEMBER_LABELS_MAX)
        strcpy(text, json_string_value(labels));
    else if (labels && !json_is_object(labels))
        return tenure_fail(err, TENURE_INVALID, "'%s' is not 'key=value,...' or a mapping", member);
    if (json_is_object(labels)) {
        json_object_foreach(labels, key, value)
        {
            n += (size_t)snprintf(text + n, n < sizeof text ? sizeof text - n : 0, "%s%s=%s",
                                  n ? "," : "", key,
                                  json_is_string(value) ? json_string_value(value) : "?");
            if (n >= sizeof text)
                return tenure_fail(err, TENURE_INVALID, "'%s': labels of more than %d bytes",
                                   member, TN_MEMBER_LABELS_MAX);
        }
    }
    enum tenure_status status = tn_labels_sort(text, sorted, err);
    if (!status && json_object_set_new(entry, into, json_string(sorted)))
        status = tenure_fail(err, TENURE_NOMEM, "out of memory");
    return status;
}

static enum tenure_status refuse_unknown(json_t *entry, struct tenure_error *err)
{
    static const char *const known[] = {"id",  "weight", "require", "prefer",
                                        "pin", "spec",   "@must",   "@prefer"};
    const char *key;
    json_t *value;

    json_object_foreach(entry, key, value)
    {
        size_t i = 0;

        while (i < sizeof known / sizeof known[0] && strcmp(known[i], key) != 0)
            i++;
        if (i == sizeof known / sizeof known[0])
            return tenure_fail(err, TENURE_INVALID,
                               "unknown key '%.40s': a job has id, weight, require, prefer, pin, "
                               "spec",
                               key);
    }
    return TENURE_OK;
}

static const char *text_of(const json_t *entry, const char *member)
{
    const char *text = json_string_value(json_object_get(entry, member));

    return text ? text : "";
}

static enum tenure_status take_entry(json_t *entry, unsigned number, struct tn_new_job *job,
                                     struct tenure_error *err)
{
    const json_t *weight = json_object_get(entry, "weight"), *spec = json_object_get(entry, "spec");
    const char *id = text_of(entry, "id"), *fault = tn_jobs_id_fault(id);
    char digits[24];
    enum tenure_status status;

    *job = (struct tn_new_job){.id = id, .weight = 1, .entry = number};
    snprintf(digits, sizeof digits, "%lld", (long long)json_integer_value(weight));
    if (!json_is_object(entry))
        return tenure_fail(err, TENURE_INVALID, "it is not a mapping with an id");
    if (fault)
        return tenure_fail(err, TENURE_INVALID, "'%.60s' cannot be the id of a job: %s", id, fault);
    if ((status = refuse_unknown(entry, err)))
        return status;
    if (weight &&
        !take_weight(json_is_string(weight) ? json_string_value(weight) : digits, &job->weight))
        return tenure_fail(err, TENURE_INVALID, "weight: a number from 1 to %u",
                           TN_PLAN_WEIGHT_MAX);
    if (spec && !json_is_string(spec))
        return tenure_fail(err, TENURE_INVALID, "spec: a text; quote it, or use a block ('|')");
    job->pin = text_of(entry, "pin");
    if (*job->pin && tn_jobs_id_fault(job->pin))
        return tenure_fail(err, TENURE_INVALID, "pin: %s", tn_jobs_id_fault(job->pin));
    if ((status = take_labels(entry, "require", "@must", err)) ||
        (status = take_labels(entry, "prefer", "@prefer", err)))
        return status;
    job->must = text_of(entry, "@must");
    job->prefer = text_of(entry, "@prefer");
    job->spec = json_string_value(spec);
    job->spec_len = json_string_length(spec);
    return TENURE_OK;
}

int cli_jobs_import(struct cli_jobs *j)
{
    struct tenure_error err;
    struct tn_new_job *jobs = NULL;
    size_t len = 0, n = 0;
    int code = CLI_OK;

    if (j->n_args != 1)
        return cli_misuse(j->verb, "import takes one file, or '-'");
    char *text = cli_jobs_slurp(j, j->args[0], &len);
    if (!text)
        return CLI_FAILED;
    json_t *list = cli_jobs_parse(text, len, &err);
    free(text);
    if (!list)
        return cli_misuse(j->verb, "%s: %s", j->args[0], err.text);
    jobs = calloc(json_array_size(list) + 1, sizeof *jobs);
    for (; jobs && n < json_array_size(list) && !code; n++) {
        if (take_entry(json_array_get(list, n), (unsigned)n + 1, &jobs[n], &err))
            code = cli_misuse(j->verb, "%s: entry %zu: %s", j->args[0], n + 1, err.text);
    }
    if (!code)
        code = jobs ? finish(j, jobs, n) : cli_fail(j->verb, CLI_FAILED, "out of memory");
    free(jobs);
    json_decref(list);
    return code;
}
