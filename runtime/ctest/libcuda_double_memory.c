/* libcuda_double_memory.c: the double's memory (libcuda_double.c). */
#define _GNU_SOURCE
#include "libcuda_double_internal.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct {
    size_t offset, size; /* of the file; size 0: gone */
    int refs, maps, device, share;
} piece;

typedef struct range {
    struct range *next;
    char *base;
    size_t size;
    uint32_t *piece; /* of each granule: 1 + its index; 0: nothing is mapped */
    bool *first;     /* the granule is the first of a mapping */
    unsigned *reach; /* bit per device */
    bool plain;      /* of cuMemAlloc: always accessible */
} range;

#define HANDLES UINT64_C(0x51000000) /* a handle is this plus the index */

static size_t used[MAX_DEVICES];
static piece *pieces;
static size_t n_pieces, file_end;
static int file = -1;
static range *ranges;

static range *range_at(const void *p)
{
    range *r = ranges;
    while (r && (uintptr_t)p - (uintptr_t)r->base >= r->size)
        r = r->next;
    return r;
}

/* Whether a kernel of the device may touch [p, p + n). */
bool double_usable(const char *p, size_t n, int device)
{
    const range *r = range_at(p);
    size_t at = r ? (size_t)(p - r->base) : 0;
    if (!r || n > r->size - at)
        return false;
    for (size_t g = at / double_is.granularity; !r->plain && n > 0 && g <= (at + n - 1) / double_is.granularity; g++)
        if (!(r->reach[g] >> device & 1))
            return false;
    return true;
}

static size_t granules(const range *r)
{
    return r->plain ? 0 : r->size / double_is.granularity;
}

static void range_drop(range *r)
{
    range **at = &ranges;
    while (*at != r)
        at = &(*at)->next;
    *at = r->next;
    munmap(r->base, r->size);
    free(r->piece);
    free(r->first);
    free(r->reach);
    free(r);
}

/* Aligned address space; NULL: none. */
static range *range_make(size_t size, size_t align, int protection)
{
    range *r = calloc(1, sizeof *r);
    size_t n = size / double_is.granularity + 1;
    char *p = mmap(NULL, size + align, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (!r || p == MAP_FAILED)
        abort();
    size_t head = (size_t)(-(uintptr_t)p & (align - 1));
    if (head)
        munmap(p, head);
    munmap(p + head + size, align - head);
    *r = (range){ranges, p + head, size, calloc(n, sizeof *r->piece), calloc(n, sizeof *r->first), calloc(n, sizeof *r->reach), false};
    return ranges = r;
}

static void maybe_gone(piece *k)
{
    if (k->refs > 0 || k->maps > 0)
        return;
    fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)k->offset, (off_t)k->size);
    used[k->device] -= k->size;
    double_now.memory -= k->size;
    k->size = 0;
}

static piece *piece_of(cu_handle h)
{
    return h >= HANDLES && h - HANDLES < n_pieces && pieces[h - HANDLES].size > 0 ? &pieces[h - HANDLES] : NULL;
}

STW_API cu_result cuMemGetAllocationGranularity(size_t *g, const cu_prop *prop, int which)
{
    BEGIN(granularity);
    NEED(prop->type == CU_PINNED && which == CU_GRANULARITY_LEAST, "cuMemGetAllocationGranularity", "arguments");
    *g = double_is.granularity;
    return CU_OK;
}

STW_API cu_result cuMemAddressReserve(cu_ptr *p, size_t bytes, size_t align, cu_ptr hint, unsigned long long flags)
{
    BEGIN(reserve);
    TRY(double_need_context("cuMemAddressReserve"));
    NEED(bytes > 0 && bytes % double_is.granularity == 0 && (align & (align - 1)) == 0 && !hint && !flags, "cuMemAddressReserve", "arguments");
    range *r = range_make(bytes, align > double_is.granularity ? align : double_is.granularity, PROT_NONE);
    double_now.ranges++;
    double_now.address_space += bytes;
    *p = (cu_ptr)(uintptr_t)r->base;
    return CU_OK;
}

STW_API cu_result cuMemAddressFree(cu_ptr p, size_t bytes)
{
    BEGIN(unreserve);
    TRY(double_need_context("cuMemAddressFree"));
    range *r = range_at((void *)(uintptr_t)p);
    NEED(r && !r->plain && (cu_ptr)(uintptr_t)r->base == p && r->size == bytes, "cuMemAddressFree", "not a whole reservation");
    for (size_t g = 0; g < granules(r); g++)
        NEED(!r->piece[g], "cuMemAddressFree", "something is mapped");
    range_drop(r);
    double_now.ranges--;
    double_now.address_space -= bytes;
    return CU_OK;
}

