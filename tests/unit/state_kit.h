/* state_kit.h - leaders of rising epochs on one store, for the tests of the state. */
#ifndef STATE_KIT_H
#define STATE_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "faultstore.h"
#include "tenure/state.h"

static inline int64_t within_ms(int64_t ms)
{
    return tenure_now() + ms * 1000000;
}

static inline int64_t soon(void)
{
    return within_ms(20000);
}

/* epoch 0: an operator's handle. */
static inline tenure_state *lead(const char *url, uint64_t epoch)
{
    struct tenure_grant grant = {.epoch = epoch};
    struct tenure_error err;
    tenure_state *s = NULL;

    memset(grant.id, (int)(epoch & 0xff), sizeof grant.id);
    if (tenure_state_open(url, "app", epoch ? &grant : NULL, soon(), &s, &err))
        fail_msg("%s", err.text);
    return s;
}

static inline enum tenure_status put_by(tenure_state *s, const char *id, const char *text,
                                        int64_t deadline)
{
    struct tenure_commit c = {.collection = "docs", .id = id, .data = text, .len = strlen(text)};
    struct tenure_error err = {0};
    enum tenure_status status = tenure_state_commit(s, &c, 1, deadline, &err);

    assert_int_equal(status, c.status);
    return status;
}

static inline enum tenure_status put(tenure_state *s, const char *id, const char *text)
{
    return put_by(s, id, text, soon());
}

/* What load() shows; NULL: it does not exist.  Leads: seals it. */
static inline void expect(tenure_state *s, const char *id, const char *text)
{
    struct tenure_document d = {0};
    struct tenure_error err = {0};

    if (tenure_state_load(s, "docs", id, &d, soon(), &err))
        fail_msg("%s", err.text);
    assert_int_equal(d.exists, text != NULL);
    if (text)
        assert_string_equal((char *)d.value.data, text);
    tenure_document_free(&d);
}

static inline void seal(tenure_state *s)
{
    struct tenure_error err = {0};

    if (tenure_state_seal(s, "docs", soon(), &err))
        fail_msg("%s", err.text);
}

/* An operator's edit of what is there now. */
static inline enum tenure_status edit(tenure_state *op, const char *id, const char *text)
{
    struct tenure_document d = {0};
    enum tenure_status status = tenure_state_load(op, "docs", id, &d, soon(), NULL);

    if (!status)
        status = tenure_state_edit(op, "docs", id, &d, text, text ? strlen(text) : 0, soon(), NULL);
    tenure_document_free(&d);
    return status;
}

#endif
