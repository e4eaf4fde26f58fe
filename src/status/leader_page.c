#include "status/leader_page.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tenure/store.h"

/* A writer is between two stores for nanoseconds; one that is stopped there has not changed
 * lead_until_ns, or has lowered it. */
#define TRIES 8

struct tn_leader_page *tn_leader_page_map(int fd)
{
    void *page =
        mmap(NULL, sizeof(struct tn_leader_page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    return page == MAP_FAILED ? NULL : page;
}

struct tn_leader_page *tn_leader_page_new(int *fd)
{
    int made = memfd_create("tenure-leader-page", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    struct tn_leader_page *page = NULL;

    /* Sealed: nobody can take the page away from under a reader. */
    if (made >= 0 && ftruncate(made, sizeof(struct tn_leader_page)) == 0 &&
        fcntl(made, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0)
        page = tn_leader_page_map(made);
    if (page)
        *fd = made;
    else if (made >= 0)
        close(made);
    return page;
}

void tn_leader_page_unmap(struct tn_leader_page *page)
{
    if (page)
        munmap(page, sizeof *page);
}

void tn_leader_page_clear(struct tn_leader_page *f)
{
    tn_leader_page_write(f, 0, 0, 0);
    atomic_store(&f->running, false);
    atomic_store(&f->stopping, false);
    atomic_store(&f->answer_ns, 0);
}

void tn_leader_page_write(struct tn_leader_page *f, int64_t lead_until_ns, int64_t deadline_ns,
                          uint64_t epoch)
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

void tn_leader_page_read(struct tn_leader_page *f, struct tn_leader_view *v)
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
    v->grant_ns = deadline > now ? deadline - now : 0;
    v->left_ns = answer > 0 && v->grant_ns > answer ? answer : v->grant_ns;
}
