/*
 * The control register on hostile bytes.  Who cannot read it pauses; who can
 * finds bounded values, and an edit changes what it is about and nothing else.
 */
#include <stdint.h>
#include <stdlib.h>

#include "check.h"
#include "control/control.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define NAME "fuzz"

static int64_t soon(void)
{
    return tenure_now() + INT64_C(60000000000);
}

static tenure_store *store_with(const uint8_t *data, size_t size)
{
    static tenure_store *store;
    struct tenure_value value = {0};
    struct tenure_swap swap = {.key = NAME "/control", .data = data, .len = size};
    enum tenure_status status = TENURE_OK;

    if (!store)
        status = tenure_store_open("memory:fuzz", soon(), &store, NULL);
    assert(!status);
    status = tenure_store_read(store, swap.key, &value, soon(), NULL);
    assert(!status);
    swap.expect = value.token;
    status = tenure_nonce(swap.nonce, NULL);
    assert(!status);
    status = tenure_store_swap(store, &swap, soon(), NULL);
    assert(!status);
    tenure_value_free(&value);
    return store;
}

static void check_bounds(const struct tenure_control *c)
{
    CHECK_TEXT(c->paused_by);
    CHECK_TEXT(c->paused_at);
    CHECK_TEXT(c->reason);
    CHECK_TEXT(c->request);
    CHECK_TEXT(c->kind);
    CHECK_TEXT(c->to);
    assert(c->for_ms >= 0 && c->for_ms <= 86400000);
    assert(c->epoch <= INT64_MAX && c->roll <= INT64_MAX);
}

static struct tenure_control look(tenure_store *store, enum tenure_status expected)
{
    struct tenure_control c = TENURE_CONTROL;
    enum tenure_status status = tenure_control_look(store, NAME, &c, soon(), NULL);

    assert(status == expected);
    check_bounds(&c);
    return c;
}

static void check_same_request(const struct tenure_control *a, const struct tenure_control *b)
{
    assert(strcmp(a->request, b->request) == 0 && strcmp(a->kind, b->kind) == 0);
    assert(strcmp(a->to, b->to) == 0 && a->epoch == b->epoch && a->for_ms == b->for_ms);
}

static void edit(tenure_store *store, const struct tenure_control *before)
{
    struct tenure_error err = {0};
    enum tenure_status status = tn_control_roll(store, NAME, soon(), &err);
    struct tenure_control c = look(store, TENURE_OK);

    /* One that is full stays as it was. */
    assert(status == TENURE_OK || status == TENURE_CORRUPT);
    assert((c.roll == before->roll) == (status != TENURE_OK));
    assert(c.paused == before->paused && strcmp(c.reason, before->reason) == 0);
    assert(strcmp(c.paused_by, before->paused_by) == 0);
    check_same_request(before, &c);
    status = tenure_control_pause(store, NAME, before->to, before->reason, soon(), &err);
    if (status == TENURE_OK) {
        c = look(store, TENURE_OK);
        assert(c.paused && strcmp(c.reason, before->reason) == 0);
        assert(strcmp(c.paused_by, before->to) == 0);
        check_same_request(before, &c);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tenure_value value = {0};
    struct tenure_control c = TENURE_CONTROL;
    struct tenure_error err = {0};
    tenure_store *store = store_with(data, size);

    if (tenure_value_set(&value, data, size, &err) != TENURE_OK)
        return 0;
    enum tenure_status status = tn_control_decode(&value, &c, &err);
    tenure_value_free(&value);
    check_bounds(&c);
    look(store, status);
    if (status == TENURE_OK) {
        edit(store, &c);
    } else {
        check_refusal(&err, status);
        assert(c.paused && tn_control_roll(store, NAME, soon(), &err) == TENURE_CORRUPT);
    }
    /* An operator's way out always works. */
    status = tenure_control_reset(store, NAME, soon(), &err);
    assert(!status);
    status = tenure_control_resume(store, NAME, soon(), &err);
    assert(!status && !look(store, TENURE_OK).paused);
    return 0;
}
