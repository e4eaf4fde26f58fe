/* tenure version - what this is, from what it was built, and what it can do here. */
#include "version.h"

#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "os/module.h"
#include "tn_commit.h"
#include "tn_features.h"

static const char *const builtin[] = {"file", "memory", "noop"};
static const char *const modules[] = {TN_STORE_MODULES};
#define LEN(list) (sizeof(list) / sizeof(list)[0])

static bool is_installed(const char *module)
{
    char file[64];

    snprintf(file, sizeof file, "tenure-store-%s.so", module);
    return tn_module_is_installed(file);
}

/* The stores that can be named here, or else those whose module is not installed. */
static void print_stores(bool installed, const char *before, const char *quote, const char *between)
{
    const char *next = before;

    for (size_t i = 0; installed && i < LEN(builtin); i++, next = between)
        printf("%s%s%s%s", next, quote, builtin[i], quote);
    for (size_t i = 0; i < LEN(modules); i++) {
        if (is_installed(modules[i]) != installed)
            continue;
        printf("%s%s%s%s", next, quote, modules[i], quote);
        next = between;
    }
}

static const char help[] =
    "usage: tenure version [--json]\n"
    "\n"
    "Prints the version, the commit that it was built from, the kinds of stores that\n"
    "it has and those whose module is not installed, and whether it has HTTP.\n"
    "\n"
    "  --json  print one JSON object: version, commit, stores, missing, http,\n"
    "          sanitizers\n"
    "\n"
    "Exit: 0 done, 2 usage error.\n";

static void print_json(void)
{
    printf("{\"version\":\"%s\",\"commit\":\"%s\",\"stores\":[", tenure_version(), TN_COMMIT);
    print_stores(true, "", "\"", ",");
    printf("],\"missing\":[");
    print_stores(false, "", "\"", ",");
    printf("],\"http\":%s,\"sanitizers\":\"%s\"}\n",
           tn_module_is_installed("tenure-http.so") ? "true" : "false", TN_SANITIZERS);
}

int cli_version(int argc, char **argv)
{
    bool json = argc == 1 && strcmp(argv[0], "--json") == 0;

    if (argc == 1 && (strcmp(argv[0], "--help") == 0 || strcmp(argv[0], "-h") == 0)) {
        fputs(help, stdout);
        return CLI_OK;
    }

    if (argc > 0 && !json) {
        fprintf(stderr, "tenure version: unexpected argument '%.40s'; only --json is known\n",
                argv[0]);
        return CLI_USAGE;
    }
    if (json) {
        print_json();
        return CLI_OK;
    }
    printf("tenure %s\ncommit      %s\nstores      ", tenure_version(), TN_COMMIT);
    print_stores(true, "", "", " ");
    print_stores(false, "\nmissing     ", "", " ");
    printf("\nhttp        %s\nsanitizers  %s\n",
           tn_module_is_installed("tenure-http.so") ? "yes" : "no", TN_SANITIZERS);
    return CLI_OK;
}
