/* backend_host.c: memory of this machine. reserve maps address space without access, commit opens
 * it; the kernel finds a physical page at the first write, so what nobody touches costs nothing:
 * 70 GiB of a profile replay on a small machine as long as only edges are written. For the same
 * reason huge pages are declined: one written byte would cost 2 MiB.
 *
 * The context is the granularity, as a pointer: there is nothing to free. Granules may be smaller
 * than the system's page; ranges are then widened to pages when opened and narrowed when closed.
 */
#define _DEFAULT_SOURCE
#include "stw.h"

#include <sys/mman.h>
#include <unistd.h>

#define DEFAULT_GRANULARITY ((size_t)2 << 20)

static size_t page(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* Address space aligned to the granule: take a granule more and cut both ends off. */
static void *host_reserve(void *ctx, size_t bytes)
{
    size_t align = (size_t)(uintptr_t)ctx, pages = (bytes + page() - 1) & ~(page() - 1);
    size_t extra = align > page() ? align : 0;
    if (pages < bytes || pages + extra < pages)
        return NULL;
    char *p = mmap(NULL, pages + extra, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    if (extra) {
        size_t head = (size_t)(-(uintptr_t)p & (align - 1));
        if (head)
            munmap(p, head);
        if (extra - head)
            munmap(p + head + pages, extra - head);
        p += head;
    }
#ifdef MADV_NOHUGEPAGE
    madvise(p, pages, MADV_NOHUGEPAGE); /* fails where the kernel has none: as good */
#endif
    return p;
}

static int host_commit(void *ctx, void *p, size_t bytes)
{
    (void)ctx;
    size_t head = (uintptr_t)p & (page() - 1);
    return mprotect((char *)p - head, bytes + head, PROT_READ | PROT_WRITE);
}

static void host_decommit(void *ctx, void *p, size_t bytes)
{
    (void)ctx;
    size_t head = (size_t)(-(uintptr_t)p & (page() - 1));
    if (bytes <= head)
        return;
    size_t whole = (bytes - head) & ~(page() - 1);
    if (whole && madvise((char *)p + head, whole, MADV_DONTNEED) == 0)
        mprotect((char *)p + head, whole, PROT_NONE);
}

static void host_release(void *ctx, void *p, size_t bytes)
{
    (void)ctx;
    munmap(p, bytes);
}

stw_backend stw_backend_host(size_t granularity)
{
    size_t g = granularity ? granularity : DEFAULT_GRANULARITY;
    return (stw_backend){.ctx = (void *)(uintptr_t)g, .granularity = g, .reserve = host_reserve, .commit = host_commit,
                         .decommit = host_decommit, .release = host_release};
}
