/*
 * golden.c - timelines: commands, and the lines they must print.
 *
 *     golden [--update] SCRIPT|FOLDER...
 *
 * A script is blocks divided by blank lines.  A block is commands, a line of
 * four dashes, and the output expected of them; lines that begin with '#' are
 * for people.  The language is at the top of golden_command.c.
 * Prints TAP.  --update puts what was printed in the place of what was
 * expected: read the difference before you keep it, and judge it by the rule
 * that the script's heading names, not by what the code happens to do.
 */
#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#ifdef GOLDEN_WORLD
#include GOLDEN_WORLD
#else
#include "golden_world.h"
#endif

struct text {
    char *data;
    size_t len;
    FILE *file; /* open_memstream() */
};

static void text_open(struct text *t)
{
    memset(t, 0, sizeof *t);
    t->file = open_memstream(&t->data, &t->len);
    if (!t->file)
        abort();
}

/* The next line of *at, without its end, copied; NULL behind the last. */
static char *next_line(const char **at)
{
    const char *end = strchrnul(*at, '\n');
    char *line;

    if (!**at)
        return NULL;
    line = strndup(*at, (size_t)(end - *at));
    if (!line)
        abort();
    *at = *end ? end + 1 : end;
    return line;
}

/* ---- Differences --------------------------------------------------------- */

#define LINES 512 /* in one block */

static size_t split_lines(const char *text, char **lines)
{
    size_t n = 0;

    for (char *line; n < LINES && (line = next_line(&text)); n++)
        lines[n] = line;
    return n;
}

/* The longest common lines, by the book: common[i][j] is how many a[i..] and b[j..] share. */
static void print_changes(char **a, size_t n, char **b, size_t m)
{
    static unsigned short common[LINES + 1][LINES + 1];
    size_t i = 0, j = 0;

    memset(common, 0, sizeof common);
    for (i = n; i-- > 0;) {
        for (j = m; j-- > 0;) {
            unsigned short skip =
                common[i + 1][j] > common[i][j + 1] ? common[i + 1][j] : common[i][j + 1];

            common[i][j] =
                strcmp(a[i], b[j]) == 0 ? (unsigned short)(common[i + 1][j + 1] + 1) : skip;
        }
    }
    for (i = j = 0; i < n || j < m;) {
        if (i < n && j < m && strcmp(a[i], b[j]) == 0) {
            printf("#   %s\n", a[i++]);
            j++;
        } else if (i < n && (j == m || common[i + 1][j] >= common[i][j + 1])) {
            printf("# - %s\n", a[i++]);
        } else {
            printf("# + %s\n", b[j++]);
        }
    }
}

static void print_difference(const char *path, const char *commands, const char *expected,
                             const char *printed)
{
    char *a[LINES], *b[LINES], *line;
    size_t n = split_lines(expected, a), m = split_lines(printed, b);

    printf("# %s\n", path);
    for (; (line = next_line(&commands)); free(line))
        printf("#   %s\n", line);
    printf("#   ----\n");
    print_changes(a, n, b, m);
    while (n > 0)
        free(a[--n]);
    while (m > 0)
        free(b[--m]);
}

/* ---- Scripts ------------------------------------------------------------- */

/* Obey the commands of one block; returns what they print, to be freed. */
static char *obey_block(struct world *w, const char *commands)
{
    struct text printed;

    text_open(&printed);
    w->out = printed.file;
    for (char *line; (line = next_line(&commands)); free(line))
        world_obey(w, line);
    fclose(printed.file);
    return printed.data;
}

static bool has_command(const char *text)
{
    bool found = false;

    for (char *line; (line = next_line(&text)); free(line))
        found |= line[0] != '#';
    return found;
}

/* One block, from *at; copies it to `kept` with what it prints.  False if that differs.  */
static bool run_block(struct world *w, const char *path, const char **at, bool update, FILE *kept)
{
    struct text commands, expected;
    bool dashes = false;

    text_open(&commands);
    text_open(&expected);
    for (char *line; (line = next_line(at)) && (line[0] || (free(line), 0)); free(line)) {
        if (strcmp(line, "----") == 0)
            dashes = true;
        else
            fprintf(dashes ? expected.file : commands.file, "%s\n", line);
    }
    fclose(commands.file);
    fclose(expected.file);
    fputs(commands.data, kept);
    bool same = true;
    if (has_command(commands.data)) {
        unsigned faults = w->faults;
        char *printed = obey_block(w, commands.data);

        same = dashes && w->faults == faults && strcmp(printed, expected.data) == 0;
        if (!same && (!update || w->faults > faults))
            print_difference(path, commands.data, expected.data, printed);
        fprintf(kept, "----\n%s", printed);
        free(printed);
    }
    free(commands.data);
    free(expected.data);
    return same;
}

static char *read_script(const char *path)
{
    struct text t;
    FILE *file = fopen(path, "r");
    char chunk[4096];

    if (!file) {
        fprintf(stderr, "golden: %s: %s\n", path, strerror(errno));
        exit(2);
    }
    text_open(&t);
    for (size_t n; (n = fread(chunk, 1, sizeof chunk, file)) > 0;)
        fwrite(chunk, 1, n, t.file);
    fclose(file);
    fclose(t.file);
    return t.data;
}

static void write_script(const char *path, const char *data)
{
    FILE *file = fopen(path, "w");

    if (!file || fputs(data, file) == EOF || fclose(file) != 0) {
        fprintf(stderr, "golden: %s: %s\n", path, strerror(errno));
        exit(2);
    }
}

static bool run_script(const char *path, bool update)
{
    struct world *w = calloc(1, sizeof *w);
    struct text kept;
    char *script = read_script(path);
    const char *at = script;
    bool same = true;

    if (!w)
        abort();
    text_open(&kept);
    while (*at) {
        same &= run_block(w, path, &at, update, kept.file);
        if (*at)
            fputc('\n', kept.file);
    }
    fclose(kept.file);
    if (update && !w->faults) {
        write_script(path, kept.data);
        same = true;
    }
    free(kept.data);
    free(script);
    free(w);
    return same;
}

/* Each script, and each *.txt of each folder, sorted. */
static void gather(char *const *args, int n, glob_t *found)
{
    for (int i = 0; i < n; i++) {
        struct stat st;
        char pattern[4096];
        bool folder = stat(args[i], &st) == 0 && S_ISDIR(st.st_mode);

        snprintf(pattern, sizeof pattern, folder ? "%s/*.txt" : "%s", args[i]);
        if (glob(pattern, GLOB_NOCHECK | (i ? GLOB_APPEND : 0), NULL, found) != 0)
            abort();
    }
}

int main(int argc, char **argv)
{
    bool update = argc > 1 && strcmp(argv[1], "--update") == 0;
    int first = update ? 2 : 1;
    glob_t scripts = {0};
    size_t failed = 0;

    if (first >= argc) {
        fputs("usage: golden [--update] SCRIPT|FOLDER...\n", stderr);
        return 2;
    }
    gather(argv + first, argc - first, &scripts);
    printf("1..%zu\n", scripts.gl_pathc);
    for (size_t i = 0; i < scripts.gl_pathc; i++) {
        const char *path = scripts.gl_pathv[i];
        const char *slash = strrchr(path, '/');
        bool ok = run_script(path, update);

        printf("%s %zu - %s\n", ok ? "ok" : "not ok", i + 1, slash ? slash + 1 : path);
        failed += !ok;
    }
    globfree(&scripts);
    return failed ? 1 : 0;
}