STW_API cu_result cuMemCreate(cu_handle *h, size_t bytes, const cu_prop *prop, unsigned long long flags)
{
    BEGIN(create);
    TRY(double_need_context("cuMemCreate"));
    TRY(double_need_no_capture("cuMemCreate", false));
    int d = prop->location.id;
    NEED(bytes > 0 && bytes % double_is.granularity == 0 && prop->type == CU_PINNED && prop->location.type == CU_ON_DEVICE && d >= 0 &&
             d < double_is.devices && !prop->compression && !prop->usage && !flags,
         "cuMemCreate", "arguments");
    if (prop->share == STW_CUDA_SHARE_FABRIC && !double_is.fabric_permitted)
        return CU_NOT_PERMITTED;
    NEED(!(prop->rdma && double_is.no_rdma) && !(prop->share == STW_CUDA_SHARE_FD && double_is.no_fd), "cuMemCreate", "what the device cannot do");
    if (bytes > double_is.memory - used[d])
        return CU_OUT_OF_MEMORY;
    if (file < 0 && (file = memfd_create("double", MFD_CLOEXEC)) < 0)
        abort();
    if ((n_pieces & (n_pieces - 1)) == 0 && !(pieces = realloc(pieces, (n_pieces ? 2 * n_pieces : 1) * sizeof *pieces)))
        abort();
    pieces[n_pieces] = (piece){file_end, bytes, 1, 0, d, prop->share | (prop->rdma ? 16 : 0)};
    file_end += bytes;
    if (ftruncate(file, (off_t)file_end) != 0)
        abort();
    used[d] += bytes;
    double_now.memory += bytes;
    double_now.handles++;
    *h = HANDLES + n_pieces++;
    return CU_OK;
}

STW_API cu_result cuMemRelease(cu_handle h)
{
    BEGIN(release);
    TRY(double_need_context("cuMemRelease"));
    piece *k = piece_of(h);
    NEED(k && k->refs > 0, "cuMemRelease", "no such handle, or released already");
    k->refs--;
    double_now.handles--;
    maybe_gone(k);
    return CU_OK;
}

STW_API cu_result cuMemMap(cu_ptr p, size_t bytes, size_t offset, cu_handle h, unsigned long long flags)
{
    BEGIN(map);
    TRY(double_need_context("cuMemMap"));
    range *r = range_at((void *)(uintptr_t)p);
    piece *k = piece_of(h);
    size_t at = r ? p - (cu_ptr)(uintptr_t)r->base : 0, G = double_is.granularity;
    NEED(r && !r->plain && k && k->refs > 0 && p % G == 0 && offset == 0 && bytes == k->size && bytes <= r->size - at && !flags, "cuMemMap", "arguments");
    for (size_t g = at / G; g < (at + bytes) / G; g++)
        NEED(!r->piece[g], "cuMemMap", "something is mapped there");
    if (mmap((void *)(uintptr_t)p, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, file, (off_t)k->offset) == MAP_FAILED)
        abort();
    for (size_t g = at / G; g < (at + bytes) / G; g++)
        r->piece[g] = 1 + (uint32_t)(h - HANDLES);
    r->first[at / G] = true;
    k->maps++;
    double_now.mappings++;
    return CU_OK;
}

