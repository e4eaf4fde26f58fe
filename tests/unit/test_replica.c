/* One node of a replicated state: its copy and its links, promotion, the set, acknowledging. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/replica/replica.h"

#define DOWN 1u /* a link to a receiver */
#define UP   2u /* a link to a sender */

static struct tn_replica r;
static struct tn_replica_actions out;
static struct tn_replica_config cfg;
static struct tn_replica_set record; /* the register, as the last swap wrote it */
static struct tenure_token token;

static const uint8_t *id(uint8_t name)
{
    static uint8_t ids[256][TENURE_NONCE_SIZE];

    memset(ids[name], name, sizeof ids[name]);
    return ids[name];
}

static void step(struct tn_replica_event ev)
{
    tn_replica_step(&r, &ev, &out);
}
#define STEP(...) step((struct tn_replica_event){__VA_ARGS__})

/* Epoch e was granted to e; each began with one change, at n = 10 e, as far as the chain goes. */
static struct tn_chain chain(uint64_t n, uint64_t first, uint64_t second)
{
    struct tn_chain made = {.n = 0};

    tn_chain_begin(&made, first, id((uint8_t)first));
    if (second > 0) {
        made.n = 9;
        tn_chain_begin(&made, second, id((uint8_t)second));
    }
    made.n = n;
    return made;
}

static struct tn_position at(uint64_t epoch, uint64_t n)
{
    struct tn_position made = {.epoch = epoch, .n = n};

    memcpy(made.grant, id((uint8_t)epoch), sizeof made.grant);
    return made;
}

static struct tn_group group(struct tn_chain c, uint64_t epoch, uint64_t from, uint64_t to)
{
    return (struct tn_group){.epoch = epoch, .chain = c, .from = from, .to = to};
}

static void take(struct tn_group g)
{
    STEP(.kind = TN_REPLICA_GROUP, .link = UP, .group = &g);
}

static void flush(enum tn_write expected)
{
    assert_int_equal(out.write, expected);
    STEP(.kind = TN_REPLICA_FLUSHED);
}

static void acked(uint8_t database, uint64_t epoch, struct tn_position position)
{
    struct tn_replica_ack ack = {.epoch = epoch, .position = position};

    memcpy(ack.database, id(database), sizeof ack.database);
    STEP(.kind = TN_REPLICA_ACK, .link = DOWN, .ack = &ack);
}

static void said_hello(struct tn_chain c, uint64_t epoch)
{
    struct tn_hello hello = {.epoch = epoch, .chain = c};

    memcpy(hello.database, id('b'), sizeof hello.database);
    STEP(.kind = TN_REPLICA_HELLO, .link = DOWN, .hello = &hello);
}

/* A node 'a' at change 5 of epoch 1, with a link each way. */
static void begin(void)
{
    struct tn_copy_head head = {.epoch = 1, .chain = chain(5, 1, 0)};

    memcpy(head.database, id('a'), sizeof head.database);
    memset(&record, 0, sizeof record);
    memset(&token, 0, sizeof token);
    tn_replica_init(&r, &cfg, &head);
    STEP(.kind = TN_REPLICA_UP, .link = DOWN);
    assert_false(out.link[DOWN].hello);
    STEP(.kind = TN_REPLICA_UP, .link = UP, .upstream = true);
    assert_true(out.link[UP].hello);
}

static int set_up(void **unused)
{
    (void)unused;
    cfg = (struct tn_replica_config){.k = 1, .window = 2};
    begin();
    return 0;
}

/* ---- A copy ---------------------------------------------------------------------- */

/* R2, R9: nothing is acknowledged before it is flushed, nor under an epoch that is not. */
static void test_flush_then_acknowledge(void **unused)
{
    (void)unused;
    take(group(chain(7, 1, 0), 1, 5, 7));
    assert_false(out.link[UP].ack);
    assert_int_equal(out.taking, TN_TAKE_PLAIN);
    assert_int_equal(out.common, 5);
    flush(TN_WRITE_APPLY);
    assert_true(out.link[UP].ack);
    assert_int_equal(out.ack.position.n, 7);
    take(group(chain(7, 1, 0), 3, 7, 7)); /* Known, and of an epoch that is not. */
    assert_false(out.link[UP].ack);
    flush(TN_WRITE_HEAD);
    assert_true(out.link[UP].ack);
    assert_int_equal(out.ack.epoch, 3);
    take(group(chain(7, 1, 0), 3, 7, 7));
    assert_true(out.link[UP].ack);
    take(group(chain(9, 1, 0), 3, 7, 8)); /* A part is staged. */
    flush(TN_WRITE_STAGE);
    assert_int_equal(out.ack.position.n, 7);
    take(group(chain(9, 1, 0), 3, 8, 9));
    STEP(.kind = TN_REPLICA_DOWN, .link = UP);
    STEP(.kind = TN_REPLICA_FLUSHED);
    assert_int_equal(r.head.chain.n, 9);
    assert_false(out.link[UP].ack);
}

