#include "trim.h"

#include <link.h>
#include <malloc.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

/* Segments that were never writable hold only what is in the file, so dropping
 * their pages loses nothing.  Relocated data lies in writable ones. */
static int trim_object(struct dl_phdr_info *object, size_t size, void *arg)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);

    (void)size;
    (void)arg;
    for (size_t i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &object->dlpi_phdr[i];

        if (segment->p_type != PT_LOAD || (segment->p_flags & PF_W))
            continue;
        uintptr_t start = (object->dlpi_addr + segment->p_vaddr) & ~(page - 1);
        uintptr_t end = object->dlpi_addr + segment->p_vaddr + segment->p_memsz;
        /* The kernel's own page, which is no file, refuses; so be it. */
        madvise((void *)start, end - start, MADV_DONTNEED);
    }
    return 0;
}

void tn_trim(void)
{
    malloc_trim(0);
    dl_iterate_phdr(trim_object, NULL);
}
