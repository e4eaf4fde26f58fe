/*
 * A repair that is under way while the collection is sealed.  The store cannot read what is
 * damaged, so the seal cannot raise its epoch: the repair lands behind it, under the fence of a
 * leader of before, who must not take it for its own (I3).
 */
#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rot_store.h"
#include "state_kit.h"

#define X   "app/state/docs/x"
#define ROT "what will rot"

static char folder[] = "/tmp/tenure-repaired.XXXXXX";

/* ---- Damage -------------------------------------------------------------- */

/* Flip a bit of every copy of the data in one file; how many there were. */
static unsigned spoil_file(int dir, const char *name)
{
    int fd = openat(dir, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    unsigned found = 0;
    struct stat st;

    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &st), 0);
    char *bytes = st.st_size
                      ? mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
                      : NULL;
    for (char *at = bytes;
         at && (at = memmem(at, (size_t)(bytes + st.st_size - at), ROT, strlen(ROT)));) {
        *at ^= 1;
        found++;
    }
    if (bytes)
        munmap(bytes, (size_t)st.st_size);
    close(fd);
    return found;
}

static unsigned spoil_below(int above, const char *name)
{
    int fd = openat(above, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fdopendir(fd);
    struct dirent *entry;
    unsigned found = 0;

    assert_non_null(dir);
    while ((entry = readdir(dir))) {
        if (entry->d_type == DT_DIR && entry->d_name[0] != '.')
            found += spoil_below(fd, entry->d_name);
        else if (entry->d_type == DT_REG)
            found += spoil_file(fd, entry->d_name);
    }
    closedir(dir);
    return found;
}

/* ---- The timeline -------------------------------------------------------- */

/* What the operator is overtaken by in front of its last swap. */
struct meanwhile {
    const char *url;
    tenure_state *first, *second; /* seal the collection, in this order; NULL: nobody */
};

static void overtake(void *arg, const struct tn_fault_event *event, struct tn_fault_plan *plan)
{
    struct meanwhile *m = arg;

    (void)plan;
    if (event->call != TN_CALL_SWAP || strcmp(event->key, X) != 0)
        return;
    if (m->first)
        seal(m->first);
    if (m->second)
        seal(m->second);
    m->first = m->second = NULL;
}

/* x is damaged under the leader of epoch 10, and then repaired. */
static void repair(const char *url, tenure_state *ten, tenure_state *first, tenure_state *second)
{
    struct meanwhile m = {url, first, second};
    char repairing[120], kept[TENURE_KEEP_MAX + 1] = "";
    struct tenure_error err = {0};
    tn_fault *plain = NULL, *below = NULL;

    snprintf(repairing, sizeof repairing, "%s&repair=yes", url);
    assert_int_equal(tn_fault_new("f", url, &plain, &err), TENURE_OK);
    assert_int_equal(tn_fault_new("f?repair=yes", repairing, &below, &err), TENURE_OK);
    tn_fault_hook(below, overtake, &m);
    seal(ten);
    assert_int_equal(put(ten, "x", ROT), TENURE_OK);
    assert_int_equal(put(ten, "y", "1"), TENURE_OK); /* at the end of a journal it would be torn */
    assert_int_equal(spoil_below(AT_FDCWD, folder), 1);
    tenure_state *op = lead("fault:f", 0);
    if (tenure_state_repair(op, "docs", "x", "repaired", 8, NULL, kept, soon(), &err))
        fail_msg("%s: %s", url, err.text);
    assert_null(m.first);
    tenure_state_close(op);
    tn_fault_free(below);
    tn_fault_free(plain);
}

/* ---- Who leads no more --------------------------------------------------- */

static enum tenure_status load(tenure_state *s, const char *id)
{
    struct tenure_document d = {0};
    enum tenure_status status = tenure_state_load(s, "docs", id, &d, soon(), NULL);

    tenure_document_free(&d);
    return status;
}

static void by_load(tenure_state *stale)
{
    assert_int_equal(load(stale, "x"), TENURE_FENCED);
}

/* A commit meets what it does not know, and is told to look. */
static void by_commit(tenure_state *stale)
{
    enum tenure_status status = put(stale, "x", "stale");

    assert_true(status == TENURE_CONFLICT || status == TENURE_FENCED);
    assert_int_equal(load(stale, "x"), TENURE_FENCED);
}

static void by_seal(tenure_state *stale)
{
    assert_int_equal(tenure_state_seal(stale, "docs", soon(), NULL), TENURE_FENCED);
}

static void stays_out(const char *url, void (*tries)(tenure_state *stale), bool older)
{
    tenure_state *nine = lead(url, 9), *ten = lead(url, 10), *eleven = lead(url, 11);

    /* The fence of the repair is the stale leader's own, or an older one that it would raise. */
    repair(url, older ? nine : ten, older ? ten : eleven, older ? eleven : NULL);
    tries(ten);
    assert_int_equal(put(ten, "x", "stale"), TENURE_FENCED);
    assert_int_equal(tenure_state_floor(ten), 11);
    expect(eleven, "x", "repaired");
    assert_int_equal(put(eleven, "x", "2"), TENURE_OK);
    tenure_state_close(nine);
    tenure_state_close(ten);
    tenure_state_close(eleven);
}

/* Nobody else has sealed it: who leads goes on, and who comes next has it. */
static void goes_on(const char *url)
{
    tenure_state *ten = lead(url, 10), *eleven = lead(url, 11);

    repair(url, ten, NULL, NULL);
    expect(ten, "x", "repaired");
    assert_int_equal(put(ten, "x", "2"), TENURE_OK);
    seal(eleven);
    expect(eleven, "x", "2");
    assert_int_equal(put(ten, "x", "stale"), TENURE_FENCED);
    tenure_state_close(ten);
    tenure_state_close(eleven);
}

static void a_repair_under_way(void **state)
{
    static const char *const commits[] = {"place", "slots"};
    static void (*const tries[])(tenure_state *) = {by_load, by_commit, by_seal, NULL};
    unsigned number = 0;

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        for (size_t k = 0; k < 8; k++) {
            char url[96];

            snprintf(url, sizeof url, "file:%s/%u?commits=%s", folder, ++number, commits[i]);
            if (tries[k / 2])
                stays_out(url, tries[k / 2], k % 2);
            else if (k % 2)
                goes_on(url);
        }
    }
}

