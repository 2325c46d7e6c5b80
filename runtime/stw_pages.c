/* stw_pages.c: which granules of a heap are committed, and giving back those that nobody uses.
 *
 *     blocks   | used |      free       | used | free |     free      |
 *     granules |######|###|.....|.....|####|######|####|............|
 *               committed  given back              committed
 *
 * A bitmap, one bit for each granule of the heap's address space, mapped and so far paged in only as far
 * as the heap has been. A block's granules are committed when it is handed out; what is free stays committed until
 * stwi_trim_locked takes all granules that no used block touches. `solid` is a prefix known to be
 * committed whole: while nothing has been given back it is all of the heap, and the check is one
 * comparison.
 */
#include "stw_internal.h"

static void set(stw_heap *h, uint64_t from, uint64_t to, bool on)
{
    for (uint64_t g = from; g < to; g++) {
        if ((g & 63) == 0 && to - g >= 64) {
            h->pages[g >> 6] = on ? ~UINT64_C(0) : 0;
            g += 63;
        } else if (on) {
            h->pages[g >> 6] |= UINT64_C(1) << (g & 63);
        } else {
            h->pages[g >> 6] &= ~(UINT64_C(1) << (g & 63));
        }
    }
}

/* The first granule in [g, end) whose bit is `on`; end if there is none. */
static uint64_t next(const stw_heap *h, uint64_t g, uint64_t end, bool on)
{
    while (g < end) {
        uint64_t w = h->pages[g >> 6];
        w = (on ? w : ~w) >> (g & 63);
        if (w != 0) {
            g += (uint64_t)__builtin_ctzll(w);
            return g < end ? g : end;
        }
        g = (g | 63) + 1;
    }
    return end;
}

/* The end of the run [., end) of granules below end whose bit is not `on`: one after the last that has it; begin if none has. */
uint64_t stwi_pages_last(const stw_heap *h, uint64_t begin, uint64_t end, bool on)
{
    while (end > begin && (h->pages[(end - 1) >> 6] >> ((end - 1) & 63) & 1) != on)
        end--;
    return end;
}

static char *place(const stw_allocator *a, const stw_heap *h, uint64_t g)
{
    return h->base + g * a->backend.granularity;
}

bool stwi_pages_ready(const stw_allocator *a, const stw_heap *h, uint64_t start, uint64_t units)
{
    uint64_t granule = a->backend.granularity, from = (start << STW_UNIT_SHIFT) / granule,
             to = (((start + units) << STW_UNIT_SHIFT) + granule - 1) / granule;
    return to <= h->solid || next(h, from, to, false) == to;
}

bool stwi_pages_commit_locked(stw_allocator *a, stw_heap *h, uint64_t start, uint64_t units)
{
    const stw_backend *k = &a->backend;
    uint64_t granule = k->granularity, from = (start << STW_UNIT_SHIFT) / granule,
             to = (((start + units) << STW_UNIT_SHIFT) + granule - 1) / granule;
    if (__builtin_expect(to <= h->solid, 1))
        return true;
    uint64_t missing = 0;
    for (uint64_t g = next(h, from, to, false); g < to;) {
        uint64_t end = next(h, g, to, true);
        missing += end - g;
        g = next(h, end, to, false);
    }
    uint64_t more = missing * granule;
    if (a->capacity_bytes && more > a->capacity_bytes - a->stats.reserved_bytes)
        return false;
    for (uint64_t g = next(h, from, to, false); g < to;) {
        uint64_t end = next(h, g, to, true);
        if (k->commit(k->ctx, place(a, h, g), (end - g) * granule) != 0) {
            for (uint64_t back = next(h, from, g, false); back < g;) { /* undo the runs before this one */
                uint64_t done = next(h, back, g, true);
                k->decommit(k->ctx, place(a, h, back), (done - back) * granule);
                back = next(h, done, g, false);
            }
            return false;
        }
        g = next(h, end, to, false);
    }
    set(h, from, to, true);
    if (from <= h->solid)
        h->solid = to;
    h->committed_bytes += more;
    a->stats.reserved_bytes += more;
    if (a->stats.reserved_bytes > a->stats.peak_reserved_bytes)
        a->stats.peak_reserved_bytes = a->stats.reserved_bytes;
    return true;
}

