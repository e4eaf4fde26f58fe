#include "os/log.h"

#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"
#define LINE_MAX_BYTES 2560 /* below PIPE_BUF */
#define PATIENCE_MS    20
#define TIME_BYTES     40

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static enum tn_log_format how = TN_LOG_TEXT;
static enum tn_log_level limit = TN_LEVEL_INFO;
static const char *verb = "run";
static enum tn_log_stamp stamp = TN_LOG_STAMP_AUTO;
static bool stamped = true;     /* what it comes to */
static char name[208], id[512]; /* the id as JSON wants it */

/* ---- Levels -------------------------------------------------------------- */

static const char *const levels[] = {"error", "warn", "info", "debug"};

/* What is not here is info.  error: something did not work that should have.  warn: leadership or
 * its safety is affected, or may soon be.  debug: what happens all the time. */
static const struct {
    const char *event;
    enum tn_log_level level;
} told_as[] = {
    {"failed", TN_LEVEL_ERROR},
    {"guard", TN_LEVEL_ERROR},
    {"config", TN_LEVEL_ERROR},
    {"lost", TN_LEVEL_WARN},
    {"fired", TN_LEVEL_WARN},
    {"trouble", TN_LEVEL_WARN},
    {"unhealthy", TN_LEVEL_WARN},
    {"exposed", TN_LEVEL_WARN},
    {"alone", TN_LEVEL_WARN},
    {"hook", TN_LEVEL_WARN},
    {"restarting", TN_LEVEL_WARN},
    {"control", TN_LEVEL_WARN},
    {"token", TN_LEVEL_WARN},
    {"taken", TN_LEVEL_WARN},
    {"certificate-kept", TN_LEVEL_WARN},
    {"socket", TN_LEVEL_WARN},
    {"unsealed", TN_LEVEL_WARN},
    {"replica-refused", TN_LEVEL_WARN},
    {"replica-rewound", TN_LEVEL_WARN},
    {"replica-trouble", TN_LEVEL_WARN},
    {"replica-peer-refused", TN_LEVEL_WARN},
    {"limit", TN_LEVEL_WARN},
    {"warning", TN_LEVEL_WARN},
    {"suspect", TN_LEVEL_WARN},
    {"fencing", TN_LEVEL_WARN},
    {"fenced", TN_LEVEL_WARN},
    {"waiting", TN_LEVEL_WARN},
    {"buried", TN_LEVEL_WARN},
    {"renewed", TN_LEVEL_DEBUG},
    {"planned", TN_LEVEL_DEBUG},
    {"assigned", TN_LEVEL_DEBUG},
    {"released", TN_LEVEL_DEBUG},
    {"probed", TN_LEVEL_DEBUG},
};

static enum tn_log_level level_of(const char *event)
{
    for (size_t i = 0; i < sizeof told_as / sizeof told_as[0]; i++) {
        if (strcmp(event, told_as[i].event) == 0)
            return told_as[i].level;
    }
    return TN_LEVEL_INFO;
}

void tn_log_limit(enum tn_log_level level)
{
    pthread_mutex_lock(&lock);
    limit = level;
    pthread_mutex_unlock(&lock);
}

bool tn_log_wants(enum tn_log_level level)
{
    pthread_mutex_lock(&lock);
    bool wanted = how != TN_LOG_NONE && level <= limit;
    pthread_mutex_unlock(&lock);
    return wanted;
}

/* ---- Lines --------------------------------------------------------------- */

/* JSON wants quotes, backslashes and control characters escaped, terminals those
 * of UTF-8 as well; other characters are passed on, and never half of one. */
static void escape(const char *text, char *out, size_t size)
{
    size_t n = 0;

    for (; *text && n + 7 < size; text++) {
        size_t control = tn_text_control(text);

        text += control > 1 ? control - 1 : 0; /* U+0080 to U+009F end in themselves */
        if (control)
            n += (size_t)snprintf(out + n, size - n, "\\u%04x", (unsigned char)*text);
        else if (*text == '"' || *text == '\\')
            n += (size_t)snprintf(out + n, size - n, "\\%c", *text);
        else
            out[n++] = *text;
    }
    out[n] = '\0';
    tn_text_repair(out, '?');
}

