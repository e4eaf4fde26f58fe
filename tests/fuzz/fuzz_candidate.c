/* What a candidate says of itself, on hostile bytes: it fits, can be shown, and can be told on. */
#include <stdint.h>
#include <stdlib.h>

#include "base/key.h"
#include "check.h"
#include "control/control.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_texts(const struct tenure_candidate *c)
{
    CHECK_TEXT(c->id);
    CHECK_TEXT(c->state);
    CHECK_TEXT(c->build);
    CHECK_TEXT(c->address);
    CHECK_TEXT(c->contain);
    CHECK_TEXT(c->since);
    CHECK_TEXT(c->trouble);
    CHECK_TEXT(c->answer);
    CHECK_TEXT(c->boot);
    CHECK_TEXT(c->page);
}

/* Whatever an id holds, its key is one, and under the election's name. */
static void check_key(const char *id)
{
    static const char prefix[] = "some/election/candidates/";
    char key[TENURE_KEY_MAX + 1];

    tn_key_candidate("some/election", id, key);
    assert(tenure_key_valid(key) && strncmp(key, prefix, sizeof prefix - 1) == 0);
    assert(!strchr(key + sizeof prefix - 1, '/') && strlen(key) - sizeof prefix < 42);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tenure_candidate c, again, untouched;
    struct tenure_error err = {0};

    memset(&c, 0x5a, sizeof c);
    c.size = sizeof c;
    again = untouched = c;
    enum tenure_status status = tn_candidate_decode(data, size, &c, &err);
    if (status) {
        check_refusal(&err, status);
        assert(memcmp(&c, &untouched, sizeof c) == 0);
        return 0;
    }
    assert(c.id[0] && c.started_ns >= 0 && c.ended_ns >= 0);
    assert(c.started_epoch <= INT64_MAX && c.ended_epoch <= INT64_MAX);
    check_texts(&c);
    check_key(c.id);
    char *text = tn_candidate_encode(&c);
    assert(text && tn_candidate_decode(text, strlen(text), &again, &err) == TENURE_OK);
    assert(strcmp(c.id, again.id) == 0 && strcmp(c.state, again.state) == 0);
    assert(strcmp(c.build, again.build) == 0 && strcmp(c.address, again.address) == 0);
    assert(strcmp(c.contain, again.contain) == 0 && strcmp(c.since, again.since) == 0);
    assert(strcmp(c.trouble, again.trouble) == 0 && strcmp(c.answer, again.answer) == 0);
    assert(strcmp(c.boot, again.boot) == 0);
    assert(c.healthy == again.healthy && c.priority == again.priority);
    assert(c.started_epoch == again.started_epoch && c.started_ns == again.started_ns);
    assert(c.started_ms == again.started_ms && c.ended_epoch == again.ended_epoch);
    assert(c.ended_ns == again.ended_ns && c.ended_ms == again.ended_ms);
    free(text);
    return 0;
}