/* Gives back what is committed of the granules [from, to). */
static uint64_t give_back_locked(stw_allocator *a, stw_heap *h, uint64_t from, uint64_t to)
{
    uint64_t bytes = 0;
    for (uint64_t g = next(h, from, to, true); g < to;) {
        uint64_t end = next(h, g, to, false);
        if (a->stitch)
            stwi_stitch_forget_locked(a, place(a, h, g), (end - g) * a->backend.granularity);
        a->backend.decommit(a->backend.ctx, place(a, h, g), (end - g) * a->backend.granularity);
        bytes += (end - g) * a->backend.granularity;
        set(h, g, end, false);
        if (g < h->solid)
            h->solid = g;
        g = next(h, end, to, true);
    }
    h->committed_bytes -= bytes;
    a->stats.reserved_bytes -= bytes;
    return bytes;
}

bool stwi_capturing_locked(const stw_allocator *a)
{
    for (uint32_t i = 0; a->backend.capturing && i < a->n_streams; i++)
        if (a->backend.capturing(a->backend.ctx, a->streams[i].handle))
            return true;
    return false;
}

uint64_t stwi_trim_locked(stw_allocator *a)
{
    if (stwi_capturing_locked(a))
        return 0;
    uint64_t bytes = 0, granule = a->backend.granularity;
    for (uint32_t i = 0; i < a->n_streams; i++) {
        stw_heap *h = a->streams[i].heap;
        for (uint32_t b = h ? h->last : 0; b; b = h->blocks[b].prev) {
            const stw_block *k = &h->blocks[b];
            if (k->used)
                continue;
            uint64_t end = (uint64_t)k->start + k->units;
            uint64_t from = (((uint64_t)k->start << STW_UNIT_SHIFT) + granule - 1) / granule;
            uint64_t to = ((end << STW_UNIT_SHIFT) + (b == h->last ? granule - 1 : 0)) / granule;
            if (from < to)
                bytes += give_back_locked(a, h, from, to);
        }
    }
    if (bytes) {
        a->stats.trims++;
        a->stats.returned_bytes += bytes;
    }
    return bytes;
}

bool stwi_pages_init(const stw_allocator *a, stw_heap *h)
{
    h->pages_bytes = (a->heap_bytes / a->backend.granularity / 64 + 1) * sizeof *h->pages;
    return (h->pages = stwi_map(h->pages_bytes)) != NULL;
}

void stwi_pages_drop(stw_allocator *a, stw_heap *h)
{
    if (h->committed_bytes)
        give_back_locked(a, h, 0, a->heap_bytes / a->backend.granularity);
    stwi_unmap(h->pages, h->pages_bytes);
}

const char *stwi_pages_check(const stw_allocator *a, const stw_heap *h)
{
    uint64_t granule = a->backend.granularity, n = 0, end = a->heap_bytes / granule;
    for (uint64_t g = next(h, 0, end, true); g < end;) {
        uint64_t stop = next(h, g, end, false);
        n += stop - g;
        g = next(h, stop, end, true);
    }
    if (n * granule != h->committed_bytes)
        return "a heap's committed bytes are not those of its granules";
    if (next(h, 0, h->solid, false) != h->solid)
        return "a heap's solid part has a hole";
    for (uint32_t b = h->last; b; b = h->blocks[b].prev) {
        const stw_block *k = &h->blocks[b];
        uint64_t from = ((uint64_t)k->start << STW_UNIT_SHIFT) / granule;
        uint64_t to = ((((uint64_t)k->start + k->units) << STW_UNIT_SHIFT) + granule - 1) / granule;
        if (k->used && next(h, from, to, false) != to)
            return "a block that is handed out is not committed";
    }
    return NULL;
}
