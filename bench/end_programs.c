/*
 * How long the guard takes to end N programs at one deadline: from the KILL to
 * the report that nothing is left.
 *
 *     end_programs group|cgroup|pidns N ROUNDS
 *
 * Prints one line a round: milliseconds to start them all, milliseconds to end
 * them all.  It needs tenure-guard beside its own executable: copy it to the build folder first.
 */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/timing.h"
#include "guard/launcher.h"
#include "os/pass.h"
#include "os/poll.h"
#include "supervise/guard/link.h"
#include "supervise/program/program.h"
#include "tenure/store.h"

static const struct tn_program_env_spec spec = {.name = "bench", .id = "bench", .epoch = 1};
static struct tenure_error err;

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "end_programs: %s: %s\n", what, err.text[0] ? err.text : strerror(errno));
    exit(1);
}

static int describe(char *const *args)
{
    char *env[] = {NULL};
    struct tn_program program = {.args = args, .env = env};
    int block = -1;

    sigemptyset(&program.mask);
    if (tn_program_block(&program, &spec, &block, &err))
        die("describe");
    return block;
}

/* The time of the guard's next report of that kind. */
static int64_t await_guard(struct tn_guard_link *link, uint32_t kind)
{
    struct tn_guard_report r;

    do {
        struct pollfd fd = {.fd = link->socket, .events = POLLIN};

        if (tn_poll(&fd, 1, tenure_now() + 120 * TN_S) <= 0 || !tn_guard_link_next(link, &r))
            die("the guard says nothing");
        if (r.kind == TN_GUARD_FAILED || r.kind == TN_GUARD_REFUSED)
            die("the launcher did not start");
    } while (r.kind != kind);
    return r.at_ns;
}

static void start_programs(int socket, unsigned n)
{
    char sleep_[] = "sleep", long_[] = "1000";
    char *const args[] = {sleep_, long_, NULL};
    int block = describe(args);
    struct tn_launcher_report r;

    for (unsigned asked = 0, there = 0; there < n;) {
        struct tn_launcher_command c = {.kind = TN_GUARD_SPAWN, .number = asked};

        if (asked < n && tn_pass_fds(socket, &c, sizeof c, &block, 1))
            asked++;
        else if (recv(socket, &r, sizeof r, 0) != sizeof r || r.kind != TN_GUARD_SPAWNED)
            die("a program did not start");
        else
            there++;
    }
    close(block);
}

static void run_round(enum tn_contain contain, char *guard, unsigned n)
{
    const struct tn_guard_wish wish = {
        .contain = contain, .kill_ns = 200 * TN_S, .stop_signal = SIGTERM};
    char launcher[] = TN_LAUNCHER_ARG;
    char *const args[] = {guard, launcher, NULL};
    struct tn_guard_link link;
    int ends[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0 ||
        tn_guard_link_open(&link, &wish, &err) || tn_guard_link_start(&link, &err) ||
        tn_guard_link_wait_ready(&link, &err))
        die("guard");
    tn_guard_link_publish(&link, tenure_now() + 600 * TN_S);
    int block = describe(args);
    if (!tn_guard_link_spawn(&link, block, ends[1]))
        die("launcher");
    close(block);
    close(ends[1]);
    int64_t begun = tenure_now();
    start_programs(ends[0], n);
    int64_t started = tenure_now();
    tn_guard_link_publish(&link, tenure_now() + TN_MS);
    int64_t killed = await_guard(&link, TN_GUARD_KILLS);
    int64_t dead = await_guard(&link, TN_GUARD_DEAD);
    printf("%.2f %.2f\n", (double)(started - begun) / 1e6, (double)(dead - killed) / 1e6);
    close(ends[0]);
    tn_guard_link_quit(&link);
    tn_guard_link_close(&link);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        enum tn_contain contain;
    } modes[] = {
        {"group", TN_CONTAIN_GROUP}, {"cgroup", TN_CONTAIN_CGROUP}, {"pidns", TN_CONTAIN_PIDNS}};
    char guard[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", guard, sizeof guard - 16);

    if (argc != 4 || len < 0) {
        fprintf(stderr, "usage: end_programs group|cgroup|pidns N ROUNDS\n");
        return 2;
    }
    guard[len] = '\0';
    strcpy(strrchr(guard, '/') + 1, "tenure-guard");
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        for (int round = 0; strcmp(argv[1], modes[i].name) == 0 && round < atoi(argv[3]); round++)
            run_round(modes[i].contain, guard, (unsigned)atoi(argv[2]));
    }
    return 0;
}
