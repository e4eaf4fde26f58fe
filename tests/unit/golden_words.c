/* The words of a line: in order, or as NAME=value wherever they stand. */
#include "golden_words.h"

#include <stdlib.h>
#include <string.h>

#include "base/duration.h"

void words_split(struct words *words, const char *line)
{
    char *rest = words->text;

    snprintf(words->text, sizeof words->text, "%s", line);
    for (char *word; (word = strtok_r(rest, " \t", &rest)) && words->n < WORDS;)
        words->word[words->n++] = word;
}

const char *words_take(struct words *words)
{
    return words->at < words->n ? words->word[words->at++] : "";
}

bool words_take_if(struct words *words, const char *word)
{
    if (words->at == words->n || strcmp(words->word[words->at], word) != 0)
        return false;
    words->at++;
    return true;
}

/* The value of NAME=value, wherever it stands; NULL if it does not.  It is used up. */
const char *words_option(struct words *words, const char *name)
{
    size_t len = strlen(name);

    for (unsigned i = words->at; i < words->n; i++) {
        char *word = words->word[i];

        if (strncmp(word, name, len) == 0 && word[len] == '=') {
            memmove(&words->word[i], &words->word[i + 1],
                    (words->n - i - 1) * sizeof words->word[0]);
            words->n--;
            return word + len + 1;
        }
    }
    return NULL;
}

void words_copy(struct words *words, const char *name, char *to, size_t size)
{
    const char *text = words_option(words, name);

    if (text)
        snprintf(to, size, "%s", text);
}

int64_t words_time(struct words *words, const char *text)
{
    char unit[64];
    int64_t ns = 0;

    snprintf(unit, sizeof unit, "%ss", text);
    if (!tn_duration_parse(unit, &ns))
        print_fault(words->w, "\"%s\" is not a time in seconds", text);
    return ns;
}

int64_t words_duration(struct words *words, const char *name, int64_t other)
{
    const char *text = words_option(words, name);
    bool negative = text && text[0] == '-';

    if (text && !tn_duration_parse(text + negative, &other))
        print_fault(words->w, "\"%s\" is not a duration", text);
    return negative ? -other : other;
}

uint64_t words_number(struct words *words, const char *name, uint64_t other)
{
    const char *text = words_option(words, name);
    char *end = NULL;

    if (!text)
        return other;
    if (strcmp(text, "max") == 0)
        return TN_EPOCH_MAX;
    if (strncmp(text, "max-", 4) == 0)
        return TN_EPOCH_MAX - strtoull(text + 4, NULL, 10);
    other = strtoull(text, &end, 0);
    if (*end)
        print_fault(words->w, "\"%s\" is not a number", text);
    return other;
}

bool words_timing(struct words *words, struct tn_timing *timing)
{
    unsigned before = words->n;
    static const char *const faults[] = {"ok",    "ttl",     "rho",  "kill",
                                         "renew", "request", "poll", "grace"};
    struct tn_timing_wish wish = {
        .ttl_ns = words_duration(words, "ttl", 0),
        .renew_ns = words_duration(words, "renew", 0),
        .kill_ns = words_duration(words, "kill", 0),
        .grace_ns = words_duration(words, "grace", 0),
        .request_ns = words_duration(words, "request", 0),
        .poll_ns = words_duration(words, "poll", 0),
        .rho_ppm = (uint32_t)words_number(words, "rho", 0),
        .notifies = words_take_if(words, "notifies"),
    };
    enum tn_timing_fault fault = tn_timing_plan(&wish, timing);
    char ttl[TEXT], d[TEXT], k[TEXT], renew[TEXT], request[TEXT], retry[TEXT], poll[TEXT],
        grace[TEXT];

    if (fault) {
        fprintf(words->w->out, "  refused: %s\n", faults[fault]);
        return false;
    }
    if (words->n == before)
        return true; /* the usual ones */
    fprintf(words->w->out,
            "  ttl %s  D %s  K %s  renew %s  request %s  retry %s  poll %s  grace %s\n",
            show_time(timing->ttl_ns, ttl), show_time(timing->hold_ns, d),
            show_time(timing->kill_ns, k), show_time(timing->renew_ns, renew),
            show_time(timing->request_ns, request), show_time(timing->retry_ns, retry),
            show_time(timing->poll_ns, poll), show_time(timing->grace_ns, grace));
    return true;
}