static void test_groups_that_are_not_taken(void **unused)
{
    struct tn_group bad = group(chain(7, 1, 0), 1, 7, 5);

    (void)unused;
    take(bad);
    assert_int_equal(out.write, TN_WRITE_NOTHING);
    STEP(.kind = TN_REPLICA_REFUSED, .n = 4);
    flush(TN_WRITE_HEAD);
    take(group(chain(7, 1, 0), 3, 5, 7)); /* R9 */
    assert_true(out.link[UP].refuse);
    assert_int_equal(out.epoch, 4);
    /* R6: answered by a hello, once, and again at the next tick. */
    take(group(chain(8, 1, 0), 4, 7, 8));
    assert_true(out.link[UP].hello);
    take(group(chain(8, 1, 0), 4, 7, 8));
    assert_false(out.link[UP].hello);
    STEP(.kind = TN_REPLICA_TICK);
    assert_true(out.link[UP].hello);
}

/* R10: the common point is asked for, with what was changed since; nothing is given up before. */
static void test_rewind(void **unused)
{
    struct tn_group g = group(chain(12, 2, 4), 4, 12, 12);
    struct tn_chain theirs = chain(5, 1, 0);

    (void)unused;
    tn_chain_begin(&theirs, 4, id(4));
    theirs.n = 9;
    r.head.chain = chain(7, 1, 0);
    g = group(theirs, 4, 9, 9);
    take(g);
    flush(TN_WRITE_HEAD);
    assert_true(r.link[UP].rewinds);
    assert_int_equal(tn_replica_hello(&r, UP).wants_from, 5);
    assert_true(tn_replica_hello(&r, UP).rewinds);
    /* Another chain, another point: that is news. */
    take(group(chain(9, 4, 0), 4, 9, 9));
    assert_true(out.link[UP].hello);
    assert_int_equal(tn_replica_hello(&r, UP).wants_from, 0);
    /* A receiver of ours follows the end that is given up. */
    said_hello(chain(7, 1, 0), 4);
    assert_true(out.link[DOWN].status);
    g = group(theirs, 4, 5, 9);
    g.rewinds = true;
    g.rewinder = at(1, 7);
    take(g);
    assert_int_equal(out.taking, TN_TAKE_REWIND);
    assert_int_equal(out.common, 5);
    assert_int_equal(r.head.chain.n, 7);
    flush(TN_WRITE_APPLY);
    assert_int_equal(r.head.chain.n, 9);
    assert_false(tn_replica_hello(&r, UP).rewinds);
    assert_false(out.link[DOWN].send); /* It has to say where it is. */
    STEP(.kind = TN_REPLICA_TICK);
    assert_true(out.link[DOWN].status);
    assert_false(out.link[UP].hello); /* It was fed. */
    STEP(.kind = TN_REPLICA_TICK);
    assert_true(out.link[UP].hello);
}

/* R21: at the commit point, not above. */
static void test_forget(void **unused)
{
    (void)unused;
    STEP(.kind = TN_REPLICA_FORGET);
    assert_int_equal(out.write, TN_WRITE_NOTHING);
    r.head.committed = at(1, 3);
    STEP(.kind = TN_REPLICA_FORGET);
    assert_int_equal(out.head.floor, 3);
    flush(TN_WRITE_FORGET);
    STEP(.kind = TN_REPLICA_FORGET);
    assert_int_equal(out.write, TN_WRITE_NOTHING);
}

/* ---- A sender -------------------------------------------------------------------- */

