/*
 * floor_zookeeper HOST:PORT N - N sets with the expected version on one node of ZooKeeper by the
 * plainest client, 300 bytes.  Prints sets a second.
 */
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <zookeeper/zookeeper.h>

#include "floor_time.h"

static int result;
static int version;

/* Runs the client until an answer has come or `done` says so. */
static void run_until(zhandle_t *zh, bool (*done)(zhandle_t *))
{
    while (!done(zh)) {
        struct timeval wait;
        int fd = -1, interest = 0, events = 0;

        if (zookeeper_interest(zh, &fd, &interest, &wait) != ZOK || fd < 0)
            continue; /* not connected yet */
        struct pollfd p = {.fd = fd};
        p.events = (short)((interest & ZOOKEEPER_READ ? POLLIN : 0) |
                           (interest & ZOOKEEPER_WRITE ? POLLOUT : 0));
        poll(&p, 1, (int)(wait.tv_sec * 1000 + wait.tv_usec / 1000));
        events |= p.revents & POLLIN ? ZOOKEEPER_READ : 0;
        events |= p.revents & POLLOUT ? ZOOKEEPER_WRITE : 0;
        zookeeper_process(zh, events);
    }
}

static bool is_connected(zhandle_t *zh)
{
    return zoo_state(zh) == ZOO_CONNECTED_STATE;
}

static bool is_answered(zhandle_t *zh)
{
    (void)zh;
    return result != 1;
}

static void on_created(int rc, const char *name, const void *data)
{
    (void)name;
    (void)data;
    result = rc == ZNODEEXISTS ? ZOK : rc;
}

static void on_set(int rc, const struct Stat *stat, const void *data)
{
    (void)data;
    result = rc;
    if (rc == ZOK)
        version = stat->version;
}

static void wait_for(zhandle_t *zh, const char *doing)
{
    run_until(zh, is_answered);
    if (result != ZOK) {
        fprintf(stderr, "floor_zookeeper: %s: %s\n", doing, zerror(result));
        exit(1);
    }
}

static void set_node(zhandle_t *zh, const char *value, int length, int expected)
{
    result = 1;
    zoo_aset(zh, "/floor", value, length, expected, on_set, NULL);
    wait_for(zh, "set");
}

int main(int argc, char **argv)
{
    long n = argc == 3 ? atol(argv[2]) : 0;
    char value[301];

    if (n < 1) {
        fprintf(stderr, "usage: floor_zookeeper HOST:PORT N\n");
        return 2;
    }
    zoo_set_debug_level(ZOO_LOG_LEVEL_ERROR);
    zhandle_t *zh = zookeeper_init(argv[1], NULL, 10000, NULL, NULL, 0);
    if (!zh) {
        perror("floor_zookeeper");
        return 1;
    }
    run_until(zh, is_connected);
    snprintf(value, sizeof value, "%0300d", 0);
    result = 1;
    zoo_acreate(zh, "/floor", value, 300, &ZOO_OPEN_ACL_UNSAFE, 0, on_created, NULL);
    wait_for(zh, "create");
    set_node(zh, value, 300, -1);
    double from = now();
    for (long i = 0; i < n; i++)
        set_node(zh, value, 300, version);
    printf("%.0f\n", (double)n / (now() - from));
    zookeeper_close(zh);
    return 0;
}
