/*
 * tenure/status.h - the one list of answers, and an error that explains itself.
 *
 * Every call that can fail returns an enum tenure_status and, where the caller
 * passes one, fills a struct tenure_error with a sentence for a person.  The
 * status is for code to branch on; the text is for people and never parsed.
 */
#ifndef TENURE_STATUS_H
#define TENURE_STATUS_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define TENURE_API               __attribute__((visibility("default")))
/* The same, and the compiler warns where the answer is ignored.  Without it: what only waits or
 * looks, and what leaves its answer in an argument too (tenure_swap, tenure_commit). */
#define TENURE_CHECKED           __attribute__((visibility("default"), warn_unused_result))
#define TENURE_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define TENURE_API
#define TENURE_CHECKED
#define TENURE_PRINTF(fmt, args)
#endif

/*
 * X(NAME, value, class, word, meaning)
 *
 * The class says what a caller may do about it:
 *   DONE       nothing is wrong
 *   DEFINITE   a definite answer about the register; retrying as is cannot help
 *   AMBIGUOUS  the request may or may not have taken effect, or still may
 *   TRANSIENT  nothing was changed; the same call may succeed later
 *   PERMANENT  nothing was changed; a person has to change something first
 */
#define TENURE_STATUS_MAP(X)                                                                       \
    X(OK, 0, DONE, "ok", "done")                                                                   \
    X(CONFLICT, 1, DEFINITE, "conflict", "the register is not as expected; nothing was written")   \
    X(UNKNOWN, 2, AMBIGUOUS, "unknown", "the request may or may not take effect")                  \
    X(TIMEOUT, 3, TRANSIENT, "timeout", "the deadline passed; nothing was changed")                \
    X(UNAVAILABLE, 4, TRANSIENT, "unavailable", "the store cannot be reached or used right now")   \
    X(DENIED, 5, PERMANENT, "denied", "credentials or rights are missing")                         \
    X(CONFIG, 6, PERMANENT, "config", "the configuration cannot work")                             \
    X(CORRUPT, 7, PERMANENT, "corrupt", "what is stored cannot be understood; it was not touched") \
    X(UNSUPPORTED, 8, PERMANENT, "unsupported", "this build or this store cannot do that")         \
    X(INVALID, 9, PERMANENT, "invalid", "an argument of the call is not valid")                    \
    X(NOMEM, 10, TRANSIENT, "nomem", "out of memory")                                              \
    X(FENCED, 11, DEFINITE, "fenced", "a later leader has taken over; final for this grant")       \
    X(NOT_LEADER, 12, DEFINITE, "not-leader", "this candidate does not lead")                      \
    X(CANCELLED, 13, TRANSIENT, "cancelled", "interrupted by the caller; nothing was changed")

enum tenure_status {
#define TENURE_X(name, value, class_, word, meaning) TENURE_##name = value,
    TENURE_STATUS_MAP(TENURE_X)
#undef TENURE_X
};

enum tenure_class {
    TENURE_CLASS_DONE,
    TENURE_CLASS_DEFINITE,
    TENURE_CLASS_AMBIGUOUS,
    TENURE_CLASS_TRANSIENT,
    TENURE_CLASS_PERMANENT,
};

#define TENURE_ERROR_TEXT_MAX 511

/*
 * Caller-owned.  `text` is one line, always terminated, without secrets; it
 * gains context at its front on the way up ("lease web: file: /x: No space").
 */
struct tenure_error {
    enum tenure_status code;
    char text[TENURE_ERROR_TEXT_MAX + 1];
};

/* "conflict", "unknown", ...; "?" for a number that is not in the list. */
TENURE_API const char *tenure_status_word(enum tenure_status status);
/* The meaning column above. */
TENURE_API const char *tenure_status_meaning(enum tenure_status status);
TENURE_API enum tenure_class tenure_status_class(enum tenure_status status);

/* Set err (may be NULL) and return status, so that `return tenure_fail(...)` reads well. */
TENURE_API enum tenure_status tenure_fail(struct tenure_error *err, enum tenure_status status,
                                          const char *format, ...) TENURE_PRINTF(3, 4);
/* Put "context: " in front of what err (may be NULL) says.  Returns err's code. */
TENURE_API enum tenure_status tenure_fail_context(struct tenure_error *err, const char *format, ...)
    TENURE_PRINTF(2, 3);

/* The version of the library that runs; version.h has that of the headers. */
TENURE_API const char *tenure_version(void);
/* As TENURE_VERSION_NUMBER. */
TENURE_API unsigned tenure_version_number(void);

#ifdef __cplusplus
}
#endif
#endif
