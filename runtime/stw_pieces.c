/* stw_pieces.c: what is idle, granule by granule, and taking it out of heap and arena as if it had been handed out
 * (stw_stitch.c).
 */
#include "stw_stitch.h"

static bool add_run(const stw_allocator *a, const char *base, uint64_t from, uint64_t to, uint32_t block)
{
    stw_stitch *st = a->stitch;
    if (st->n_runs == st->cap_runs) {
        stw_piece *grown = stwi_double(st->runs, &st->cap_runs, sizeof *st->runs);
        if (!grown)
            return false;
        st->runs = grown;
    }
    st->runs[st->n_runs++] = (stw_piece){(uintptr_t)base + from * a->backend.granularity, (uint32_t)(to - from), block, 0};
    return true;
}

/* The first atom that reaches beyond `unit`: the one that has it, or, where the first place begins later, that one. */
static uint32_t first_atom(const stw_allocator *a, uint64_t unit)
{
    uint32_t i = stwi_atom_at(&a->plan, unit + 1);
    return i > 0 ? i - 1 : 0;
}

/* The committed granules of the arena in [begin, end) of which no atom is occupied, or named by `needed`. */
void stwi_collect_arena(const stw_allocator *a, const stw_plan_stream *s, const uint64_t *needed)
{
    const stw_plan *p = &a->plan;
    const uint64_t granule = a->backend.granularity, units = granule >> STW_UNIT_SHIFT;
    uint64_t g = (s->begin + granule - 1) / granule, end = s->end / granule, from = g;
    for (uint32_t i = first_atom(a, g * units); g < end; g++) {
        bool idle = a->arena.pages[g >> 6] >> (g & 63) & 1;
        while (i + 1 < p->n_atoms && p->bounds[i + 1] <= g * units)
            i++;
        for (uint32_t k = i; k < p->n_atoms && p->bounds[k] < (g + 1) * units && idle; k++)
            idle = !((a->occupied[k >> 6] | needed[k >> 6]) >> (k & 63) & 1);
        if (!idle) {
            if (from < g && !add_run(a, a->arena.base, from, g, 0))
                return;
            from = g + 1;
        }
    }
    if (from < end)
        add_run(a, a->arena.base, from, end, 0);
}

void stwi_collect_heap(const stw_allocator *a, const stw_heap *h)
{
    stw_stitch *st = a->stitch;
    const uint64_t granule = a->backend.granularity;
    bool room = true;
    for (uint32_t b = h->last; b && room; b = h->blocks[b].prev) {
        const stw_block *k = &h->blocks[b];
        if (k->used)
            continue;
        uint64_t to = (((uint64_t)k->start + k->units) << STW_UNIT_SHIFT) / granule;
        uint64_t begin = (((uint64_t)k->start << STW_UNIT_SHIFT) + granule - 1) / granule;
        while (begin < to && room) { /* committed runs, the last one first */
            uint64_t from;
            to = stwi_bits_last(h->space.pages, begin, to, true);
            from = stwi_bits_last(h->space.pages, begin, to, false);
            room = from == to || add_run(a, h->space.base, from, to, b);
            to = from;
        }
    }
    for (uint32_t i = st->n_arena, j = st->n_runs; i + 1 < j; i++) { /* by address */
        stw_piece t = st->runs[i];
        st->runs[i] = st->runs[--j];
        st->runs[j] = t;
    }
}

const stw_piece *stwi_run_of(const stw_allocator *a, const stw_piece *p)
{
    const stw_stitch *st = a->stitch;
    const uint64_t granule = a->backend.granularity, at = p->at;
    uint32_t lo = stwi_in_arena(a, at) ? 0 : st->n_arena, hi = stwi_in_arena(a, at) ? st->n_arena : st->n_runs;
    while (lo < hi) { /* the first run that begins after `at` */
        uint32_t mid = lo + (hi - lo) / 2;
        if (st->runs[mid].at <= at)
            lo = mid + 1;
        else
            hi = mid;
    }
    const stw_piece *r = lo > 0 ? &st->runs[lo - 1] : NULL;
    return r && r->at <= at && at + p->granules * granule <= r->at + r->granules * granule ? r : NULL;
}

void stwi_atoms_of(const stw_allocator *a, const stw_piece *p, uint32_t *after, uint32_t *begin, uint32_t *end)
{
    uint64_t unit = (p->at - (uintptr_t)a->arena.base) >> STW_UNIT_SHIFT;
    uint32_t first = first_atom(a, unit);
    *end = stwi_atom_at(&a->plan, unit + ((p->granules * (uint64_t)a->backend.granularity) >> STW_UNIT_SHIFT));
    *end = *end < a->plan.n_atoms ? *end : a->plan.n_atoms;
    *begin = first > *after ? first : *after;
    *after = *end > *after ? *end : *after;
}

void stwi_give_pieces(stw_allocator *a, stw_stitched *r, uint32_t n)
{
    uint32_t after = 0, begin, end;
    stw_rec whose = {.stream = r->stream & STW_STREAM_MASK};
    for (stw_piece *p = r->pieces; p < r->pieces + n; p++) {
        if (p->block) {
            stwi_heap_free_locked(a->streams[r->stream].heap, p->block);
            p->block = 0;
            continue;
        }
        stwi_atoms_of(a, p, &after, &begin, &end);
        if (begin < end) {
            if (a->order)
                stwi_order_freed_locked(a, &whose, begin, end);
            stwi_range_give(a->occupied, begin, end, stwi_mask_of(begin, end));
            stwi_idle_freed(&a->idle, begin, end);
        }
    }
}

bool stwi_take_pieces(stw_allocator *a, stw_stitched *r)
{
    const stw_stream *s = &a->streams[r->stream];
    stw_heap *h = s->heap;
    uint32_t after = 0, begin, end;
    if (!stwi_heap_ensure(h, 2 * r->n_pieces))
        return false;
    for (stw_piece *p = r->pieces; p < r->pieces + r->n_pieces; p++) {
        if (stwi_in_arena(a, p->at)) {
            stwi_atoms_of(a, p, &after, &begin, &end);
            if (begin < end && !stwi_arena_take_locked(a, s, begin, end)) {
                stwi_give_pieces(a, r, (uint32_t)(p - r->pieces));
                return false;
            }
        } else {
            uint64_t start = (p->at - (uintptr_t)h->space.base) >> STW_UNIT_SHIFT, units = p->granules * (a->backend.granularity >> STW_UNIT_SHIFT);
            p->block = stwi_heap_carve_locked(h, stwi_run_of(a, p)->block, (uint32_t)start, (uint32_t)units);
        }
    }
    return r->used = true;
}
