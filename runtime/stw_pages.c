/* stw_pages.c: which granules of a space are committed: of the arena, of a heap.
 *
 *     in use   |  ##   |   #########  |   | ## |             |
 *     granules |#######|########|.....|   |####|             |
 *               committed        idle  given back, or never needed
 *
 * A bitmap, one bit for each granule of the address space, mapped and so far paged in only as far as the
 * space has been used. Granules are committed when an address is handed out that touches them; what is free stays
 * committed until it is given back (stw_memory.c says when). `solid` is a prefix known to be committed whole:
 * of an arena whose plan has been executed once it is all of it, of a heap that has given back nothing, too,
 * and the check is one comparison.
 */
#include "stw_internal.h"

static char *place(const stw_allocator *a, const stw_space *p, uint64_t granule)
{
    return p->base + granule * a->backend.granularity;
}

static uint64_t granules_of(const stw_allocator *a, const stw_space *p)
{
    return p->bytes / a->backend.granularity;
}

bool stwi_space_open(const stw_allocator *a, stw_space *p, uint64_t bytes)
{
    p->bytes = bytes;
    p->pages_bytes = (granules_of(a, p) / 64 + 1) * sizeof *p->pages;
    p->pages = stwi_map(p->pages_bytes);
    p->base = p->pages ? a->backend.reserve(a->backend.ctx, bytes) : NULL;
    if (p->base && (uintptr_t)p->base % STW_PLAN_ALIGN == 0)
        return true;
    if (p->base)
        a->backend.release(a->backend.ctx, p->base, bytes);
    stwi_unmap(p->pages, p->pages_bytes);
    *p = (stw_space){0};
    return false;
}

void stwi_space_close(stw_allocator *a, stw_space *p)
{
    if (!p->base)
        return;
    stwi_space_give_locked(a, p, 0, granules_of(a, p), UINT64_MAX);
    a->backend.release(a->backend.ctx, p->base, p->bytes);
    stwi_unmap(p->pages, p->pages_bytes);
    *p = (stw_space){0};
}

bool stwi_space_ready_far(const stw_allocator *a, const stw_space *p, uint64_t start, uint64_t units)
{
    stw_granules r = stwi_granules(a, start, units);
    return stwi_bits_next(p->pages, r.from, r.to, false) == r.to;
}

uint64_t stwi_space_missing(const stw_space *p, stw_granules r)
{
    uint64_t missing = 0;
    for (uint64_t g = stwi_bits_next(p->pages, r.from, r.to, false); g < r.to;) {
        uint64_t end = stwi_bits_next(p->pages, g, r.to, true);
        missing += end - g;
        g = stwi_bits_next(p->pages, end, r.to, false);
    }
    return missing;
}

bool stwi_space_commit_far_locked(stw_allocator *a, stw_space *p, uint64_t start, uint64_t units)
{
    const stw_backend *k = &a->backend;
    const stw_granules r = stwi_granules(a, start, units);
    const uint64_t missing = stwi_space_missing(p, r);
    if (missing == 0)
        return true;
    uint64_t more = missing * k->granularity;
    stwi_move_locked(a, p, r, more);
    if (a->capacity_bytes && more > a->capacity_bytes - a->stats.reserved_bytes)
        return false;
    for (uint64_t g = stwi_bits_next(p->pages, r.from, r.to, false); g < r.to;) {
        uint64_t end = stwi_bits_next(p->pages, g, r.to, true);
        if (k->commit(k->ctx, place(a, p, g), (end - g) * k->granularity) != 0) {
            for (uint64_t back = stwi_bits_next(p->pages, r.from, g, false); back < g;) { /* undo the runs before this one */
                uint64_t done = stwi_bits_next(p->pages, back, g, true);
                k->decommit(k->ctx, place(a, p, back), (done - back) * k->granularity);
                back = stwi_bits_next(p->pages, done, g, false);
            }
            return false;
        }
        g = stwi_bits_next(p->pages, end, r.to, false);
    }
    stwi_bits_set(p->pages, r.from, r.to, true);
    if (r.from <= p->solid >> a->granule_shift)
        p->solid = stwi_bits_next(p->pages, r.to, granules_of(a, p), false) << a->granule_shift;
    p->committed_bytes += more;
    a->stats.reserved_bytes += more;
    if (a->stats.reserved_bytes > a->stats.peak_reserved_bytes)
        a->stats.peak_reserved_bytes = a->stats.reserved_bytes;
    if (a->stats.reserved_bytes > a->most_bytes)
        a->most_bytes = a->stats.reserved_bytes;
    return true;
}

uint64_t stwi_space_give_locked(stw_allocator *a, stw_space *p, uint64_t from, uint64_t to, uint64_t most)
{
    uint64_t n = 0;
    while (n < most) {
        uint64_t end = stwi_bits_last(p->pages, from, to, true), begin = stwi_bits_last(p->pages, from, end, false);
        if (begin == end)
            break;
        if (end - begin > most - n)
            begin = end - (most - n);
        if (a->stitch)
            stwi_stitch_forget_locked(a, place(a, p, begin), (end - begin) * a->backend.granularity);
        a->backend.decommit(a->backend.ctx, place(a, p, begin), (end - begin) * a->backend.granularity);
        stwi_bits_set(p->pages, begin, end, false);
        if (begin < p->solid >> a->granule_shift)
            p->solid = begin << a->granule_shift;
        n += end - begin;
        to = begin;
    }
    p->committed_bytes -= n * a->backend.granularity;
    a->stats.reserved_bytes -= n * a->backend.granularity;
    return n;
}

const char *stwi_space_check(const stw_allocator *a, const stw_space *p)
{
    uint64_t n = 0, end = p->base ? granules_of(a, p) : 0;
    for (uint64_t g = stwi_bits_next(p->pages, 0, end, true); g < end;) {
        uint64_t stop = stwi_bits_next(p->pages, g, end, false);
        n += stop - g;
        g = stwi_bits_next(p->pages, stop, end, true);
    }
    if (n * a->backend.granularity != p->committed_bytes)
        return "the committed bytes of a space are not those of its granules";
    uint64_t solid = p->solid >> a->granule_shift;
    return stwi_bits_next(p->pages, 0, solid, false) == solid ? NULL : "the solid part of a space has a hole";
}
