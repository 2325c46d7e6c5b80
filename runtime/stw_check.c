/* stw_check.c: looking at an allocator: counters, live allocations, and the self-check that compares
 * every structure with every other. Rules are numbered; stw_check returns the first broken one.
 */
#include "stw_internal.h"

#include <stdio.h>
#include <string.h>

void stw_get_stats(stw_allocator *a, stw_stats *out)
{
    if (!a || !out)
        return;
    stw_owner *owner = stwi_enter(a);
    *out = a->stats;
    out->position = stwi_match_position(&a->match);
    out->arena_bytes = a->arena.committed_bytes;
    out->requests = stwi_requests(a);
    stwi_leave(a, owner);
    out->atoms = a->plan.n_atoms;
}

void stw_reset_peaks(stw_allocator *a)
{
    if (!a)
        return;
    stw_owner *owner = stwi_enter(a);
    if (a->most_live_bytes < a->stats.peak_live_bytes)
        a->most_live_bytes = a->stats.peak_live_bytes;
    a->stats.peak_live_bytes = a->stats.live_bytes;
    a->room = 0;
    a->stats.heap_peak_bytes = a->stats.heap_live_bytes;
    a->stats.peak_reserved_bytes = a->stats.reserved_bytes;
    stwi_leave(a, owner);
}

size_t stw_size(stw_allocator *a, const void *p)
{
    if (!a || !p)
        return 0;
    stw_owner *owner = stwi_enter(a);
    size_t bytes = (size_t)stwi_live_find(a, p)->units << STW_UNIT_SHIFT;
    stwi_leave(a, owner);
    return bytes;
}

void stw_walk(stw_allocator *a, void (*f)(void *ctx, void *p, size_t size, uint64_t stream, int planned), void *ctx)
{
    if (!a || !f)
        return;
    stw_owner *owner = stwi_enter(a);
    for (const stw_rec *r = NULL; (r = stwi_live_next(a, r)) != NULL;)
        f(ctx, (void *)(uintptr_t)r->key, (size_t)r->units << STW_UNIT_SHIFT, a->streams[r->stream].handle,
          r->planned && !r->guest);
    stwi_leave(a, owner);
}

typedef struct {
    uint64_t n, units;           /* live allocations */
    uint64_t heap_n, heap_units; /* those in heaps */
    uint64_t stitched_units;     /* of those made of several pieces */
    uint64_t atoms;              /* covered by the planned ones */
    uint64_t at_slots;           /* live where the plan says */
    uint64_t inner;              /* of loop entries that die within their iteration */
} census;

static const char *check_table(const stw_table *t)
{
    uint64_t n = 0;
    for (uint64_t i = 0; i <= t->mask; i++)
        if (t->recs[i].units != 0) {
            n++;
            if (stwi_table_find(t, t->recs[i].key) != &t->recs[i])
                return "a record is not found under its key";
        }
    return n == t->count && n * 2 <= t->mask + 1 ? NULL : "a table's count is wrong, or it is too full";
}

/* Each record against the slot or block it names; planned ones are marked in `seen`. */
static const char *check_records(const stw_allocator *a, uint64_t *seen, census *c)
{
    for (const stw_rec *r = NULL; (r = stwi_live_next(a, r)) != NULL;) {
        c->n++;
        c->units += r->units;
        c->inner += r->fate >> 31;
        if (r->stream >= a->n_streams)
            return "a live allocation has no stream";
        const stw_stream *s = &a->streams[r->stream];
        const stw_space *space = r->planned ? &a->arena : s->heap ? &s->heap->space : NULL;
        bool stitched = !r->planned && r->ref & STW_STITCHED;
        if (!space || (!stitched && !stwi_space_ready(a, space, (r->key - (uintptr_t)space->base) >> STW_UNIT_SHIFT, r->units)))
            return "memory that is handed out is not committed";
        if (r->planned) {
            uint32_t begin, end;
            stwi_arena_atoms(r, &begin, &end);
            if (s->plan < 0 || begin >= end || end > a->plan.n_atoms || r->ref != begin >> 6 || r->wide != (stwi_mask_of(begin, end) == 0) ||
                r->key != (uintptr_t)a->arena.base + ((uint64_t)a->plan.bounds[begin] << STW_UNIT_SHIFT) ||
                (uint64_t)a->plan.bounds[end] - a->plan.bounds[begin] < r->units)
                return "an allocation of the arena is not where its record says";
            if (!stwi_range_take(seen, begin, end, stwi_mask_of(begin, end)))
                return "two live allocations of the arena overlap";
            c->atoms += end - begin;
            c->at_slots += !r->guest;
        } else if (r->ref & STW_STITCHED) {
            const char *wrong = stwi_stitch_check_one(a, r);
            if (wrong)
                return wrong;
            c->stitched_units += r->units;
        } else {
            const stw_heap *h = s->heap;
            const stw_block *b = h && r->ref < h->n_blocks ? &h->blocks[r->ref] : NULL;
            if (!b || !b->used || b->units != r->units || r->key != (uintptr_t)h->space.base + ((uint64_t)b->start << STW_UNIT_SHIFT))
                return "a heap allocation is not at its block";
            c->heap_n++;
            c->heap_units += r->units;
        }
    }
    return NULL;
}

