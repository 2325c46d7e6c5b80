/* stw_stitch.c: a request that no hole fits, from several holes (GMLake, ASPLOS 2024: virtual memory stitching).
 *
 *     heap     |####|.....|##|..........|###|....|        . idle, committed granules
 *     arena    |##|......|#######|..|
 *                  |           |
 *                  '---.    .--'    the granules are mapped a second time, side by side
 *                      v    v
 *     range       |......|..........|.....|               one address for the request
 *
 * Where a heap would commit memory for a request of two granules or more, whole granules that are idle in the heap
 * of its stream, and in the stream's part of the arena, become one range. The granules stay mapped where they
 * are; what keeps two owners off one piece is that the holes are taken from heap and arena as if they had been
 * handed out: as blocks, as occupied atoms. So every check of the core guards them, a planned request that comes for
 * its atoms finds them occupied, and with the free they are holes again.
 *
 * The range keeps its mappings. Its pieces may meanwhile serve other requests, and when all of them are idle again it is
 * handed out once more, to a request of its size or up to an eighth less: no call of the driver. Ranges are bounded in
 * number and address space, the one unused for longest goes first. A granule that is given back to the driver takes the
 * ranges with it that it is a piece of.
 *
 * The idle granules are collected by a walk over the heap's blocks and a look at the arena's bitmap, when they are
 * wanted: O(blocks + atoms) for a request that would else have cost a commit. In the arena only what nothing planned
 * starts to use during the request's life is idle (stw_guest.c).
 *
 * Off, unless asked for, and then nothing of this is there (a->stitch is NULL).
 */
#include "stw_stitch.h"

bool stwi_stitch_make(stw_allocator *a, uint64_t limit_bytes)
{
    stw_stitch *st = stwi_map(sizeof *st);
    if (!st)
        return false;
    st->limit_bytes = limit_bytes;
    st->cap_runs = 1024;
    st->runs = stwi_map(st->cap_runs * sizeof *st->runs);
    if (!st->runs) {
        stwi_unmap(st, sizeof *st);
        return false;
    }
    a->stitch = st;
    return true;
}

static void end_range(stw_allocator *a, stw_stitched *r)
{
    a->backend.unalias(a->backend.ctx, r->base);
    a->stats.stitch_bytes -= (uint64_t)r->granules * a->backend.granularity;
    stwi_unmap(r->pieces, r->pieces_bytes);
    *r = (stw_stitched){0};
}

void stwi_stitch_drop(stw_allocator *a)
{
    stw_stitch *st = a->stitch;
    for (uint32_t i = 0; st && i < st->n; i++)
        if (st->ranges[i].base)
            end_range(a, &st->ranges[i]);
    if (st)
        stwi_unmap(st->runs, st->cap_runs * sizeof *st->runs);
    stwi_unmap(st, sizeof *st);
    a->stitch = NULL;
}

void stwi_stitch_forget_locked(stw_allocator *a, const void *p, uint64_t bytes)
{
    stw_stitch *st = a->stitch;
    for (uint32_t i = 0; i < st->n; i++) {
        stw_stitched *r = &st->ranges[i];
        bool touched = false;
        for (uint32_t k = 0; r->base && k < r->n_pieces && !touched; k++)
            touched = r->pieces[k].at < (uintptr_t)p + bytes &&
                      (uintptr_t)p < r->pieces[k].at + (uint64_t)r->pieces[k].granules * a->backend.granularity;
        if (touched)
            end_range(a, r);
    }
}

/* ---- ranges ---- */

/* The smallest range of the stream for n granules whose pieces are all idle; NULL: none. */
static stw_stitched *find_range(const stw_allocator *a, const stw_stream *s, uint32_t n)
{
    stw_stitch *st = a->stitch;
    stw_stitched *best = NULL;
    for (uint32_t i = 0; i < st->n; i++) {
        stw_stitched *r = &st->ranges[i];
        if (!r->base || r->used || r->stream != s->index || r->granules < n || r->granules - n > n / 8 ||
            (best && best->granules <= r->granules))
            continue;
        uint32_t idle = 0;
        while (idle < r->n_pieces && stwi_run_of(a, &r->pieces[idle]))
            idle++;
        best = idle == r->n_pieces ? r : best;
    }
    return best;
}

