#include "trim.h"

#include <link.h>
#include <malloc.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#define RANGES_MAX 128 /* of more objects than that, the rest stays */

struct ranges {
    struct {
        uintptr_t start, end;
    } of[RANGES_MAX];
    size_t n;
};

/* Segments that were never writable hold only what is in the file, so dropping
 * their pages loses nothing.  Relocated data lies in writable ones. */
static int add_object(struct dl_phdr_info *object, size_t size, void *arg)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    struct ranges *ranges = arg;

    (void)size;
    for (size_t i = 0; i < object->dlpi_phnum && ranges->n < RANGES_MAX; i++) {
        const ElfW(Phdr) *segment = &object->dlpi_phdr[i];
        uintptr_t start = object->dlpi_addr + segment->p_vaddr;

        if (segment->p_type != PT_LOAD || (segment->p_flags & PF_W))
            continue;
        ranges->of[ranges->n].start = start & ~(page - 1);
        ranges->of[ranges->n++].end = start + segment->p_memsz;
    }
    return 0;
}

void tn_trim(void)
{
    struct ranges ranges = {.n = 0};

    malloc_trim(0);
    /* First the list, then the pages: what describes the segments lies in them. */
    dl_iterate_phdr(add_object, &ranges);
    for (size_t i = 0; i < ranges.n; i++) {
        /* The kernel's own page, which is no file, refuses; so be it. */
        madvise((void *)ranges.of[i].start, ranges.of[i].end - ranges.of[i].start, MADV_DONTNEED);
    }
}
