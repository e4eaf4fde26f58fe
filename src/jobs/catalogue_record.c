/* The registers of the catalogue: its root and its pages. */
#include "jobs/catalogue.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/decimal.h"

#define FIELDS 7

static const char wanted_letters[] = "rpx"; /* by enum tn_wanted */

/* ---- Pages --------------------------------------------------------------- */

void tn_page_free(struct tn_page *page)
{
    free(page->rows);
    free(page->text);
    memset(page, 0, sizeof *page);
}

static bool take_weight(const char *text, uint32_t *weight)
{
    int64_t number = 0;

    if (!tn_take_number(&text, &number) || *text || number < 1 || number > TN_PLAN_WEIGHT_MAX)
        return false;
    *weight = (uint32_t)number;
    return true;
}

static bool are_labels(const char *text)
{
    char sorted[TN_MEMBER_LABELS_MAX + 1];

    return tn_labels_sort(text, sorted, NULL) == TENURE_OK && strcmp(sorted, text) == 0;
}

/* One line, which is taken apart. */
static bool take_row(char *text, struct tn_row *row)
{
    char *fields[FIELDS], *rest = text;
    size_t n = 0;

    memset(row, 0, sizeof *row);
    if (!*text)
        return true;
    for (; rest && n < FIELDS; n++)
        fields[n] = strsep(&rest, "\t");
    if (n != FIELDS || rest || tn_jobs_id_fault(fields[0]) ||
        !take_weight(fields[1], &row->weight) || strlen(fields[2]) != 1 ||
        !strchr(wanted_letters, fields[2][0]) || strlen(fields[3]) != 1 ||
        !strchr("s-", fields[3][0]) || (*fields[4] && tn_jobs_id_fault(fields[4])) ||
        !are_labels(fields[5]) || !are_labels(fields[6]))
        return false;
    row->id = fields[0];
    row->wanted = (enum tn_wanted)(strchr(wanted_letters, fields[2][0]) - wanted_letters);
    row->spec = fields[3][0] == 's';
    row->pin = fields[4];
    row->must = fields[5];
    row->prefer = fields[6];
    return true;
}

static bool take_rows(struct tn_page *page, size_t len)
{
    char *at = page->text, *last = page->text + len;

    if (memchr(page->text, '\0', len))
        return false;
    for (uint32_t i = 0; i < page->count; i++) {
        char *end = memchr(at, '\n', (size_t)(last - at));

        if (!end)
            return false;
        *end = '\0';
        if (!take_row(at, &page->rows[i]))
            return false;
        at = end + 1;
    }
    return at == last;
}

enum tenure_status tn_page_decode(const void *data, size_t len, uint32_t number,
                                  struct tn_page *page, struct tenure_error *err)
{
    struct tn_page p = {0};
    struct tn_line line;
    enum tenure_status status = tn_line_begin(data, len, TN_PAGE_KIND, &line, err);

    if (status)
        return status;
    uint64_t own = tn_line_number(&line, TN_PAGES_MAX);
    p.revision = tn_line_number(&line, TN_EPOCH_MAX);
    p.count = (uint32_t)tn_line_number(&line, TN_PAGE_ROWS);
    status = tn_line_end(&line, TN_PAGE_KIND, err);
    if (status)
        return status;
    if (own != number)
        return tenure_fail(err, TENURE_CORRUPT, TN_PAGE_KIND ": it says that it is page %llu",
                           (unsigned long long)own);
    p.rows = calloc(TN_PAGE_ROWS, sizeof *p.rows);
    p.text = malloc(line.after_len + 1);
    if (!p.rows || !p.text) {
        tn_page_free(&p);
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    }
    memcpy(p.text, line.after, line.after_len);
    p.text[line.after_len] = '\0';
    if (!take_rows(&p, line.after_len)) {
        tn_page_free(&p);
        return tenure_fail(err, TENURE_CORRUPT, TN_PAGE_KIND ": a row is damaged");
    }
    *page = p;
    return TENURE_OK;
}

char *tn_page_encode(const struct tn_page *page, uint32_t number, size_t *len)
{
    char *text = NULL;
    FILE *to = open_memstream(&text, len);

    if (!to)
        return NULL;
    fprintf(to, TN_PAGE_KIND " %d %u %" PRIu64 " %u\n", TN_JOBS_FORMAT, number, page->revision,
            page->count);
    for (uint32_t i = 0; i < page->count; i++) {
        const struct tn_row *row = &page->rows[i];

        if (row->id)
            fprintf(to, "%s\t%u\t%c\t%c\t%s\t%s\t%s", row->id, row->weight,
                    wanted_letters[row->wanted], row->spec ? 's' : '-', row->pin, row->must,
                    row->prefer);
        fputc('\n', to);
    }
    if (fclose(to) == 0)
        return text;
    free(text);
    return NULL;
}

/* ---- The root ------------------------------------------------------------ */

enum tenure_status tn_catalogue_root_decode(const void *data, size_t len, struct tn_catalogue *c,
                                            uint64_t **revisions, uint32_t *pages,
                                            struct tenure_error *err)
{
    struct tn_line line;
    enum tenure_status status = tn_line_begin(data, len, TN_CATALOGUE_KIND, &line, err);

    if (status)
        return status;
    uint64_t revision = tn_line_number(&line, TN_EPOCH_MAX - 1);
    uint32_t active = (uint32_t)tn_line_number(&line, TN_PLAN_MEMBERS_MAX);
    uint32_t count = (uint32_t)tn_line_number(&line, TN_PAGES_MAX);
    status = tn_line_end(&line, TN_CATALOGUE_KIND, err);
    if (status)
        return status;
    const char *at = (const char *)line.after, *end = at + line.after_len;
    uint64_t *list = calloc((size_t)count + 1, sizeof *list);
    /* No number runs beyond the end: the last byte is none of one. */
    bool well = revision > 0 && list && (at == end || end[-1] == '\n');
    for (uint32_t i = 0; i < count && well; i++) {
        int64_t number = 0;

        well = at < end && tn_take_number(&at, &number) && at < end && *at++ == '\n' &&
               number <= (int64_t)TN_EPOCH_MAX;
        list[i] = (uint64_t)number;
    }
    if (!list)
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    if (!well || at != end) {
        free(list);
        return tenure_fail(err, TENURE_CORRUPT, TN_CATALOGUE_KIND ": it is damaged");
    }
    c->revision = revision;
    c->active = active;
    *revisions = list;
    *pages = count;
    return TENURE_OK;
}

char *tn_catalogue_root_encode(const struct tn_catalogue *c, size_t *len)
{
    char *text = NULL;
    FILE *to = open_memstream(&text, len);

    if (!to)
        return NULL;
    fprintf(to, TN_CATALOGUE_KIND " %d %" PRIu64 " %u %u\n", TN_JOBS_FORMAT, c->revision, c->active,
            c->page_count);
    for (uint32_t i = 0; i < c->page_count; i++)
        fprintf(to, "%" PRIu64 "\n", c->pages[i].revision);
    if (fclose(to) == 0)
        return text;
    free(text);
    return NULL;
}
