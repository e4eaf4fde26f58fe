/* Faults at random, from one seed. */
#include <pthread.h>

#include "faultstore.h"

static unsigned draw(struct tn_fault_odds *odds)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

    pthread_mutex_lock(&lock);
    odds->seed = odds->seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    unsigned number = (unsigned)(odds->seed >> 33);
    pthread_mutex_unlock(&lock);
    return number;
}

void tn_fault_random(void *arg, const struct tn_fault_event *event, struct tn_fault_plan *plan)
{
    struct tn_fault_odds *odds = arg;
    bool changes = event->call == TN_CALL_SWAP || event->call == TN_CALL_BATCH;
    bool waits = event->call == TN_CALL_WAIT;
    const struct {
        enum tn_fault_action action;
        unsigned percent;
    } rows[] = {
        {TN_FAULT_DROP_REQUEST, odds->drop_request},
        {TN_FAULT_DROP_ANSWER, odds->drop_answer},
        {TN_FAULT_FAIL, odds->fail},
        {TN_FAULT_LATER, changes ? odds->later : 0},
        {TN_FAULT_DEAF, waits ? odds->deaf : 0},
        {TN_FAULT_SPURIOUS, waits ? odds->spurious : 0},
    };
    unsigned number = draw(odds) % 100;

    if (event->call == TN_CALL_OPEN)
        return;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (number < rows[i].percent) {
            plan->action = rows[i].action;
            plan->status = odds->status;
            plan->calls = odds->later_calls ? 1 + draw(odds) % odds->later_calls : 0;
            return;
        }
        number -= rows[i].percent;
    }
}
