/* tenure-conformance - run the suite on a store, from the command line. */
#include <errno.h>
#include <ftw.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conformance.h"

#define TEMP_MARK "@TMP@"

static const char usage[] =
    "usage: tenure-conformance URL [option ...]\n"
    "Checks that a store keeps the contract of tenure/store.h.  Use a store made for "
    "tests.\n" TEMP_MARK " in the URL stands for a fresh directory, removed at the end.\n"
    "\n"
    "  --list             print the names of the checks and stop\n"
    "  --filter TEXT      only the checks whose name holds TEXT\n"
    "  --dir DIR          also look for tenure-store-SCHEME.so in DIR\n"
    "  --prefix KEY       write registers under KEY (default: a fresh one)\n"
    "  --private          each handle has registers of its own\n"
    "  --no-processes     do not fork\n"
    "  --processes N      at once in the races, 2 to 16 (default 8)\n"
    "  --rounds N         at most so many in the long checks (default 2000)\n"
    "  --seconds N        about so long in each long check (default 4)\n"
    "\n"
    "Exit status: 0 all passed, 1 a check failed, 2 the suite could not run.\n";

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

/* Replaces TEMP_MARK in url by a fresh directory, whose name goes into dir. */
static char *with_temp_dir(const char *url, char dir[64])
{
    const char *mark = strstr(url, TEMP_MARK);
    char *text = NULL;

    dir[0] = '\0';
    if (!mark)
        return strdup(url);
    strcpy(dir, "/tmp/tenure-conformance-XXXXXX");
    if (!mkdtemp(dir)) {
        fprintf(stderr, "tenure-conformance: %s: %s\n", dir, strerror(errno));
        dir[0] = '\0';
        return NULL;
    }
    if (asprintf(&text, "%.*s%s%s", (int)(mark - url), url, dir, mark + strlen(TEMP_MARK)) < 0)
        return NULL;
    return text;
}

static unsigned number(const char *text, const char *option)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);

    if (*end || end == text || value == 0 || value > 1000000) {
        fprintf(stderr, "tenure-conformance: --%s takes a number from 1 to 1000000, not '%s'\n",
                option, text);
        exit(2);
    }
    return (unsigned)value;
}

static const struct option long_options[] = {
    {"list", no_argument, NULL, 'l'},
    {"filter", required_argument, NULL, 'f'},
    {"dir", required_argument, NULL, 'd'},
    {"prefix", required_argument, NULL, 'x'},
    {"private", no_argument, NULL, 'p'},
    {"no-processes", no_argument, NULL, 'n'},
    {"processes", required_argument, NULL, 'P'},
    {"rounds", required_argument, NULL, 'r'},
    {"seconds", required_argument, NULL, 's'},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

static void parse(int argc, char **argv, struct tenure_conformance_options *o)
{
    for (int c, i = 0; (c = getopt_long(argc, argv, "h", long_options, &i)) != -1;) {
        switch (c) {
        case 'l':
            o->list = true;
            break;
        case 'f':
            o->filter = optarg;
            break;
        case 'd':
            o->module_dir = optarg;
            break;
        case 'x':
            o->prefix = optarg;
            break;
        case 'p':
            o->private_handles = true;
            break;
        case 'n':
            o->no_processes = true;
            break;
        case 'P':
            o->processes = number(optarg, "processes");
            break;
        case 'r':
            o->rounds = number(optarg, "rounds");
            break;
        case 's':
            o->seconds = number(optarg, "seconds");
            break;
        case 'h':
            fputs(usage, stdout);
            exit(0);
        default:
            exit(2);
        }
    }
}

int main(int argc, char **argv)
{
    struct tenure_conformance_options o = {.version = TENURE_CONFORMANCE_OPTIONS};
    char dir[64];

    setvbuf(stdout, NULL, _IOLBF, 0);
    parse(argc, argv, &o);
    if (!o.list && optind != argc - 1) {
        fputs(usage, stderr);
        return 2;
    }
    char *url = with_temp_dir(o.list ? "" : argv[optind], dir);
    int result = url ? tenure_conformance_run(url, &o) : 2;
    free(url);
    if (dir[0])
        nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    return result;
}
