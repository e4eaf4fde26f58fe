/* cli/version.h - `tenure version`. */
#ifndef TN_CLI_VERSION_H
#define TN_CLI_VERSION_H

/* Print it; argv is what stands behind `version` or `--version`.  Returns the exit code. */
int cli_version(int argc, char **argv);

#endif
