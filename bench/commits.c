/*
 * commits URL COUNT KEYS SEALED [DIR] - durable, fenced commits of the state.
 *
 * Prints, in microseconds: one commit; one commit of KEYS together, a key; and in
 * milliseconds how long the next leader takes to seal SEALED documents.  DIR: where
 * the modules are.
 *
 * commits --floor FILE COUNT - what the disk can do: 512 bytes in place, one flush.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tenure/state.h>

static const char text[] =
    "a checkpoint: 1234567890 of source/0001, some 100 bytes as they are seen "
    "in the field.......";

static int64_t soon(void)
{
    return tenure_now() + INT64_C(120000000000);
}

static void check(enum tenure_status status, const struct tenure_error *err)
{
    if (!status)
        return;
    fprintf(stderr, "commits: %s\n", err->text);
    exit(1);
}

static tenure_state *lead(const char *url, uint64_t epoch)
{
    struct tenure_grant grant = {.epoch = epoch, .id = "bench"};
    struct tenure_error err = {0};
    tenure_state *state = NULL;

    check(tenure_state_open(url, "bench", &grant, soon(), &state, &err), &err);
    return state;
}

static double one_by_one(tenure_state *s, unsigned count)
{
    struct tenure_commit c = {
        .collection = "one", .id = "checkpoint", .data = text, .len = sizeof text - 1};
    struct tenure_error err = {0};

    check(tenure_state_commit(s, &c, 1, soon(), &err), &err);
    int64_t from = tenure_now();
    for (unsigned i = 0; i < count; i++)
        check(tenure_state_commit(s, &c, 1, soon(), &err), &err);
    return (double)(tenure_now() - from) / count / 1e3;
}

static double together(tenure_state *s, const char *collection, unsigned keys, unsigned rounds)
{
    struct tenure_commit *c = calloc(keys, sizeof *c);
    char(*ids)[16] = calloc(keys, sizeof *ids);
    struct tenure_error err = {0};

    check(tenure_state_seal(s, collection, soon(), &err), &err);
    for (unsigned i = 0; i < keys; i++) {
        snprintf(ids[i], sizeof ids[i], "k%06u", i);
        c[i] = (struct tenure_commit){
            .collection = collection, .id = ids[i], .data = text, .len = sizeof text - 1};
    }
    check(tenure_state_commit(s, c, keys, soon(), &err), &err); /* creates them */
    int64_t from = tenure_now();
    for (unsigned i = 0; i < rounds; i++)
        check(tenure_state_commit(s, c, keys, soon(), &err), &err);
    int64_t took = tenure_now() - from;
    free(c);
    free(ids);
    return rounds ? (double)took / rounds / keys / 1e3 : 0;
}

static double seal(tenure_state *s)
{
    struct tenure_error err = {0};
    int64_t from = tenure_now();

    check(tenure_state_seal(s, "many", soon(), &err), &err);
    return (double)(tenure_now() - from) / 1e6;
}

static int floor_place(const char *path, unsigned count)
{
    static char block[512], zeroes[1 << 20];
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);

    if (fd < 0 || write(fd, zeroes, sizeof zeroes) < 0 || fsync(fd) != 0)
        return 1;
    int64_t from = tenure_now();
    for (unsigned i = 0; i < count; i++) {
        memset(block, (int)i, sizeof block);
        if (pwrite(fd, block, sizeof block, (off_t)(i % 2048) * 512) < 0 || fdatasync(fd) != 0)
            return 1;
    }
    printf("single %.2f\n", (double)(tenure_now() - from) / count / 1e3);
    return 0;
}

int main(int argc, char **argv)
{
    struct tenure_error err = {0};

    if (argc == 4 && strcmp(argv[1], "--floor") == 0)
        return floor_place(argv[2], (unsigned)atoi(argv[3]));
    if (argc < 5)
        return 2;
    if (argc > 5)
        check(tenure_store_module_dir(argv[5], &err), &err);
    tenure_state *s = lead(argv[1], 1);
    printf("single %.2f\n", one_by_one(s, (unsigned)atoi(argv[2])));
    printf("batch %.3f\n", together(s, "keys", (unsigned)atoi(argv[3]), 20));
    unsigned many = (unsigned)atoi(argv[4]);
    if (many) {
        together(s, "many", many, 0);
        tenure_state *next = lead(argv[1], 2);
        printf("seal %.1f\n", seal(next));
        tenure_state_close(next);
    }
    tenure_state_close(s);
    return 0;
}
