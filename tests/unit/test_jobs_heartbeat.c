/* A worker's membership as a timeline: join, renew, lose, leave, and what the deadline is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/jobs/heartbeat.h"

#define NOTHING 0u

/* The times of all timelines: D = 72 s of W = 90 s. */
static const struct tn_timing timing = {.ttl_ns = 90 * TN_S,
                                        .hold_ns = 72 * TN_S,
                                        .kill_ns = TN_S,
                                        .renew_ns = 30 * TN_S,
                                        .request_ns = 10 * TN_S,
                                        .retry_ns = TN_S,
                                        .poll_ns = 20 * TN_S,
                                        .grace_ns = 8 * TN_S};
static const struct tn_member profile = {
    .ttl_ms = 90000, .share = 3, .limit = 9, .format = 1, .labels = "zone=a"};

/* The worker, its register, and the last actions. */
static struct tn_heartbeat h;
static struct tn_beat_actions out;
static struct tn_member record;
static struct tenure_token token;
static bool present;
static uint64_t wall_ms, draws;

static void begin(void)
{
    memset(&record, 0, sizeof record);
    memset(&token, 0, sizeof token);
    present = false;
    wall_ms = 1000;
    draws = 0;
    tn_heartbeat_init(&h, &timing, &profile, 20 * TN_S);
}

static void step(int64_t at_s, struct tn_beat_event ev)
{
    ev.now_ns = at_s * TN_S;
    ev.wall_ms = wall_ms;
    ev.entropy[0] = ++draws;
    ev.entropy[1] = ~draws;
    tn_heartbeat_step(&h, &ev, &out);
    assert_true(out.wake_ns > ev.now_ns);
}

static void event(int64_t at_s, enum tn_beat_kind kind)
{
    step(at_s, (struct tn_beat_event){.kind = kind});
}

static void timer(int64_t at_s, unsigned expected)
{
    event(at_s, TN_BEAT_EV_TIMER);
    assert_int_equal(out.set, expected);
}

/* Somebody writes the register. */
static void write_register(const struct tn_member *m)
{
    record = *m;
    present = true;
    memset(token.nonce, 0, sizeof token.nonce);
    token.nonce[15] = (uint8_t)++draws;
    snprintf(token.version, sizeof token.version, "%llu", (unsigned long long)draws);
}

static void lose_register(void)
{
    present = false;
    memset(&token, 0, sizeof token);
}

/* The swap that is out takes effect, if it expects what is there. */
static enum tenure_status land(void)
{
    if (!tenure_token_equal(&out.expect, &token))
        return TENURE_CONFLICT;
    write_register(&out.record);
    memcpy(token.nonce, out.nonce, sizeof token.nonce);
    return TENURE_OK;
}

static void answer_swap(int64_t at_s, enum tenure_status status)
{
    step(at_s,
         (struct tn_beat_event){.kind = TN_BEAT_EV_SWAPPED, .status = status, .token = token});
}

static void answer_read(int64_t at_s)
{
    step(at_s, (struct tn_beat_event){
                   .kind = TN_BEAT_EV_READ, .token = token, .record = present ? &record : NULL});
}

static void fail_read(int64_t at_s)
{
    step(at_s, (struct tn_beat_event){.kind = TN_BEAT_EV_READ, .status = TENURE_UNAVAILABLE});
}

/* In at 2 s, so that D is at 74 s. */
static void join(void)
{
    begin();
    timer(0, TN_BEAT_READ);
    answer_read(1);
    timer(2, TN_BEAT_SWAP);
    assert_int_equal(land(), TENURE_OK);
    answer_swap(2, TENURE_OK);
    assert_int_equal(h.phase, TN_BEAT_IN);
}

static struct tn_member other(uint64_t number)
{
    struct tn_member m = profile;

    m.identity.number = number;
    m.identity.incarnation[0] = 0xee;
    return m;
}

/* ---- Join ---------------------------------------------------------------- */