/* ---- Whatever it was doing ----------------------------------------------- */

static const char *rotten;   /* the store */
static tenure_state *eleven; /* seals behind the operator's back */

static void seal_eleven(void)
{
    seal(eleven);
}

/* x rots, and its repair lands behind the seal. */
static void rot_and_repair(void)
{
    char kept[TENURE_KEEP_MAX + 1];
    tenure_state *op = lead(rotten, 0);

    strcpy(rot_key, X);
    rot_ahead = seal_eleven;
    assert_int_equal(tenure_state_repair(op, "docs", "x", "repaired", 8, NULL, kept, soon(), NULL),
                     TENURE_OK);
    assert_null(rot_ahead);
    tenure_state_close(op);
}

/* Once: what befalls the leader of epoch 10. */
static enum { NOTHING, OVERTAKEN, CUT_OFF } fate;

static void befall(void *arg, const struct tn_fault_event *event, struct tn_fault_plan *plan)
{
    (void)arg;
    if (fate == OVERTAKEN && event->call == TN_CALL_SWAP && strcmp(event->key, X) == 0) {
        fate = NOTHING;
        rot_and_repair();
    } else if (fate == CUT_OFF && event->call == TN_CALL_READ &&
               strcmp(event->key, "app/state/docs") == 0) {
        fate = NOTHING;
        *plan = (struct tn_fault_plan){.action = TN_FAULT_FAIL, .status = TENURE_UNAVAILABLE};
    }
}

static void tell(const char *url, void (*story)(tenure_state *ten))
{
    tn_fault *f = NULL;

    rotten = url;
    assert_int_equal(tn_fault_new("ten", url, &f, NULL), TENURE_OK);
    tn_fault_hook(f, befall, NULL);
    tenure_state *nine = lead(url, 9), *ten = lead("fault:ten", 10);
    eleven = lead(url, 11);
    assert_int_equal(put(nine, "x", "1"), TENURE_OK);
    story(ten);
    assert_int_equal(fate, NOTHING);
    assert_int_equal(put(ten, "x", "stale"), TENURE_FENCED);
    expect(eleven, "x", "repaired");
    tenure_state_close(nine);
    tenure_state_close(ten);
    tenure_state_close(eleven);
    tn_fault_free(f);
}

/* It is about to raise what it has read, and finds its own fence there. */
static void while_it_seals(tenure_state *ten)
{
    fate = OVERTAKEN;
    assert_int_equal(tenure_state_seal(ten, "docs", soon(), NULL), TENURE_FENCED);
}

/* It has listed the document, and cannot ask for the root: that is no seal. */
static void when_the_root_is_out_of_reach(tenure_state *ten)
{
    expect(ten, "other", NULL);
    rot_and_repair();
    fate = CUT_OFF;
    assert_int_equal(tenure_state_seal(ten, "docs", soon(), NULL), TENURE_UNAVAILABLE);
}

static void in_the_middle(void **state)
{
    (void)state;
    tell("rot:seals", while_it_seals);
    tell("rot:cut", when_the_root_is_out_of_reach);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_repair_under_way),
                                       cmocka_unit_test(in_the_middle)};
    char tidy[64];

    if (!mkdtemp(folder) || tenure_store_register(&rot_ops, NULL))
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    snprintf(tidy, sizeof tidy, "rm -rf %s", folder);
    return system(tidy) || failed;
}
