#include "cli/show/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "cli/cli.h"

/* Another screen, so that what was there is there again; no cursor. */
#define TAKE      "\033[?1049h\033[?25l\033[H\033[2J"
#define GIVE_BACK "\033[?25h\033[?1049l"

static struct termios before, during;
static volatile sig_atomic_t taken, keys;
static int resized[2] = {-1, -1}, both = -1;

/* ---- Taking and giving back: also from handlers, so write() and tcsetattr() alone -------- */

static void put(const char *text, size_t len)
{
    while (len > 0) {
        ssize_t n = write(STDOUT_FILENO, text, len);

        if (n < 0 && errno != EINTR)
            return;
        if (n > 0)
            text += n, len -= (size_t)n;
    }
}

static void enter_screen(void)
{
    if (taken)
        return;
    taken = 1;
    if (keys)
        tcsetattr(STDIN_FILENO, TCSANOW, &during);
    put(TAKE, sizeof TAKE - 1);
}

void cli_terminal_give_back(void)
{
    if (!taken)
        return;
    taken = 0;
    if (keys)
        tcsetattr(STDIN_FILENO, TCSANOW, &before);
    put(GIVE_BACK, sizeof GIVE_BACK - 1);
}

static void wake(void)
{
    if (write(resized[1], "", 1) < 0)
        return; /* full: it is awake */
}

static void on_end(int number)
{
    cli_terminal_give_back();
    signal(number, SIG_DFL);
    raise(number); /* delivered when this returns: it ends as it would have */
}

static void on_stop(int number)
{
    int saved = errno;

    (void)number;
    cli_terminal_give_back();
    raise(SIGSTOP);
    enter_screen(); /* and here it goes on */
    wake();
    errno = saved;
}

static void on_resize(int number)
{
    int saved = errno;

    (void)number;
    wake();
    errno = saved;
}

/* ---- Life ---------------------------------------------------------------- */

static void handle(int number, void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART}, old;

    /* What nohup and the like have set to be ignored stays so. */
    if (sigaction(number, NULL, &old) == 0 && old.sa_handler != SIG_IGN)
        sigaction(number, &action, NULL);
}

/* Keys are read one by one and not shown; Ctrl-C stays a signal.  Not in the background. */
static void prepare_keys(void)
{
    if (tcgetpgrp(STDIN_FILENO) != getpgrp() || tcgetattr(STDIN_FILENO, &before) != 0)
        return;
    during = before;
    during.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    during.c_cc[VMIN] = 1;
    during.c_cc[VTIME] = 0;
    keys = 1;
}

bool cli_terminal_take(void)
{
    struct epoll_event event = {.events = EPOLLIN};

    both = epoll_create1(EPOLL_CLOEXEC);
    if (both < 0 || pipe2(resized, O_CLOEXEC | O_NONBLOCK) != 0 ||
        epoll_ctl(both, EPOLL_CTL_ADD, resized[0], &event) != 0)
        return false;
    prepare_keys();
    if (keys)
        epoll_ctl(both, EPOLL_CTL_ADD, STDIN_FILENO, &event);
    atexit(cli_terminal_give_back);
    handle(SIGINT, on_end);
    handle(SIGTERM, on_end);
    handle(SIGHUP, on_end);
    handle(SIGQUIT, on_end);
    handle(SIGABRT, on_end);
    handle(SIGTSTP, on_stop);
    handle(SIGWINCH, on_resize);
    enter_screen();
    return true;
}

int cli_terminal_fd(void)
{
    return both;
}

static bool readable(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    return poll(&p, 1, 0) > 0;
}

bool cli_terminal_asked_to_end(void)
{
    char text[64];
    ssize_t n;

    while (read(resized[0], text, sizeof text) > 0)
        ;
    if (!keys || !readable(STDIN_FILENO))
        return false;
    n = read(STDIN_FILENO, text, sizeof text);
    if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN))
        return true;
    return n > 0 && (memchr(text, 'q', (size_t)n) || memchr(text, 'Q', (size_t)n));
}

/* ---- Drawing ------------------------------------------------------------- */

static void size_of(int *columns, int *rows)
{
    struct winsize size = {0};

    ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
    *columns = size.ws_col ? size.ws_col : 80;
    *rows = size.ws_row ? size.ws_row : 24;
}

/* Up to `columns` characters of a line; colours and later bytes of a character take no room. */
static const char *draw_line(FILE *to, const char *line, int columns)
{
    int used = 0;

    for (; *line && *line != '\n'; line++) {
        unsigned char c = (unsigned char)*line;

        if (c == '\033') { /* ours: ESC [ digits m */
            size_t n = strcspn(line, "m") + 1;

            fwrite(line, 1, n, to);
            line += n - 1;
            continue;
        }
        if ((c & 0xc0) != 0x80)
            used++;
        if (used <= columns)
            fputc(c, to);
    }
    fputs("\033[K", to); /* what was longer before is wiped */
    return *line ? line + 1 : line;
}

static int count_lines(const char *text)
{
    int n = 0;

    for (; *text; text++)
        n += *text == '\n';
    return n;
}

bool cli_terminal_draw(const char *text)
{
    char *out = NULL;
    size_t len = 0;
    int columns, rows, left = count_lines(text);
    FILE *to = open_memstream(&out, &len);

    if (!to)
        return false;
    size_of(&columns, &rows);
    fputs("\033[H", to); /* over what is there: nothing flickers */
    for (int row = 1; *text && row <= rows; row++, left--) {
        if (row == rows && left > 1) {
            fprintf(to, "%s%.*s%s\033[K", cli_dim(), columns, "... window too small", cli_plain());
            break;
        }
        text = draw_line(to, text, columns);
        if (*text && row < rows)
            fputs("\r\n", to);
    }
    fputs("\033[J", to);
    bool well = fclose(to) == 0;
    if (well && taken)
        put(out, len);
    free(out);
    /* A terminal that hung up tells by its end of file. */
    struct pollfd p = {.fd = STDOUT_FILENO, .events = POLLOUT};
    return well && !(poll(&p, 1, 0) > 0 && (p.revents & (POLLERR | POLLHUP)));
}