static void test_joins(void **unused)
{
    (void)unused;
    begin();
    timer(0, TN_BEAT_READ);
    assert_int_equal(out.request_by_ns, 10 * TN_S);
    assert_int_equal(out.deadline_ns, 0);
    timer(1, NOTHING);         /* one request at a time */
    answer_swap(1, TENURE_OK); /* nothing that was asked for */
    assert_int_equal(h.phase, TN_BEAT_OUT);
    fail_read(2);
    timer(3, TN_BEAT_READ);
    answer_read(4);
    assert_int_equal(out.set, NOTHING);
    assert_int_equal(out.wake_ns, 5 * TN_S);
    answer_read(4); /* nor this */
    timer(5, TN_BEAT_SWAP);
    assert_true(tenure_token_absent(&out.expect));
    assert_int_equal(out.record.identity.number, 1000); /* the wall clock */
    assert_int_equal(out.record.ttl_ms, 90000);
    assert_int_equal(out.record.share, 3);
    assert_int_equal(out.record.flaps, 0);
    assert_string_equal(out.record.labels, "zone=a");
    assert_int_equal(land(), TENURE_OK);
    /* D counts from before the request, not from its answer. */
    answer_swap(9, TENURE_OK);
    assert_int_equal(h.phase, TN_BEAT_IN);
    assert_int_equal(out.deadline_ns, (5 + 72) * TN_S);
    assert_true(tn_heartbeat_holds(&h, 77 * TN_S - 1));
    assert_false(tn_heartbeat_holds(&h, 77 * TN_S));
}

static void test_an_answer_that_comes_too_late(void **unused)
{
    struct tn_identity first;

    (void)unused;
    begin();
    timer(0, TN_BEAT_READ);
    answer_read(1);
    timer(2, TN_BEAT_SWAP);
    first = out.record.identity;
    land();
    /* What is left of it would be all grace: replaced at once, under a fresh incarnation. */
    answer_swap(2 + 72 - 8, TENURE_OK);
    assert_int_equal(h.phase, TN_BEAT_OUT);
    assert_int_equal(out.set, TN_BEAT_SWAP);
    assert_int_equal(out.record.identity.number, first.number + 1);
    assert_memory_not_equal(out.record.identity.incarnation, first.incarnation, TENURE_NONCE_SIZE);
    assert_int_equal(out.record.flaps, 1);
}

static void test_a_join_without_an_answer(void **unused)
{
    (void)unused;
    begin();
    timer(0, TN_BEAT_READ);
    answer_read(1);
    timer(2, TN_BEAT_SWAP);
    land();
    answer_swap(12, TENURE_UNKNOWN);
    timer(13, TN_BEAT_READ);
    answer_read(14); /* our nonce: it took effect */
    assert_int_equal(h.phase, TN_BEAT_IN);
    assert_int_equal(out.deadline_ns, 74 * TN_S);
    /* A record under our nonce that is not what we wrote is nobody's membership. */
    begin();
    timer(0, TN_BEAT_READ);
    answer_read(1);
    timer(2, TN_BEAT_SWAP);
    land();
    record.state = TN_MEMBER_DEAD;
    answer_swap(12, TENURE_UNKNOWN);
    timer(13, TN_BEAT_READ);
    answer_read(14);
    assert_int_equal(h.phase, TN_BEAT_OUT);
}

static void test_waits_for_a_living_namesake(void **unused)
{
    struct tn_member m = other(5000);

    (void)unused;
    begin();
    write_register(&m);
    timer(0, TN_BEAT_READ);
    answer_read(3); /* W counts from here: after the read */
    for (int64_t at = 4; at < 92; at += 2) {
        timer(at, TN_BEAT_READ);
        answer_read(at + 1);
    }
    timer(92, TN_BEAT_READ);
    answer_read(92);
    timer(93, TN_BEAT_SWAP);
    assert_int_equal(out.record.identity.number, 5001);
    assert_true(tenure_token_equal(&out.expect, &token));
    /* It was alive after all. */
    write_register(&m);
    answer_swap(94, land());
    assert_int_equal(out.set, TN_BEAT_READ);
    answer_read(95);
    timer(96, TN_BEAT_READ);
    /* It is dead: no wait.  A number that has been tried is not tried again. */
    m.state = TN_MEMBER_DEAD;
    write_register(&m);
    answer_read(97);
    timer(98, TN_BEAT_SWAP);
    assert_int_equal(out.record.identity.number, 5002);
}

