/*
 * The suite through the store that misbehaves on command: as long as it is told
 * nothing it is as good as its inner store, and requests and answers that get
 * lost are no breach of the contract.
 */
#include <stdlib.h>
#include <string.h>

#include "conformance.h"
#include "faultstore.h"

static struct tn_fault_odds odds = {.drop_request = 5, .drop_answer = 5, .spurious = 10};

/* Only changes get lost: an honest client of anything else just asks again. */
static void lose_some(void *arg, const struct tn_fault_event *event, struct tn_fault_plan *plan)
{
    bool wait = event->call == TN_CALL_WAIT;

    if (event->call == TN_CALL_SWAP || wait)
        tn_fault_random(arg, event, plan);
    if (wait && plan->action != TN_FAULT_SPURIOUS)
        plan->action = TN_FAULT_PASS;
}

int main(int argc, char **argv)
{
    const bool lossy = argc > 1 && strcmp(argv[1], "lossy") == 0;
    struct tenure_conformance_options o = {.version = TENURE_CONFORMANCE_OPTIONS, .seconds = 1};
    struct tenure_error err = {0};
    tn_fault *fault = NULL;

    if (tn_fault_new("conformance", "memory:fault", &fault, &err) != TENURE_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 2;
    }
    odds.seed = (uint64_t)tenure_now();
    printf("seed %llu\n", (unsigned long long)odds.seed);
    if (lossy)
        tn_fault_hook(fault, lose_some, &odds);
    int result = tenure_conformance_run("fault:conformance", &o);
    tn_fault_free(fault);
    return result;
}
