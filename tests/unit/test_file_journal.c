/* Registers in place: what a journal keeps when its end is torn, its middle damaged, or its writer
 * was succeeded. */
#include "state_kit.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/file/journal/journal.h"

#define GROUP "app/state/docs"

struct bed {
    char root[64], url[96];
};

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static int setup(void **state)
{
    struct bed *bed = calloc(1, sizeof *bed);

    strcpy(bed->root, "/tmp/tenure-journal-XXXXXX");
    if (!mkdtemp(bed->root))
        return 1;
    snprintf(bed->url, sizeof bed->url, "file:%s/store", bed->root);
    *state = bed;
    return 0;
}

static int teardown(void **state)
{
    struct bed *bed = *state;

    nftw(bed->root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(bed);
    return 0;
}

/* ---- The files ------------------------------------------------------------- */

static void path_of(const struct bed *bed, uint64_t number, char path[256])
{
    char name[TN_JOURNAL_NAME + 1];

    tn_journal_name(number, name);
    snprintf(path, 256, "%s/store/" GROUP "/%s", bed->root, name);
}

static unsigned journals(const struct bed *bed, uint64_t *top)
{
    char path[256];
    unsigned n = 0;

    snprintf(path, sizeof path, "%s/store/" GROUP, bed->root);
    DIR *d = opendir(path);
    assert_non_null(d);
    *top = 0;
    for (const struct dirent *e; (e = readdir(d));) {
        uint64_t number = tn_journal_number(e->d_name);

        n += number != 0;
        *top = number > *top ? number : *top;
    }
    closedir(d);
    return n;
}

static int open_top(const struct bed *bed)
{
    char path[256];
    uint64_t top;

    journals(bed, &top);
    path_of(bed, top, path);
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    return fd;
}

/* Where the last copy of text is in the newest journal. */
static off_t find_last(int fd, const char *text)
{
    static char bytes[1 << 20];
    ssize_t n = pread(fd, bytes, sizeof bytes, 0);
    size_t len = strlen(text);

    for (off_t at = n - (off_t)len; at >= 0; at--) {
        if (memcmp(bytes + at, text, len) == 0)
            return at;
    }
    fail_msg("'%s' is not in the journal", text);
    return -1;
}

static void flip(int fd, off_t at)
{
    char c;

    assert_int_equal(pread(fd, &c, 1, at), 1);
    c = (char)(c ^ 0x40);
    assert_int_equal(pwrite(fd, &c, 1, at), 1);
}

/* ---- Tests ----------------------------------------------------------------- */

static void damage_is_told_with_its_place(void **state)
{
    struct bed *bed = *state;
    tenure_state *a = lead(bed->url, 10), *b;
    struct tenure_document d = {0};
    struct tenure_error err = {0};
    int fd;

    assert_int_equal(put(a, "bad", "will be damaged"), TENURE_OK);
    assert_int_equal(put(a, "good", "stays"), TENURE_OK);
    tenure_state_close(a);
    fd = open_top(bed);
    flip(fd, find_last(fd, "will be damaged"));
    close(fd);
    /* Over two take-overs: it is neither dropped nor taken for something else. */
    for (uint64_t epoch = 11; epoch < 13; epoch++) {
        b = lead(bed->url, epoch);
        seal(b);
        expect(b, "good", "stays");
        assert_int_equal(tenure_state_load(b, "docs", "bad", &d, soon(), &err), TENURE_CORRUPT);
        assert_non_null(strstr(err.text, "/" GROUP "/+"));
        assert_non_null(strstr(err.text, "at byte"));
        assert_int_equal(put(b, "bad", "over it?"), TENURE_CORRUPT);
        assert_int_equal(put(b, "new", "goes on"), TENURE_OK);
        tenure_state_close(b);
    }
    fd = open_top(bed);
    find_last(fd, "ill be damaged"); /* kept, with the flipped byte */
    close(fd);
    tenure_document_free(&d);
}

/* Frames are flushed one after the other: one behind proves that this one was whole. */
static void lost_frame_is_not_passed_over(void **state)
{
    struct bed *bed = *state;
    tenure_state *a = lead(bed->url, 10), *b;
    struct tenure_document d = {0};
    struct tenure_error err = {0};
    uint64_t before, after;

    assert_int_equal(put(a, "x", "first of all"), TENURE_OK);
    assert_int_equal(put(a, "x", "second of all"), TENURE_OK);
    assert_int_equal(put(a, "x", "third of all"), TENURE_OK);
    tenure_state_close(a);
    int fd = open_top(bed);
    off_t at = find_last(fd, "second of all") / TN_JOURNAL_BLOCK * TN_JOURNAL_BLOCK;
    static const char zeroes[TN_JOURNAL_BLOCK];
    assert_int_equal(pwrite(fd, zeroes, sizeof zeroes, at), TN_JOURNAL_BLOCK);
    close(fd);
    journals(bed, &before);
    b = lead(bed->url, 11);
    assert_int_equal(tenure_state_load(b, "docs", "x", &d, soon(), &err), TENURE_CORRUPT);
    assert_int_equal(put(b, "x", "over it?"), TENURE_CORRUPT);
    journals(bed, &after);
    assert_int_equal(before, after); /* who tries in vain leaves nothing behind */
    tenure_state_close(b);
}

static void torn_end_was_never_acknowledged(void **state)
{
    struct bed *bed = *state;
    tenure_state *a = lead(bed->url, 10), *b;

    assert_int_equal(put(a, "x", "acknowledged"), TENURE_OK);
    assert_int_equal(put(a, "x", "torn by a power cut"), TENURE_OK);
    tenure_state_close(a);
    int fd = open_top(bed);
    flip(fd, find_last(fd, "torn by a power cut"));
    close(fd);
    b = lead(bed->url, 11);
    expect(b, "x", "acknowledged");
    tenure_state_close(b);
}

/* Linked by one who died before it was filled: the one before it counts. */
static void unfilled_journal_counts_for_nothing(void **state)
{
    struct bed *bed = *state;
    tenure_state *a = lead(bed->url, 10), *look;
    struct tn_journal_head head = {.nonce = "nobody"};
    unsigned char block[TN_JOURNAL_BLOCK];
    char path[256];
    uint64_t top;

    assert_int_equal(put(a, "x", "1"), TENURE_OK);
    journals(bed, &top);
    head.number = top + 1;
    tn_journal_head_encode(&head, block);
    path_of(bed, top + 1, path);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_int_equal(write(fd, block, sizeof block), sizeof block);
    close(fd);
    look = lead(bed->url, 0);
    expect(look, "x", "1");
    assert_int_equal(put(a, "x", "2"), TENURE_OK);
    expect(look, "x", "2");
    expect(a, "x", "2");
    tenure_state_close(look);
    tenure_state_close(a);
}

/* A writer that slept while others came, went and were cleaned up is not the writer any more. */
static void sleeper_finds_its_journal_gone(void **state)
{
    struct bed *bed = *state;
    tenure_state *a = lead(bed->url, 10), *b;
    uint64_t top;
    char path[256];

    assert_int_equal(put(a, "x", "of the sleeper"), TENURE_OK);
    journals(bed, &top);
    for (uint64_t epoch = 11; epoch < 16; epoch++) {
        b = lead(bed->url, epoch);
        assert_int_equal(put(b, "x", "of another"), TENURE_OK);
        tenure_state_close(b);
    }
    /* Neither its own nor the next number is there. */
    path_of(bed, top, path);
    assert_int_not_equal(access(path, F_OK), 0);
    path_of(bed, top + 1, path);
    assert_int_not_equal(access(path, F_OK), 0);
    assert_int_equal(put(a, "x", "of the sleeper"), TENURE_FENCED);
    b = lead(bed->url, 16);
    expect(b, "x", "of another");
    tenure_state_close(a);
    tenure_state_close(b);
}

static void long_journal_is_begun_anew(void **state)
{
    struct bed *bed = *state;
    static char text[200001];
    tenure_state *a = lead(bed->url, 10), *b;
    uint64_t top;

    for (int i = 0; i < 40; i++) {
        memset(text, 'a' + i % 26, sizeof text - 1);
        assert_int_equal(put(a, i % 2 ? "x" : "y", text), TENURE_OK);
    }
    assert_in_range(journals(bed, &top), 1, TN_JOURNAL_KEEP);
    assert_true(top > 1);
    b = lead(bed->url, 11);
    expect(b, "x", text);
    assert_int_equal(put(a, "x", "stale"), TENURE_FENCED);
    tenure_state_close(a);
    tenure_state_close(b);
}

/* All who use a store agree on how the state is committed. */
static void everybody_commits_alike(void **state)
{
    struct bed *bed = *state;
    char url[160];
    tenure_state *s = lead(bed->url, 10);
    struct tenure_error err;

    tenure_state_close(s);
    s = NULL;
    snprintf(url, sizeof url, "%s?commits=slots", bed->url);
    assert_int_equal(tenure_state_open(url, "app", NULL, soon(), &s, &err), TENURE_CONFIG);
    snprintf(url, sizeof url, "%s?fs=network", bed->url);
    assert_int_equal(tenure_state_open(url, "app", NULL, soon(), &s, &err), TENURE_CONFIG);
    assert_non_null(strstr(err.text, "commits=slots"));
    snprintf(url, sizeof url, "file:%s/net?fs=network&commits=place", bed->root);
    assert_int_equal(tenure_state_open(url, "app", NULL, soon(), &s, &err), TENURE_CONFIG);
    snprintf(url, sizeof url, "file:%s/net?fs=network", bed->root);
    s = lead(url, 10);
    assert_int_equal(put(s, "x", "1"), TENURE_OK);
    tenure_state_close(s);
    snprintf(url, sizeof url, "file:%s/net", bed->root); /* as it was made, from whatever host */
    s = lead(url, 11);
    expect(s, "x", "1");
    assert_int_equal(put(s, "x", "2"), TENURE_OK);
    tenure_state_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(damage_is_told_with_its_place, setup, teardown),
        cmocka_unit_test_setup_teardown(lost_frame_is_not_passed_over, setup, teardown),
        cmocka_unit_test_setup_teardown(torn_end_was_never_acknowledged, setup, teardown),
        cmocka_unit_test_setup_teardown(unfilled_journal_counts_for_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(sleeper_finds_its_journal_gone, setup, teardown),
        cmocka_unit_test_setup_teardown(long_journal_is_begun_anew, setup, teardown),
        cmocka_unit_test_setup_teardown(everybody_commits_alike, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