static void test_absence_is_not_death(void **unused)
{
    struct tn_member m = other(7);

    (void)unused;
    begin();
    write_register(&m);
    timer(0, TN_BEAT_READ);
    answer_read(0);
    timer(1, TN_BEAT_READ);
    lose_register();
    answer_read(2);
    timer(3, TN_BEAT_READ);
    answer_read(4);
    timer(91, TN_BEAT_READ);
    answer_read(91);
    timer(92, TN_BEAT_SWAP);
    /* Of one that was dead, its absence says nothing new. */
    begin();
    m.state = TN_MEMBER_DEAD;
    m.identity.number = TN_MEMBER_NUMBER_MAX;
    write_register(&m);
    timer(0, TN_BEAT_READ);
    answer_read(0);
    timer(1, NOTHING); /* there is no number above it */
    event(2, TN_BEAT_EV_TIMER);
    h.must_read = true;
    timer(3, TN_BEAT_READ);
    lose_register();
    answer_read(3);
    timer(4, TN_BEAT_SWAP);
}

/* ---- Renew --------------------------------------------------------------- */

static void test_renews(void **unused)
{
    (void)unused;
    join();
    assert_int_equal(out.wake_ns, 22 * TN_S); /* a poll */
    timer(22, NOTHING);
    assert_int_equal(out.wake_ns, 32 * TN_S);
    h.profile.applied = 4;
    timer(32, TN_BEAT_SWAP);
    assert_int_equal(out.record.renewals, 1);
    assert_int_equal(out.record.applied, 4);
    assert_true(tn_identity_equal(&out.record.identity, &h.identity));
    assert_int_equal(out.deadline_ns, 74 * TN_S); /* not before it has landed */
    land();
    answer_swap(35, TENURE_OK);
    assert_int_equal(out.deadline_ns, (32 + 72) * TN_S);
    event(36, TN_BEAT_EV_REAPED); /* no program runs, for now: that is no reason to go */
    assert_int_equal(h.phase, TN_BEAT_IN);
}

static void test_a_renewal_without_an_answer(void **unused)
{
    (void)unused;
    join();
    timer(32, TN_BEAT_SWAP);
    answer_swap(42, TENURE_UNKNOWN); /* and it has not landed */
    assert_int_equal(out.set, NOTHING);
    assert_int_equal(out.wake_ns, 43 * TN_S);
    timer(43, TN_BEAT_READ);
    fail_read(44);
    assert_int_equal(out.set, NOTHING);
    timer(45, TN_BEAT_READ);
    answer_read(46); /* the join's nonce: renewed again, and D stays */
    assert_int_equal(out.set, TN_BEAT_SWAP);
    assert_int_equal(out.deadline_ns, 74 * TN_S);
    land();
    answer_swap(47, TENURE_UNKNOWN);
    timer(48, TN_BEAT_READ);
    answer_read(49);
    assert_int_equal(out.deadline_ns, (46 + 72) * TN_S);
}

static void test_an_operators_edit_is_adopted(void **unused)
{
    struct tn_member m;

    (void)unused;
    join();
    m = record;
    m.draining = true;
    write_register(&m);
    timer(32, TN_BEAT_SWAP);
    answer_swap(33, land()); /* a conflict is not loss */
    assert_int_equal(out.set, TN_BEAT_READ);
    assert_int_equal(h.phase, TN_BEAT_IN);
    answer_read(34);
    assert_int_equal(out.set, TN_BEAT_SWAP);
    assert_true(out.record.draining);
    assert_int_equal(land(), TENURE_OK);
    answer_swap(35, TENURE_OK);
    assert_int_equal(out.deadline_ns, (34 + 72) * TN_S);
}

/* An operator's drain outlives the incarnation, and the process; a placeholder says nothing. */
static void test_a_drain_outlives_the_incarnation(void **unused)
{
    struct tn_member m = other(7);

    (void)unused;
    begin();
    m.state = TN_MEMBER_LEFT;
    m.draining = true;
    write_register(&m);
    timer(0, TN_BEAT_READ);
    answer_read(1);
    timer(2, TN_BEAT_SWAP);
    assert_true(out.record.draining);
    assert_int_equal(land(), TENURE_OK);
    answer_swap(2, TENURE_OK);
    m = record;
    m.mark = TN_MARK_PLACEHOLDER;
    m.draining = false;
    m.identity.number++;
    write_register(&m);
    timer(32, TN_BEAT_SWAP);
    answer_swap(33, land());
    answer_read(34);
    assert_int_equal(h.phase, TN_BEAT_LOST);
    assert_true(h.profile.draining);
}

