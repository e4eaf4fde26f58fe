/* cli/show/screen.h - an election, or all of a store, as a table on a terminal. */
#ifndef TN_CLI_SCREEN_H
#define TN_CLI_SCREEN_H

#include "cli/cli.h"

/* stdout is a terminal that can be drawn on. */
bool cli_screen_possible(void);
/* Draws until q is pressed, a signal ends it, or it cannot any more.  Returns an exit code; the
 * terminal is as it was before, also when a signal ends it. */
int cli_screen(const struct cli_verb *verb, const struct cli_common *common, tenure_store *store);

#endif
