/*
 * cli/show/terminal.h - a terminal that is drawn on: taken, given back, resized.
 *
 * It is given back on every way out that a process has a say in: exit(), Ctrl-C,
 * TERM, HUP, QUIT, abort(); and while it is stopped by Ctrl-Z.
 */
#ifndef TN_CLI_TERMINAL_H
#define TN_CLI_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>

/* Once a process.  false: it cannot be taken. */
bool cli_terminal_take(void);
void cli_terminal_give_back(void);

/* Readable when a key was pressed or the size changed: a wake_fd for tenure_store_wait(). */
int cli_terminal_fd(void);
/* Drains it.  true: q was pressed, or there is no terminal any more. */
bool cli_terminal_asked_to_end(void);

/* Draw over what is there: lines are cut at the right, and at the bottom.  false: it is gone. */
bool cli_terminal_draw(const char *text);

#endif