/* ---- Lose ---------------------------------------------------------------- */

/* It joins, and its renewal meets what `change` made of its register. */
static void lose_to(void (*change)(struct tn_member *m))
{
    struct tn_member m;

    join();
    m = record;
    change(&m);
    write_register(&m);
    if (m.identity.number == 0)
        lose_register();
    timer(32, TN_BEAT_SWAP);
    answer_swap(33, TENURE_CONFLICT);
    answer_read(34);
    assert_int_equal(h.phase, TN_BEAT_LOST);
    assert_int_equal(out.set, TN_BEAT_STOP);
    assert_int_equal(out.stop_by_ns, (34 + 8) * TN_S);
    assert_int_equal(out.deadline_ns, (34 + 8) * TN_S);
    assert_false(tn_heartbeat_holds(&h, 34 * TN_S));
    timer(36, NOTHING); /* nothing is joined before all is dead */
}

static void make_dead(struct tn_member *m)
{
    m->state = TN_MEMBER_DEAD;
}

static void evict(struct tn_member *m)
{
    m->mark = TN_MARK_EVICTED;
}

static void replace(struct tn_member *m)
{
    *m = other(9000);
}

static void vanish(struct tn_member *m)
{
    m->identity.number = 0;
}

static void test_loses_its_record(void **unused)
{
    (void)unused;
    lose_to(make_dead);
    event(37, TN_BEAT_EV_REAPED);
    assert_int_equal(out.set, TN_BEAT_READ); /* what is there now? */
    answer_read(38);
    timer(39, TN_BEAT_SWAP);
    assert_int_equal(out.record.identity.number, 1001);
    lose_to(replace);
    lose_to(vanish);
    event(37, TN_BEAT_EV_REAPED);
    answer_read(38);
    timer(39, TN_BEAT_SWAP); /* what is lost was its own: no W */
    lose_to(evict);
    event(37, TN_BEAT_EV_REAPED);
    answer_read(38);
    timer(39, TN_BEAT_READ);
    answer_read(40);
    timer(41, TN_BEAT_READ); /* out, until an operator admits it */
}

static void test_the_grace_before_the_deadline(void **unused)
{
    (void)unused;
    join();
    timer(32, TN_BEAT_SWAP);
    assert_int_equal(out.wake_ns, 52 * TN_S);
    timer(60, NOTHING);
    assert_int_equal(out.wake_ns, (74 - 8) * TN_S);
    timer(66, TN_BEAT_STOP); /* no answer that is still out is waited for */
    assert_int_equal(h.phase, TN_BEAT_LOST);
    assert_int_equal(out.stop_by_ns, 74 * TN_S);
    land();
    answer_swap(67, TENURE_OK); /* nothing brings this incarnation back */
    assert_int_equal(h.phase, TN_BEAT_LOST);
    assert_int_equal(out.deadline_ns, 74 * TN_S);
    event(70, TN_BEAT_EV_REAPED);
    assert_int_equal(out.deadline_ns, 0);
    assert_int_equal(out.set, TN_BEAT_READ);
    answer_read(71);
    timer(72, TN_BEAT_SWAP); /* its own record, all reaped: at once, as another */
    assert_int_equal(out.record.identity.number, 1001);
}

static void test_a_read_that_is_out_at_the_deadline(void **unused)
{
    (void)unused;
    join();
    timer(32, TN_BEAT_SWAP);
    answer_swap(42, TENURE_UNKNOWN);
    timer(43, TN_BEAT_READ);
    timer(66, TN_BEAT_STOP);
    answer_read(67);
    assert_int_equal(h.phase, TN_BEAT_LOST);
    assert_int_equal(out.set, NOTHING);
}

static void test_the_guard_fires(void **unused)
{
    (void)unused;
    begin();
    event(0, TN_BEAT_EV_FIRED); /* over nothing */
    assert_int_equal(h.phase, TN_BEAT_OUT);
    join();
    event(10, TN_BEAT_EV_FIRED);
    assert_int_equal(h.phase, TN_BEAT_LOST);
    assert_int_equal(out.set, TN_BEAT_STOP);
}

/* ---- Leave --------------------------------------------------------------- */

