#include "status/facts.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tenure/store.h"

/* A writer is between two stores for nanoseconds; one that is stopped there has not changed
 * lead_until_ns, or has lowered it. */
#define TRIES 8

struct tn_facts *tn_facts_map(int fd)
{
    void *page = mmap(NULL, sizeof(struct tn_facts), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    return page == MAP_FAILED ? NULL : page;
}

struct tn_facts *tn_facts_new(int *fd)
{
    int made = memfd_create("tenure-facts", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    struct tn_facts *facts = NULL;

    /* Sealed: nobody can take the page away from under a reader. */
    if (made >= 0 && ftruncate(made, sizeof(struct tn_facts)) == 0 &&
        fcntl(made, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0)
        facts = tn_facts_map(made);
    if (facts)
        *fd = made;
    else if (made >= 0)
        close(made);
    return facts;
}

void tn_facts_unmap(struct tn_facts *facts)
{
    if (facts)
        munmap(facts, sizeof *facts);
}

void tn_facts_clear(struct tn_facts *f)
{
    tn_facts_lead(f, 0, 0, 0);
    atomic_store(&f->running, false);
    atomic_store(&f->stopping, false);
    atomic_store(&f->answer_ns, 0);
}

void tn_facts_lead(struct tn_facts *f, int64_t lead_until_ns, int64_t deadline_ns, uint64_t epoch)
{
    if (lead_until_ns == 0)
        atomic_store(&f->lead_until_ns, 0);
    if (atomic_load(&f->epoch) != epoch) {
        atomic_store(&f->lead_until_ns, 0);
        atomic_store(&f->epoch, epoch);
    }
    atomic_store(&f->deadline_ns, deadline_ns);
    atomic_store(&f->lead_until_ns, lead_until_ns);
}

void tn_facts_read(struct tn_facts *f, struct tn_facts_view *v)
{
    int64_t until, again = atomic_load(&f->lead_until_ns), deadline, answer;
    uint64_t epoch;
    int tries = 0;

    do {
        until = again;
        epoch = atomic_load(&f->epoch);
        deadline = atomic_load(&f->deadline_ns);
        again = atomic_load(&f->lead_until_ns);
    } while (until != again && ++tries < TRIES);
    answer = atomic_load(&f->answer_ns);
    memset(v, 0, sizeof *v);
    v->running = atomic_load(&f->running);
    v->stopping = atomic_load(&f->stopping);
    /* The time is read after the bound: an older reading could only be kinder. */
    int64_t now = tenure_now();
    v->leads = until == again && until != 0 && now < until;
    v->epoch = v->leads ? epoch : 0;
    v->left_ns = deadline > now ? deadline - now : 0;
    if (answer > 0 && v->left_ns > answer)
        v->left_ns = answer;
}