static void test_sender(void **unused)
{
    struct tn_chain bad = {.n = 3};

    (void)unused;
    said_hello(bad, 1);
    assert_false(r.link[DOWN].greeted);
    said_hello(chain(3, 1, 0), 1);
    assert_true(out.link[DOWN].send);
    assert_int_equal(out.link[DOWN].answer.from, 3);
    assert_int_equal(tn_replica_group(&r).chain.n, 5);
    STEP(.kind = TN_REPLICA_TICK); /* One at a time is read. */
    assert_false(out.link[DOWN].send);
    STEP(.kind = TN_REPLICA_SENT, .link = DOWN, .n = 4);
    assert_int_equal(out.link[DOWN].answer.from, 4);
    STEP(.kind = TN_REPLICA_SENT, .link = DOWN, .n = 4);
    assert_false(out.link[DOWN].send); /* The window is full. */
    STEP(.kind = TN_REPLICA_TICK);
    assert_false(out.link[DOWN].status);
    acked('c', 1, at(1, 3)); /* Another's, forwarded: no credit. */
    assert_false(out.link[DOWN].send);
    acked('b', 1, at(1, 3));
    assert_true(out.link[DOWN].send);
    STEP(.kind = TN_REPLICA_SENT, .link = DOWN, .n = 4);
    r.head.floor = 5; /* What follows may lack deletions. */
    acked('b', 1, at(1, 4));
    assert_false(out.link[DOWN].send);
    r.head.floor = 0;
    said_hello(chain(5, 1, 0), 1); /* Nothing is new; what comes is sent. */
    assert_true(out.link[DOWN].status);
    take(group(chain(6, 1, 0), 1, 5, 6));
    flush(TN_WRITE_APPLY);
    assert_true(out.link[DOWN].send);
    assert_int_equal(out.link[DOWN].answer.from, 5);
    STEP(.kind = TN_REPLICA_REFUSED, .n = 2);
    said_hello(chain(5, 1, 0), 1);
    assert_true(out.link[DOWN].refuse);
    acked('b', 1, at(1, 5));
    assert_true(out.link[DOWN].refuse);
    said_hello(chain(8, 1, 0), 2); /* It is ahead of us. */
    assert_true(out.link[DOWN].status);
    assert_false(r.link[DOWN].flowing);
    said_hello(chain(6, 3, 0), 3); /* As far, on another chain. */
    assert_false(r.link[DOWN].flowing);
}

/* A hub passes on what is new, and once a tick what is not: nothing goes round in circles. */
static void test_forwards(void **unused)
{
    (void)unused;
    acked('b', 1, at(1, 3));
    assert_true(out.link[UP].forward);
    assert_false(out.link[DOWN].forward);
    acked('b', 1, at(1, 3));
    assert_false(out.link[UP].forward);
    STEP(.kind = TN_REPLICA_TICK);
    acked('b', 1, at(1, 3));
    assert_true(out.link[UP].forward);
    STEP(.kind = TN_REPLICA_LOST, .id = id('b')); /* Of no interest here. */
    assert_false(r.acks[0].lost);
    for (unsigned i = 1; i < TN_REPLICA_ACKS; i++)
        acked((uint8_t)(100 + i), 1, at(1, 3));
    acked(99, 1, at(1, 3)); /* The table is full. */
    assert_false(out.link[UP].forward);
}

/* ---- The register ---------------------------------------------------------------- */

static void answer_read(void)
{
    assert_int_equal(out.request, TN_REPLICA_READ_SET);
    STEP(.kind = TN_REPLICA_READ, .status = TENURE_OK, .token = token,
         .set = record.epoch > 0 ? &record : NULL);
}

static void answer_swap(void)
{
    assert_int_equal(out.request, TN_REPLICA_SWAP_SET);
    record = out.set;
    token.version[0]++;
    STEP(.kind = TN_REPLICA_SWAPPED, .status = TENURE_OK, .token = token);
}

static void win(uint64_t epoch, bool force)
{
    STEP(.kind = TN_REPLICA_WON, .n = epoch, .id = id((uint8_t)epoch), .force = force);
    flush(TN_WRITE_DROP);
    assert_int_equal(r.head.epoch, epoch);
    answer_read();
}

static void lead(uint64_t epoch)
{
    win(epoch, false);
    answer_swap();
    assert_false(out.lead);
    flush(TN_WRITE_BEGIN);
    assert_true(out.lead);
}

