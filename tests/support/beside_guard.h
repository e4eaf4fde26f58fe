/* beside_guard.h - for tests that start the real guard. */
#ifndef TN_TEST_BESIDE_GUARD_H
#define TN_TEST_BESIDE_GUARD_H

/* The guard is looked for beside the executable: run a copy of this test, with one argument, from
 * where a guard is.  Returns its exit code. */
int run_beside_the_guard(char **argv);

#endif