/* Ends the range that has been idle for longest. False: there is none, or a stream captures, and must not wait. */
static bool evict(stw_allocator *a)
{
    stw_stitch *st = a->stitch;
    stw_stitched *oldest = NULL;
    for (uint32_t i = 0; i < st->n; i++) {
        stw_stitched *r = &st->ranges[i];
        if (r->base && !r->used && (!oldest || r->last < oldest->last))
            oldest = r;
    }
    if (!oldest || stwi_capturing_locked(a))
        return false;
    end_range(a, oldest);
    return true;
}

/* A record for a range of n granules; NULL: it may not be had. */
static stw_stitched *room_for(stw_allocator *a, uint32_t n)
{
    stw_stitch *st = a->stitch;
    const uint64_t bytes = n * (uint64_t)a->backend.granularity;
    if (bytes > st->limit_bytes)
        return NULL;
    while (bytes > st->limit_bytes - a->stats.stitch_bytes)
        if (!evict(a))
            return NULL;
    for (int again = 0; again < 2; again++) {
        for (uint32_t i = 0; i < STW_RANGES; i++)
            if (!st->ranges[i].base) {
                st->n = i < st->n ? st->n : i + 1;
                return &st->ranges[i];
            }
        if (!evict(a))
            break;
    }
    return NULL;
}

/* Marks the runs that a range of n granules is to be made of, the largest first, by powers of two. Returns
 * their number; 0: there are not enough. */
static uint32_t choose(stw_stitch *st, uint32_t n)
{
    uint32_t chosen = 0, left = n;
    for (int log2 = 31; log2 >= 0 && left > 0; log2--)
        for (uint32_t i = 0; i < st->n_runs && left > 0; i++) {
            stw_piece *r = &st->runs[i];
            if (31 - __builtin_clz(r->granules) != log2)
                continue;
            r->taken = r->granules < left ? r->granules : left;
            left -= r->taken;
            chosen++;
        }
    return left == 0 ? chosen : 0;
}

static void *alias(stw_allocator *a, const stw_stitched *r)
{
    void **granules = stwi_map(r->granules * sizeof *granules);
    uint32_t n = 0;
    if (!granules)
        return NULL;
    for (uint32_t i = 0; i < r->n_pieces; i++)
        for (uint32_t k = 0; k < r->pieces[i].granules; k++)
            granules[n++] = (void *)(uintptr_t)(r->pieces[i].at + k * a->backend.granularity);
    void *base = a->backend.alias(a->backend.ctx, granules, n);
    stwi_unmap(granules, r->granules * sizeof *granules);
    return base;
}

static stw_stitched *make_range(stw_allocator *a, const stw_stream *s, uint32_t n)
{
    stw_stitch *st = a->stitch;
    uint32_t chosen = choose(st, n);
    stw_stitched *r = chosen ? room_for(a, n) : NULL;
    if (!r)
        return NULL;
    *r = (stw_stitched){.pieces_bytes = chosen * sizeof *r->pieces, .n_pieces = chosen, .granules = n, .stream = s->index};
    if ((r->pieces = stwi_map(r->pieces_bytes)) != NULL) {
        for (uint32_t i = 0, k = 0; i < st->n_runs; i++)
            if (st->runs[i].taken)
                r->pieces[k++] = (stw_piece){.at = st->runs[i].at, .granules = st->runs[i].taken};
        r->base = alias(a, r);
        while (!r->base && evict(a)) /* there may be too many mappings, or too little address space */
            r->base = alias(a, r);
    }
    if (!r->base) {
        stwi_unmap(r->pieces, r->pieces_bytes);
        *r = (stw_stitched){0};
        return NULL;
    }
    a->stats.stitches++;
    a->stats.stitch_bytes += n * (uint64_t)a->backend.granularity;
    return r;
}

void *stwi_stitch_locked(stw_allocator *a, stw_stream *s, uint64_t units, uint32_t entry, uint32_t *ref)
{
    stw_stitch *st = a->stitch;
    const uint64_t granule = a->backend.granularity, n = ((units << STW_UNIT_SHIFT) + granule - 1) / granule;
    if (n < 2 || n > UINT32_MAX || !stwi_heap_make_locked(a, s))
        return NULL;
    st->n_runs = st->n_arena = 0;
    const uint64_t *needed = s->plan >= 0 && a->arena.base ? stwi_guest_needs_locked(a, entry) : NULL;
    if (needed)
        stwi_collect_arena(a, &a->plan.streams[s->plan], needed);
    st->n_arena = st->n_runs;
    stwi_collect_heap(a, s->heap);
    stw_stitched *r = find_range(a, s, (uint32_t)n);
    if (!r)
        r = make_range(a, s, (uint32_t)n);
    if (!r || !stwi_take_pieces(a, r))
        return NULL;
    a->stats.stitched++;
    *ref = STW_STITCHED | (uint32_t)(r - st->ranges);
    return r->base;
}