/* R15: the epoch, the seal, the empty change; then it leads.  R12: with k others for certain. */
static void test_promotion(void **unused)
{
    (void)unused;
    r.head.staging = (struct tn_staging){.taking = TN_TAKE_PLAIN, .to = 6, .far = at(1, 7)};
    lead(2);
    assert_int_equal(r.head.staging.taking, TN_TAKE_NOTHING);
    assert_int_equal(r.head.chain.n, 6);
    assert_int_equal(tn_chain_epoch(&r.head.chain), 2);
    assert_int_equal(record.set.count, 1);
    assert_int_equal(out.acknowledged, 0);
    STEP(.kind = TN_REPLICA_WRITE, .n = 2);
    assert_int_equal(out.head.chain.n, 8);
    flush(TN_WRITE_CHANGES);
    acked('b', 2, at(1, 5)); /* Not all that may have been acknowledged. */
    assert_int_equal(out.request, TN_REPLICA_NO_REQUEST);
    acked('b', 2, at(2, 8));
    assert_int_equal(out.acknowledged, 0); /* It does not count before the swap has landed. */
    answer_swap();
    assert_int_equal(record.set.count, 2);
    assert_int_equal(record.serial, 2);
    assert_int_equal(out.acknowledged, 8);
    STEP(.kind = TN_REPLICA_WRITE, .n = 1);
    assert_int_equal(out.head.committed.n, 8);
    flush(TN_WRITE_CHANGES);
    assert_int_equal(out.acknowledged, 8);
    STEP(.kind = TN_REPLICA_WRITE, .n = 1);
    flush(TN_WRITE_CHANGES);
    acked('b', 2, at(2, 10));
    assert_int_equal(out.acknowledged, 10);
    /* A lost member is replaced, and the swap carries the commit point. */
    STEP(.kind = TN_REPLICA_LOST, .id = id('b'));
    assert_int_equal(out.request, TN_REPLICA_NO_REQUEST);
    acked('c', 2, at(2, 10));
    answer_swap();
    assert_true(tn_set_has(&record.set, id('c')));
    assert_false(tn_set_has(&record.set, id('b')));
    assert_int_equal(record.committed.n, 10);
}

static void test_acks_that_do_not_count(void **unused)
{
    struct tn_replica_ack hub = {.epoch = 2, .position = at(2, 6), .observer = true};

    (void)unused;
    lead(2);
    STEP(.kind = TN_REPLICA_ACK, .link = DOWN, .ack = &hub);
    acked('b', 2, at(1, 6)); /* Not on this chain. */
    assert_int_equal(r.ack_count, 0);
    acked('b', 1, at(2, 6)); /* Given under another epoch. */
    assert_true(out.link[DOWN].refuse);
    /* A full table has room in place of one that is lost and no member. */
    for (unsigned i = 0; i < TN_REPLICA_ACKS; i++)
        acked((uint8_t)(100 + i), 2, at(1, 5));
    STEP(.kind = TN_REPLICA_LOST, .id = id(200));
    acked(200, 2, at(1, 5));
    assert_int_equal(r.ack_count, TN_REPLICA_ACKS);
    STEP(.kind = TN_REPLICA_LOST, .id = id(101));
    acked(200, 2, at(1, 5));
    assert_memory_equal(r.acks[1].id, id(200), TENURE_NONCE_SIZE);
    tn_set_add(&r.landed.set, id(102));
    STEP(.kind = TN_REPLICA_LOST, .id = id(102));
    acked(201, 2, at(1, 5));
    assert_memory_equal(r.acks[2].id, id(102), TENURE_NONCE_SIZE);
}

static void established(void)
{
    record = (struct tn_replica_set){.epoch = 1, .serial = 7, .committed = chain(4, 1, 0)};
    record.set.k = 1;
    tn_set_add(&record.set, id('b'));
    tn_set_add(&record.set, id('c'));
}

static void test_objections(void **unused)
{
    (void)unused;
    STEP(.kind = TN_REPLICA_WON, .n = 1, .id = id(1)); /* Not above what was heard. */
    assert_int_equal(out.release, TN_RELEASE_SEALED);
    established();
    win(2, false);
    assert_int_equal(out.set.epoch, 2); /* Sealed first, then looked at. */
    assert_int_equal(out.set.set.count, 2);
    answer_swap();
    assert_int_equal(out.release, TN_RELEASE_NO_MEMBER);
    assert_int_equal(out.write, TN_WRITE_NOTHING);
    assert_true(out.demoted);
    tn_set_add(&record.set, id('a'));
    record.committed = chain(8, 1, 0);
    win(3, false);
    answer_swap();
    assert_int_equal(out.release, TN_RELEASE_BEHIND);
    assert_int_equal(out.lag, 3);
    record.committed = chain(5, 1, 0);
    win(4, false);
    answer_swap();
    assert_int_equal(out.write, TN_WRITE_BEGIN);
    assert_int_equal(record.set.count, 3);
}

