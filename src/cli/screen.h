/* cli/screen.h - an election as a table on a terminal. */
#ifndef TN_CLI_SCREEN_H
#define TN_CLI_SCREEN_H

#include "cli/cli.h"

/* stdout is a terminal that can be drawn on. */
bool cli_screen_possible(void);
/* Draws until it cannot any more, or a signal ends it.  Returns an exit code. */
int cli_screen(const struct cli_common *common, tenure_store *store);

#endif