STW_API cu_result cuMemUnmap(cu_ptr p, size_t bytes)
{
    BEGIN(unmap);
    TRY(double_need_context("cuMemUnmap"));
    range *r = range_at((void *)(uintptr_t)p);
    size_t at = r ? p - (cu_ptr)(uintptr_t)r->base : 0, G = double_is.granularity, from = at / G, to = (at + bytes) / G;
    NEED(r && !r->plain && bytes > 0 && p % G == 0 && bytes % G == 0 && bytes <= r->size - at, "cuMemUnmap", "arguments");
    for (size_t g = from; g < to; g++)
        NEED(r->piece[g], "cuMemUnmap", "nothing is mapped there");
    NEED(r->first[from] && (to == granules(r) || !r->piece[to] || r->first[to]), "cuMemUnmap", "a part of a mapping");
    if (mmap((void *)(uintptr_t)p, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
        abort();
    for (size_t g = from; g < to; g++) {
        piece *k = &pieces[r->piece[g] - 1];
        if (r->first[g]) {
            k->maps--;
            double_now.mappings--;
            maybe_gone(k);
        }
        r->piece[g] = 0;
        r->reach[g] = 0;
        r->first[g] = false;
    }
    return CU_OK;
}

STW_API cu_result cuMemSetAccess(cu_ptr p, size_t bytes, const cu_access *access, size_t n)
{
    BEGIN(set_access);
    TRY(double_need_context("cuMemSetAccess"));
    range *r = range_at((void *)(uintptr_t)p);
    size_t at = r ? p - (cu_ptr)(uintptr_t)r->base : 0, G = double_is.granularity, from = at / G, to = (at + bytes) / G;
    unsigned reach = 0;
    NEED(r && !r->plain && bytes > 0 && p % G == 0 && bytes % G == 0 && bytes <= r->size - at, "cuMemSetAccess", "arguments");
    for (size_t i = 0; i < n; i++) {
        int d = access[i].location.id;
        NEED(access[i].location.type == CU_ON_DEVICE && d >= 0 && d < double_is.devices && access[i].access == CU_READ_WRITE, "cuMemSetAccess", "access");
        reach |= 1u << d;
    }
    for (size_t g = from; g < to; g++)
        NEED(r->piece[g], "cuMemSetAccess", "nothing is mapped there");
    NEED(r->first[from] && (to == granules(r) || !r->piece[to] || r->first[to]), "cuMemSetAccess", "a part of a mapping");
    if (mprotect((void *)(uintptr_t)p, bytes, reach ? PROT_READ | PROT_WRITE : PROT_NONE) != 0)
        abort();
    for (size_t g = from; g < to; g++)
        r->reach[g] = reach;
    return CU_OK;
}

STW_API cu_result cuMemAlloc_v2(cu_ptr *p, size_t bytes)
{
    BEGIN(alloc);
    TRY(double_need_context("cuMemAlloc"));
    TRY(double_need_no_capture("cuMemAlloc", false));
    int d = double_top()->device;
    NEED(bytes > 0, "cuMemAlloc", "nothing");
    if (bytes > double_is.memory - used[d])
        return CU_OUT_OF_MEMORY;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    range *r = range_make((bytes + page - 1) & ~(page - 1), page, PROT_READ | PROT_WRITE);
    r->plain = true;
    used[d] += r->size;
    double_now.memory += r->size;
    double_now.allocs++;
    *p = (cu_ptr)(uintptr_t)r->base;
    return CU_OK;
}

STW_API cu_result cuMemFree_v2(cu_ptr p)
{
    BEGIN(free);
    TRY(double_need_context("cuMemFree"));
    TRY(double_need_no_capture("cuMemFree", false));
    range *r = range_at((void *)(uintptr_t)p);
    NEED(r && r->plain && (cu_ptr)(uintptr_t)r->base == p, "cuMemFree", "not an allocation");
    double_run_all(); /* it waits */
    used[double_top()->device] -= r->size;
    double_now.memory -= r->size;
    double_now.allocs--;
    range_drop(r);
    return CU_OK;
}

void double_memory_reset(void)
{
    while (ranges)
        range_drop(ranges);
    for (size_t i = 0; i < n_pieces; i++)
        if (pieces[i].size > 0) {
            pieces[i].refs = pieces[i].maps = 0;
            maybe_gone(&pieces[i]);
        }
    free(pieces);
    pieces = NULL;
    n_pieces = file_end = 0;
    if (file >= 0)
        close(file);
    file = -1;
    for (int d = 0; d < MAX_DEVICES; d++)
        used[d] = 0;
}

static const piece *mapped_at(const void *p, const range **r, size_t *g)
{
    *r = range_at(p);
    *g = *r ? (size_t)((const char *)p - (*r)->base) / double_is.granularity : 0;
    return *r && !(*r)->plain && (*r)->piece[*g] ? &pieces[(*r)->piece[*g] - 1] : NULL;
}

unsigned double_reach(const void *p)
{
    const range *r;
    size_t g;
    return mapped_at(p, &r, &g) ? r->reach[g] : 0;
}

int double_share(const void *p)
{
    const range *r;
    size_t g;
    const piece *k = mapped_at(p, &r, &g);
    return k ? k->share : -1;
}

bool double_same(const void *p, const void *q)
{
    const range *r;
    size_t g;
    const piece *k = mapped_at(p, &r, &g);
    return k && k == mapped_at(q, &r, &g);
}