/* promote --force: the operator gives up what others have. */
static void test_force(void **unused)
{
    (void)unused;
    established();
    record.committed = chain(8, 1, 0);
    win(2, true);
    answer_swap();
    flush(TN_WRITE_BEGIN);
    assert_true(out.lead);
    assert_int_equal(record.set.count, 1);
    assert_int_equal(record.set.k, 0);
    assert_int_equal(out.acknowledged, 0); /* k others are wanted again. */
}

static void test_sealed_by_another(void **unused)
{
    (void)unused;
    established();
    record.epoch = 3;
    win(2, false);
    assert_int_equal(out.release, TN_RELEASE_SEALED);
    record.epoch = 4; /* The same epoch, granted to another. */
    win(4, false);
    assert_int_equal(out.release, TN_RELEASE_SEALED);
    /* R17: found by the primary when its own swap fails; so is a register that is gone. */
    memset(&record, 0, sizeof record);
    lead(5);
    acked('b', 5, at(5, 6));
    assert_int_equal(out.request, TN_REPLICA_SWAP_SET);
    record.epoch = 6;
    STEP(.kind = TN_REPLICA_SWAPPED, .status = TENURE_CONFLICT);
    answer_read();
    assert_int_equal(out.release, TN_RELEASE_SEALED);
    assert_true(out.demoted);
    assert_int_equal(r.phase, TN_REPLICA_STANDBY);
}

/* I6, N6: a swap without an answer is neither success nor failure. */
static void test_unknown(void **unused)
{
    struct tn_replica_set lost;

    (void)unused;
    win(2, false);
    lost = out.set;
    STEP(.kind = TN_REPLICA_SWAPPED, .status = TENURE_UNKNOWN);
    assert_int_equal(out.request, TN_REPLICA_READ_SET);
    STEP(.kind = TN_REPLICA_READ, .status = TENURE_UNAVAILABLE);
    assert_int_equal(out.request, TN_REPLICA_NO_REQUEST);
    STEP(.kind = TN_REPLICA_TICK);
    record = lost; /* It had landed. */
    answer_read();
    flush(TN_WRITE_BEGIN);
    acked('b', 2, at(2, 6));
    assert_int_equal(out.request, TN_REPLICA_SWAP_SET);
    lost = out.set;
    STEP(.kind = TN_REPLICA_SWAPPED, .status = TENURE_UNKNOWN);
    answer_read(); /* It has not landed, and may still: the same once more. */
    assert_int_equal(out.request, TN_REPLICA_SWAP_SET);
    assert_int_equal(out.set.serial, lost.serial);
    assert_int_equal(out.acknowledged, 0);
    acked('c', 2, at(2, 6));
    assert_int_equal(out.request, TN_REPLICA_NO_REQUEST);
    STEP(.kind = TN_REPLICA_SWAPPED, .status = TENURE_OK);
    assert_int_equal(out.request, TN_REPLICA_SWAP_SET); /* 'c' comes after it. */
}

/* What was asked in a term that is over is no answer to the next. */
static void test_outdated(void **unused)
{
    (void)unused;
    STEP(.kind = TN_REPLICA_WON, .n = 2, .id = id(2));
    flush(TN_WRITE_DROP);
    assert_int_equal(out.request, TN_REPLICA_READ_SET);
    STEP(.kind = TN_REPLICA_DEMOTE);
    assert_true(out.demoted);
    STEP(.kind = TN_REPLICA_WON, .n = 3, .id = id(3));
    STEP(.kind = TN_REPLICA_DEMOTE);
    flush(TN_WRITE_NOTHING); /* The flush ends after the term. */
    assert_int_equal(r.phase, TN_REPLICA_STANDBY);
    STEP(.kind = TN_REPLICA_DEMOTE);
    assert_false(out.demoted);
    STEP(.kind = TN_REPLICA_WON, .n = 4, .id = id(4));
    flush(TN_WRITE_DROP);
    assert_int_equal(out.request, TN_REPLICA_NO_REQUEST);
    STEP(.kind = TN_REPLICA_READ, .status = TENURE_OK);
    answer_read(); /* Asked again, in this term. */
    answer_swap();
    STEP(.kind = TN_REPLICA_DEMOTE);
    STEP(.kind = TN_REPLICA_FLUSHED); /* The first change is on the disk, and nobody leads. */
    assert_false(out.lead);
    assert_int_equal(tn_chain_epoch(&r.head.chain), 4);
}