void stwi_stitch_give_locked(stw_allocator *a, uint32_t ref)
{
    stw_stitched *r = &a->stitch->ranges[ref & ~STW_STITCHED];
    stwi_give_pieces(a, r, r->n_pieces);
    r->used = false;
    r->last = ++a->stitch->given;
}

void stwi_stitch_touch(const stw_allocator *a, uint64_t *granules)
{
    const stw_stitch *st = a->stitch;
    for (uint32_t i = 0; i < st->n; i++)
        for (const stw_piece *p = st->ranges[i].pieces; st->ranges[i].used && p < st->ranges[i].pieces + st->ranges[i].n_pieces; p++)
            for (uint64_t k = 0, g = (p->at - (uintptr_t)a->arena.base) / a->backend.granularity; stwi_in_arena(a, p->at) && k < p->granules; k++)
                granules[(g + k) >> 6] |= UINT64_C(1) << ((g + k) & 63);
}

const char *stwi_stitch_check_one(const stw_allocator *a, const stw_rec *r)
{
    const stw_stitch *st = a->stitch;
    uint32_t i = r->ref & ~STW_STITCHED;
    const stw_stitched *k = st && i < st->n ? &st->ranges[i] : NULL;
    const uint64_t bytes = (uint64_t)r->units << STW_UNIT_SHIFT;
    return k && k->used && (uintptr_t)k->base == r->key && k->stream == r->stream && bytes <= k->granules * (uint64_t)a->backend.granularity
               ? NULL
               : "a stitched allocation is not at its range";
}

const char *stwi_stitch_check(const stw_allocator *a, uint64_t *seen, uint64_t *blocks, uint64_t *units)
{
    const stw_stitch *st = a->stitch;
    const uint64_t granule = a->backend.granularity;
    uint64_t bytes = 0;
    for (uint32_t i = 0; st && i < st->n; i++) {
        const stw_stitched *r = &st->ranges[i];
        uint32_t all = 0, after = 0, begin, end;
        bytes += r->base ? r->granules * granule : 0;
        for (uint32_t p = 0; p < r->n_pieces; p++) {
            const stw_piece *q = &r->pieces[p];
            all += q->granules;
            if (stwi_in_arena(a, q->at)) {
                stwi_atoms_of(a, q, &after, &begin, &end);
                if (r->used && begin < end && !stwi_range_take(seen, begin, end, stwi_mask_of(begin, end)))
                    return "a piece of the arena has two owners";
                if (!stwi_space_ready(a, &a->arena, (q->at - (uintptr_t)a->arena.base) >> STW_UNIT_SHIFT, q->granules * (granule >> STW_UNIT_SHIFT)))
                    return "a piece of a range is not committed";
                continue;
            }
            const stw_heap *h = a->streams[r->stream].heap;
            const stw_block *b = h && q->block < h->n_blocks ? &h->blocks[q->block] : NULL;
            if (!b || (q->block != 0) != r->used)
                return "a piece of a heap is in use and has no block, or the other way round";
            if (r->used && (!b->used || (uintptr_t)h->space.base + ((uint64_t)b->start << STW_UNIT_SHIFT) != q->at ||
                          (uint64_t)b->units << STW_UNIT_SHIFT != q->granules * granule))
                return "a piece is not its block";
            if (!stwi_space_ready(a, &h->space, (q->at - (uintptr_t)h->space.base) >> STW_UNIT_SHIFT, q->granules * (granule >> STW_UNIT_SHIFT)))
                return "a piece of a range is not committed";
            *blocks += r->used;
            *units += r->used ? b->units : 0;
        }
        if (all != r->granules)
            return "a range is not the sum of its pieces";
    }
    return !st || bytes == a->stats.stitch_bytes ? NULL : "the address space of ranges is not what it is said to be";
}
