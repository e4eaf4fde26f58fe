/*
 * sim/fiber.h - blocking code in a world that has one thread: a stack of its
 * own, left where the code would block and entered again when it goes on.
 * Nothing here knows of time; who is entered when is the queue's business.
 */
#ifndef SIM_FIBER_H
#define SIM_FIBER_H

#include <stdbool.h>
#include <stddef.h>
#include <ucontext.h>

/* The thread sanitizer follows no stacks but its own: it gets histories without fibers. */
#define SIM_FIBERS 1
#if defined(__SANITIZE_THREAD__)
#undef SIM_FIBERS
#define SIM_FIBERS 0
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#undef SIM_FIBERS
#define SIM_FIBERS 0
#endif
#endif

struct sim_fiber {
    ucontext_t here; /* where it paused */
    ucontext_t back; /* whoever entered it */
    void *stack;     /* mapped once, kept for the next that runs on it */
    bool alive;
    void (*main)(void *arg);
    void *arg;
    /* What the address sanitizer wants to know of both stacks. */
    void *fake, *fake_back;
    const void *bottom_back;
    size_t size_back;
};

/* Run main(arg) until it pauses or returns.  Not from inside a fiber. */
void sim_fiber_start(struct sim_fiber *f, void (*main)(void *arg), void *arg);
/* Go on after its pause.  Not from inside a fiber. */
void sim_fiber_enter(struct sim_fiber *f);
/* From inside: back to whoever entered, until entered again. */
void sim_fiber_pause(struct sim_fiber *f);

#endif