static void drain(void)
{
    join();
    event(10, TN_BEAT_EV_LEAVE);
    assert_int_equal(h.phase, TN_BEAT_DRAINING);
    assert_int_equal(out.set, TN_BEAT_STOP);
    assert_int_equal(out.stop_by_ns, 30 * TN_S);
    assert_true(tn_heartbeat_holds(&h, 10 * TN_S));
}

static void test_leaves(void **unused)
{
    (void)unused;
    drain();
    timer(32, TN_BEAT_SWAP); /* it renews while its programs end */
    assert_int_equal(out.record.state, TN_MEMBER_ALIVE);
    land();
    answer_swap(33, TENURE_OK);
    assert_int_equal(out.deadline_ns, (32 + 72) * TN_S);
    event(34, TN_BEAT_EV_REAPED);
    assert_int_equal(out.set, TN_BEAT_SWAP);
    assert_int_equal(out.record.state, TN_MEMBER_LEFT);
    assert_int_equal(land(), TENURE_OK);
    answer_swap(35, TENURE_OK);
    assert_int_equal(out.set, TN_BEAT_HALT);
    timer(36, TN_BEAT_HALT);
    /* Without a membership there is nothing to leave. */
    begin();
    event(0, TN_BEAT_EV_LEAVE);
    assert_int_equal(out.set, TN_BEAT_HALT);
}

static void test_asked_to_leave_while_it_joins(void **unused)
{
    (void)unused;
    begin();
    timer(0, TN_BEAT_READ);
    answer_read(1);
    timer(2, TN_BEAT_SWAP);
    event(3, TN_BEAT_EV_LEAVE);
    assert_int_equal(out.set, NOTHING);
    assert_int_equal(land(), TENURE_OK);
    answer_swap(4, TENURE_OK); /* a member, with nothing that runs: it leaves at once */
    assert_int_equal(out.set, TN_BEAT_SWAP);
    assert_int_equal(out.record.state, TN_MEMBER_LEFT);
    assert_int_equal(out.deadline_ns, 0);
    assert_int_equal(land(), TENURE_OK);
    answer_swap(5, TENURE_OK);
    assert_int_equal(out.set, TN_BEAT_HALT);
}

static void test_a_leave_without_an_answer(void **unused)
{
    (void)unused;
    drain();
    event(12, TN_BEAT_EV_REAPED);
    answer_swap(22, TENURE_UNKNOWN); /* and it has not landed */
    timer(23, TN_BEAT_READ);
    answer_read(24);
    timer(25, TN_BEAT_SWAP);
    assert_int_equal(out.record.state, TN_MEMBER_LEFT);
    land();
    answer_swap(35, TENURE_UNKNOWN);
    timer(36, TN_BEAT_READ);
    answer_read(37);
    assert_int_equal(out.set, TN_BEAT_HALT);
}

static void test_asked_to_leave_when_it_has_lost(void **unused)
{
    (void)unused;
    lose_to(make_dead);
    event(37, TN_BEAT_EV_LEAVE);
    assert_int_equal(h.phase, TN_BEAT_LOST);
    event(38, TN_BEAT_EV_REAPED);
    assert_int_equal(out.set, TN_BEAT_READ);
    answer_read(39);
    assert_int_equal(out.set, TN_BEAT_HALT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_joins),
        cmocka_unit_test(test_an_answer_that_comes_too_late),
        cmocka_unit_test(test_a_join_without_an_answer),
        cmocka_unit_test(test_waits_for_a_living_namesake),
        cmocka_unit_test(test_absence_is_not_death),
        cmocka_unit_test(test_renews),
        cmocka_unit_test(test_a_renewal_without_an_answer),
        cmocka_unit_test(test_an_operators_edit_is_adopted),
        cmocka_unit_test(test_a_drain_outlives_the_incarnation),
        cmocka_unit_test(test_loses_its_record),
        cmocka_unit_test(test_the_grace_before_the_deadline),
        cmocka_unit_test(test_a_read_that_is_out_at_the_deadline),
        cmocka_unit_test(test_the_guard_fires),
        cmocka_unit_test(test_leaves),
        cmocka_unit_test(test_asked_to_leave_while_it_joins),
        cmocka_unit_test(test_a_leave_without_an_answer),
        cmocka_unit_test(test_asked_to_leave_when_it_has_lost),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