/* R9, R17: who hears of a higher epoch does not lead, whoever says so; groups are not taken. */
static void test_higher_epoch(void **unused)
{
    (void)unused;
    lead(2);
    take(group(chain(9, 1, 0), 2, 5, 9));
    assert_int_equal(out.write, TN_WRITE_NOTHING);
    STEP(.kind = TN_REPLICA_TICK);
    assert_false(out.link[UP].hello);
    said_hello(chain(5, 1, 0), 3);
    assert_true(out.demoted);
    assert_int_equal(out.acknowledged, 0);
    flush(TN_WRITE_HEAD);
    assert_int_equal(r.head.epoch, 3);
    /* A deletion is being forgotten while the register is sealed: the first change waits. */
    r.head.committed = at(1, 3);
    memset(&record, 0, sizeof record);
    win(4, false);
    assert_int_equal(out.request, TN_REPLICA_SWAP_SET);
    record = out.set;
    STEP(.kind = TN_REPLICA_FORGET);
    assert_int_equal(out.write, TN_WRITE_FORGET);
    STEP(.kind = TN_REPLICA_SWAPPED, .status = TENURE_OK);
    assert_int_equal(out.write, TN_WRITE_NOTHING);
    STEP(.kind = TN_REPLICA_FLUSHED);
    flush(TN_WRITE_BEGIN);
    assert_true(out.lead);
}

/* R14: in async, no more than U changes beyond what the register says, in this term. */
static void test_async(void **unused)
{
    (void)unused;
    cfg = (struct tn_replica_config){.async = true, .unpublished = 4, .max_lag = 3, .window = 1};
    begin();
    established();
    record.committed = chain(9, 1, 0);
    win(2, false);
    answer_swap();
    assert_int_equal(out.release, TN_RELEASE_BEHIND);
    record.committed = chain(8, 1, 0);
    win(3, false);
    answer_swap();
    assert_int_equal(record.set.count, 0);
    flush(TN_WRITE_BEGIN);
    assert_int_equal(out.acknowledged, 0); /* Nothing of this term is published. */
    STEP(.kind = TN_REPLICA_WRITE, .n = 1);
    assert_int_equal(out.head.committed.n, 0);
    STEP(.kind = TN_REPLICA_FLUSHED);
    record = r.wanted;
    STEP(.kind = TN_REPLICA_SWAPPED, .status = TENURE_OK);
    assert_int_equal(record.committed.n, 6);
    assert_int_equal(out.acknowledged, 7);
    STEP(.kind = TN_REPLICA_WRITE, .n = 1); /* Close enough: nothing to publish. */
    assert_int_equal(out.head.committed.n, 6);
    flush(TN_WRITE_CHANGES);
    assert_int_equal(out.request, TN_REPLICA_NO_REQUEST);
    assert_int_equal(out.acknowledged, 8);
    STEP(.kind = TN_REPLICA_WRITE, .n = 3);
    flush(TN_WRITE_CHANGES);
    assert_int_equal(out.acknowledged, 10); /* 11 is one too many. */
    answer_swap();
    assert_int_equal(out.acknowledged, 11);
    STEP(.kind = TN_REPLICA_TICK);
    assert_int_equal(out.acknowledged, 11);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_flush_then_acknowledge, set_up),
        cmocka_unit_test_setup(test_groups_that_are_not_taken, set_up),
        cmocka_unit_test_setup(test_rewind, set_up),
        cmocka_unit_test_setup(test_forget, set_up),
        cmocka_unit_test_setup(test_sender, set_up),
        cmocka_unit_test_setup(test_forwards, set_up),
        cmocka_unit_test_setup(test_promotion, set_up),
        cmocka_unit_test_setup(test_acks_that_do_not_count, set_up),
        cmocka_unit_test_setup(test_objections, set_up),
        cmocka_unit_test_setup(test_force, set_up),
        cmocka_unit_test_setup(test_sealed_by_another, set_up),
        cmocka_unit_test_setup(test_unknown, set_up),
        cmocka_unit_test_setup(test_outdated, set_up),
        cmocka_unit_test_setup(test_higher_epoch, set_up),
        cmocka_unit_test_setup(test_async, set_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
