#include "fiber.h"

#include <assert.h>
#include <stdint.h>
#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#define SIM_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SIM_ASAN 1
#endif
#endif

#ifdef SIM_ASAN
#include <sanitizer/common_interface_defs.h>
#define STACK_SIZE (1u << 20)
#else
#define STACK_SIZE (1u << 18)
#endif
#define GUARD_SIZE 4096u

/* ---- What the address sanitizer is told ---------------------------------- */

static void leaving(void **fake, const void *bottom, size_t size)
{
#ifdef SIM_ASAN
    __sanitizer_start_switch_fiber(fake, bottom, size);
#else
    (void)fake;
    (void)bottom;
    (void)size;
#endif
}

static void arrived(void *fake, const void **bottom, size_t *size)
{
#ifdef SIM_ASAN
    __sanitizer_finish_switch_fiber(fake, bottom, size);
#else
    (void)fake;
    (void)bottom;
    (void)size;
#endif
}

/* ---- Switching ----------------------------------------------------------- */

static struct sim_fiber *starting; /* makecontext() passes ints only */

static void begin(void)
{
    struct sim_fiber *f = starting;

    arrived(NULL, &f->bottom_back, &f->size_back);
    f->main(f->arg);
    f->alive = false;
    leaving(NULL, f->bottom_back, f->size_back); /* its stack is not needed any more */
    setcontext(&f->back);
}

static void switch_to(struct sim_fiber *f)
{
    leaving(&f->fake_back, (char *)f->stack + GUARD_SIZE, STACK_SIZE - GUARD_SIZE);
    swapcontext(&f->back, &f->here);
    arrived(f->fake_back, NULL, NULL);
}

void sim_fiber_start(struct sim_fiber *f, void (*main)(void *arg), void *arg)
{
    assert(!f->alive);
    if (!f->stack) {
        f->stack =
            mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert(f->stack != MAP_FAILED);
        int failed = mprotect(f->stack, GUARD_SIZE, PROT_NONE);
        assert(!failed);
    }
    f->alive = true;
    f->main = main;
    f->arg = arg;
    getcontext(&f->here);
    f->here.uc_stack.ss_sp = (char *)f->stack + GUARD_SIZE;
    f->here.uc_stack.ss_size = STACK_SIZE - GUARD_SIZE;
    f->here.uc_link = NULL;
    makecontext(&f->here, begin, 0);
    starting = f;
    switch_to(f);
}

void sim_fiber_enter(struct sim_fiber *f)
{
    assert(f->alive);
    switch_to(f);
}

void sim_fiber_pause(struct sim_fiber *f)
{
    leaving(&f->fake, f->bottom_back, f->size_back);
    swapcontext(&f->here, &f->back);
    arrived(f->fake, &f->bottom_back, &f->size_back);
}
