/*
 * The machine's own watchdog, for those who want it reset when even KILL does
 * not end the program by its deadline (a disk that hangs in the kernel).
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/watchdog.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "guard/guard.h"

static void write_byte(const struct tn_guard *g, const char *byte)
{
    if (write(g->watchdog, byte, 1) < 0) {
        /* It bites then, which is what it is for. */
    }
}

int tn_watchdog_probe(const struct tn_guard_page *page)
{
    return !page->watchdog[0] || access(page->watchdog, W_OK) == 0 ? 0 : errno;
}

int tn_watchdog_start(struct tn_guard *g)
{
    int seconds = (int)g->page->watchdog_s;

    if (!g->page->watchdog[0] || g->watchdog >= 0)
        return 0;
    g->watchdog = open(g->page->watchdog, O_WRONLY | O_CLOEXEC);
    if (g->watchdog < 0)
        return errno;
    ioctl(g->watchdog, WDIOC_SETTIMEOUT, &seconds);
    g->ping_at_ns = 0;
    return 0;
}

void tn_watchdog_pet(struct tn_guard *g, int64_t now)
{
    if (g->watchdog < 0 || now < g->ping_at_ns)
        return;
    write_byte(g, "p");
    g->ping_at_ns = now + (int64_t)g->page->watchdog_s * 1000000000 / 3;
}

void tn_watchdog_stop(struct tn_guard *g)
{
    if (g->watchdog < 0)
        return;
    write_byte(g, "V");
    close(g->watchdog);
    g->watchdog = -1;
    g->ping_at_ns = TN_GUARD_NEVER;
}