/* Does stderr go to the journal?  A variable of somebody else's session names another stream. */
static bool goes_to_journal(void)
{
    const char *stream = getenv("JOURNAL_STREAM");
    unsigned long long device, inode;
    struct stat st;

    return stream && sscanf(stream, "%llu:%llu", &device, &inode) == 2 &&
           fstat(STDERR_FILENO, &st) == 0 && st.st_dev == device && st.st_ino == inode;
}

/* Under the lock. */
static void decide_stamp(void)
{
    stamped = stamp == TN_LOG_STAMP_ALWAYS || (stamp == TN_LOG_STAMP_AUTO && !goes_to_journal());
}

void tn_log_stamp(enum tn_log_stamp when)
{
    pthread_mutex_lock(&lock);
    stamp = when;
    decide_stamp();
    pthread_mutex_unlock(&lock);
}

void tn_log_as(const char *new_verb)
{
    pthread_mutex_lock(&lock);
    verb = new_verb;
    pthread_mutex_unlock(&lock);
}

void tn_log_setup(enum tn_log_format format, const char *new_name, const char *new_id)
{
    pthread_mutex_lock(&lock);
    how = format != TN_LOG_AUTO ? format : isatty(STDERR_FILENO) ? TN_LOG_TEXT : TN_LOG_JSON;
    escape(new_name, name, sizeof name);
    escape(new_id, id, sizeof id);
    decide_stamp();
    pthread_mutex_unlock(&lock);
}

/* RFC 3339, in UTC. */
static void write_time(char when[TIME_BYTES])
{
    struct timespec now;
    struct tm utc;

    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    size_t n = strftime(when, TIME_BYTES, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(when + n, TIME_BYTES - n, ".%03ldZ", now.tv_nsec / 1000000);
}

static int as_text(const char *text, char *line, size_t size)
{
    char when[TIME_BYTES] = "";

    if (stamped)
        write_time(when);
    return snprintf(line, size, "%s%stenure %s: %s: %s\n", when, stamped ? " " : "", verb, name,
                    text);
}

static int as_json(const char *event, const char *text, char *line, size_t size)
{
    char escaped[1536], when[TIME_BYTES];

    write_time(when);
    escape(text, escaped, sizeof escaped);
    return snprintf(
        line, size,
        "{\"time\":\"%s\",\"level\":\"%s\",\"name\":\"%s\",\"id\":\"%s\",\"event\":\"%s\","
        "\"text\":\"%s\"}\n",
        when, levels[level_of(event)], name, id, event, escaped);
}

/*
 * A reader that stands still (a pipe that is full, a terminal that was paused)
 * costs lines, not leadership: who waits here starts and stops nothing.  A pipe
 * that is ready takes a line of this length without blocking (PIPE_BUF).
 */
static bool somebody_reads(void)
{
    struct pollfd fd = {.fd = STDERR_FILENO, .events = POLLOUT};

    return poll(&fd, 1, PATIENCE_MS) > 0;
}

void tn_log(const char *event, const char *format, ...)
{
    char text[768], line[LINE_MAX_BYTES];
    va_list args;
    int n;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    pthread_mutex_lock(&lock);
    /* One line each, whatever was quoted in it; and nothing that a terminal would act upon. */
    if (how != TN_LOG_JSON)
        tn_text_tame(text, '?');
    if (how == TN_LOG_JSON)
        n = as_json(event, text, line, sizeof line);
    else
        n = as_text(text, line, sizeof line);
    bool silent = how == TN_LOG_NONE || level_of(event) > limit;
    pthread_mutex_unlock(&lock);
    if (n >= (int)sizeof line) {
        n = (int)sizeof line - 1;
        line[n - 1] = '\n';
    }
    if (!silent && somebody_reads() && write(STDERR_FILENO, line, (size_t)n) < 0)
        return; /* nobody listens; leadership goes on */
}

bool tn_log_pass(struct tn_log_gate *gate, int64_t now_ns, int64_t span_ns, unsigned *skipped)
{
    int64_t next = atomic_load(&gate->next_ns);

    if (now_ns < next || !atomic_compare_exchange_strong(&gate->next_ns, &next, now_ns + span_ns)) {
        atomic_fetch_add(&gate->skipped, 1);
        return false;
    }
    *skipped = atomic_exchange(&gate->skipped, 0);
    return true;
}
