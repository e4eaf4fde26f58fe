/* state_script.h - a state over a store whose swaps of one register fare as a script says. */
#ifndef STATE_SCRIPT_H
#define STATE_SCRIPT_H

#include "state_kit.h"

/* What befalls the swaps of one register, in order; then all pass. */
struct script {
    const char *key;
    struct tn_fault_plan swaps[12];
    unsigned n, reads_failed; /* reads of it to fail after the first swap */
    void (*between)(void);    /* called before the read that follows a swap, once */
    void (*ahead)(void);      /* called before the next swap, once */
};

static struct script script;

static inline void follow(void *arg, const struct tn_fault_event *event, struct tn_fault_plan *plan)
{
    (void)arg;
    if (!script.key || !event->key || strcmp(event->key, script.key) != 0)
        return;
    if (event->call == TN_CALL_SWAP && script.ahead) {
        void (*ahead)(void) = script.ahead;

        script.ahead = NULL;
        ahead();
    }
    if (event->call == TN_CALL_SWAP && script.n < 12) {
        *plan = script.swaps[script.n++];
    } else if (event->call == TN_CALL_READ && script.n) {
        void (*between)(void) = script.between;

        script.between = NULL;
        if (between)
            between();
        if (script.reads_failed) {
            script.reads_failed--;
            *plan = (struct tn_fault_plan){.action = TN_FAULT_FAIL, .status = TENURE_UNAVAILABLE};
        }
    }
}

static tn_fault *fault;

static inline int set_up(void **state)
{
    static int number;
    static char inner[32];
    struct tenure_error err;

    snprintf(inner, sizeof inner, "memory:faults%d", ++number);
    if (tn_fault_new("f", inner, &fault, &err))
        fail_msg("%s", err.text);
    memset(&script, 0, sizeof script);
    tn_fault_hook(fault, follow, NULL);
    *state = inner;
    return 0;
}

static inline int tear_down(void **state)
{
    (void)state;
    tn_fault_free(fault);
    return 0;
}

#define X       "app/state/docs/x"
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

static const char *inner_url;

/* Replace the register, whatever it is. */
static inline void write_raw(const char *key, const void *data, size_t len)
{
    struct tenure_value value = {0};
    struct tenure_swap swap = {.key = key, .data = data, .len = len};
    tenure_store *store = NULL;

    assert_int_equal(tenure_store_open(inner_url, soon(), &store, NULL), TENURE_OK);
    assert_int_equal(tenure_store_read(store, key, &value, soon(), NULL), TENURE_OK);
    swap.expect = value.token;
    assert_int_equal(tenure_nonce(swap.nonce, NULL), TENURE_OK);
    assert_int_equal(tenure_store_swap(store, &swap, soon(), NULL), TENURE_OK);
    tenure_value_free(&value);
    tenure_store_close(store);
}

static inline void edit_x(void)
{
    tenure_state *op = lead(inner_url, 0);

    assert_int_equal(edit(op, "x", "edited"), TENURE_OK);
    tenure_state_close(op);
}

#endif