/* Whether what lives in the arena, but for guests, lives at a slot of its stream. `found` is zero. */
static const char *check_slots(const stw_allocator *a, uint64_t *found, uint64_t expected)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < a->plan.n_slots; i++) {
        const stw_slot *slot = &a->slots[i];
        const stw_rec *r = &a->in_arena.recs[slot->flags & STW_SLOT_PLANNED ? slot->place : 0];
        uint32_t begin, end;
        if (!(slot->flags & STW_SLOT_PLANNED) || r->units == 0 || r->guest)
            continue;
        stwi_arena_atoms(r, &begin, &end);
        uint64_t *word = &found[begin >> 6], bit = UINT64_C(1) << (begin & 63);
        if (begin != slot->atom_begin || end != slot->atom_end || a->streams[r->stream].plan != slot->stream || r->units > slot->hi || *word & bit)
            continue; /* or by another slot */
        *word |= bit;
        n++;
    }
    return n == expected ? NULL : "a planned allocation is not at a slot of its stream";
}

static const char *check_streams(const stw_allocator *a)
{
    for (uint32_t i = 0; i < a->n_streams; i++) {
        const stw_rec *r = stwi_table_find(&a->handles, a->streams[i].handle);
        if (r->units == 0 || r->ref != i)
            return "a stream is not found under its handle";
        for (uint32_t k = 0; k < i && i < 64 && a->streams[i].plan >= 0; k++)
            if (a->streams[k].plan == a->streams[i].plan)
                return "two streams share a plan stream";
    }
    return a->handles.count == a->n_streams ? NULL : "streams and handles do not agree";
}

/* seen and found are zero, of a->occupied_bytes each. */
static int check_locked(const stw_allocator *a, uint64_t *seen, uint64_t *found, const char **sentence)
{
    census c = {0};
    uint64_t heap_live, used_n = 0, used_units = 0, limbo_n = 0, limbo_units = 0, committed = a->arena.committed_bytes;
    const stw_stats *s = &a->stats;
    if ((*sentence = check_table(&a->elsewhere)) != NULL || (*sentence = check_table(&a->handles)) != NULL ||
        (*sentence = stwi_places_check(a)) != NULL)
        return 1;
    if ((*sentence = check_streams(a)) != NULL)
        return 2;
    if ((*sentence = check_records(a, seen, &c)) != NULL || (*sentence = check_slots(a, found, c.at_slots)) != NULL)
        return 3;
    heap_live = c.heap_units + c.stitched_units;
    if ((*sentence = stwi_stitch_check(a, seen, &used_n, &used_units)) != NULL)
        return 13;
    c.heap_n += used_n; /* pieces are blocks, too */
    c.heap_units += used_units;
    used_n = used_units = 0;
    *sentence = "the occupancy bitmap is not the union of the live planned allocations";
    if (memcmp(seen, a->occupied, a->occupied_bytes) != 0)
        return 4;
    if ((*sentence = stwi_idle_check(&a->idle, a->plan.bounds, a->occupied)) != NULL)
        return 14;
    if ((*sentence = stwi_space_check(a, &a->arena)) != NULL)
        return 5;
    for (uint32_t i = 0; i < a->n_streams; i++) {
        const stw_heap *h = a->streams[i].heap;
        if (h && ((*sentence = stwi_heap_check(h, &used_n, &used_units)) != NULL || (*sentence = stwi_space_check(a, &h->space)) != NULL))
            return 5;
        committed += h ? h->space.committed_bytes : 0;
    }
    if ((*sentence = stwi_order_check(a)) != NULL || (*sentence = stwi_marks_check(a, &limbo_n, &limbo_units)) != NULL)
        return 12;
    *sentence = "used blocks, live heap allocations and those in limbo do not agree";
    if (used_n != c.heap_n + limbo_n || used_units != c.heap_units + limbo_units)
        return 6;
    *sentence = "live bytes do not agree with what is live";
    if (s->live_bytes != c.units << STW_UNIT_SHIFT || s->heap_live_bytes != heap_live << STW_UNIT_SHIFT ||
        s->peak_live_bytes < s->live_bytes || s->heap_peak_bytes < s->heap_live_bytes)
        return 7;
    *sentence = "reserved bytes do not agree with what is committed, or exceed the capacity";
    if (s->reserved_bytes != committed || s->peak_reserved_bytes < committed || a->most_bytes < s->peak_reserved_bytes ||
        (a->capacity_bytes && committed > a->capacity_bytes))
        return 8;
    *sentence = "requests, frees and live allocations do not add up";
    if (stwi_requests(a) != s->hits + s->conflicts + s->too_large + s->dynamic + s->unknown + s->zero_size + s->failed || s->hits + s->conflicts + s->too_large + s->dynamic + s->unknown != s->frees + c.n)
        return 9;
    if ((*sentence = stwi_match_check(&a->match, a->aside > 0)) != NULL)
        return 10;
    *sentence = "the matcher's count of what is alive of the iteration is wrong";
    if (a->match.inner != c.inner)
        return 11;
    *sentence = "";
    return 0;
}

int stw_check(stw_allocator *a, char *err, size_t err_bytes)
{
    const char *sentence = "the allocator is null, or there is no memory for the check";
    int broken = -1;
    uint64_t *seen = a ? stwi_map(2 * a->occupied_bytes) : NULL;
    if (seen) {
        stw_owner *owner = stwi_enter(a);
        stwi_frees_tell_locked(a);
        broken = check_locked(a, seen, seen + a->occupied_bytes / sizeof *seen, &sentence);
        stwi_leave(a, owner);
        stwi_unmap(seen, 2 * a->occupied_bytes);
    }
    if (err && err_bytes)
        snprintf(err, err_bytes, "%s", sentence);
    return broken;
}
