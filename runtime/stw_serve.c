/* stw_serve.c: requests that are not in step: which entry they are, and where they go: to the place of the plan, to idle space of the
 * arena, to a heap.
 *
 * Whatever can fail for want of memory is prepared before anything is changed, so a request that fails leaves no trace
 * but a moved position and a counter.
 */
#include "stw_internal.h"

/* Commits memory of the arena that has been taken, under pressure after others have made room. */
static __attribute__((noinline)) bool commit_arena_locked(stw_allocator *a, uint64_t start, uint64_t units)
{
    if (stwi_space_commit_far_locked(a, &a->arena, start, units))
        return true;
    stwi_limbo_leave_all_locked(a, true);
    return stwi_make_room_locked(a, &a->arena, start, units);
}

bool stwi_take_locked(stw_allocator *a, const stw_stream *s, uint32_t begin, uint32_t end, uint64_t mask, uint64_t start, uint64_t units)
{
    if (!stwi_range_take(a->occupied, begin, end, mask))
        return false;
    if (__builtin_expect((start + units > a->arena.solid && !commit_arena_locked(a, start, units)) ||
                             (a->order != NULL && !stwi_order_take_locked(a, s, begin, end)),
                         0)) {
        stwi_range_give(a->occupied, begin, end, mask);
        return false;
    }
    stwi_idle_taken(&a->idle, begin, end);
    return true;
}

bool stwi_arena_take_locked(stw_allocator *a, const stw_stream *s, uint32_t begin, uint32_t end)
{
    return stwi_take_locked(a, s, begin, end, stwi_mask_of(begin, end), 0, 0);
}

/* Takes the atoms [atom, end) for a guest; NULL where there are none to take. */
static void *guest_at_locked(stw_allocator *a, const stw_stream *s, uint64_t units, uint32_t atom, uint32_t end, uint32_t entry)
{
    if (atom == STW_NO_ENTRY || !stwi_take_locked(a, s, atom, end, stwi_mask_of(atom, end), a->plan.bounds[atom], units))
        return NULL;
    const uint64_t at = (uintptr_t)a->arena.base + ((uint64_t)a->plan.bounds[atom] << STW_UNIT_SHIFT);
    a->stats.guests++;
    stwi_arena_rec(stwi_place(a, at), a, at, units, atom, end, stwi_mask_of(atom, end), s, true, stwi_match_placed(&a->match, entry));
    stwi_live_more(a, units);
    return (void *)(uintptr_t)at;
}

void *stwi_fail_locked(stw_allocator *a, const stw_stream *s, uint64_t units)
{
    a->stats.failed++;
    stwi_settle_locked(a); /* for what is said */
    stwi_say_failed_locked(a, s, units);
    return NULL;
}

/* Hands out p, of a heap or stitched. */
static inline void *elsewhere_locked(stw_allocator *a, const stw_stream *s, void *p, uint64_t units, uint32_t ref, uint32_t entry, uint64_t *class)
{
    const uint64_t bytes = units << STW_UNIT_SHIFT;
    ++*class;
    if (class == &a->stats.conflicts || class == &a->stats.too_large)
        a->stats.static_fallback_bytes += bytes;
    a->stats.heap_live_bytes += bytes;
    if (a->stats.heap_live_bytes > a->stats.heap_peak_bytes)
        a->stats.heap_peak_bytes = a->stats.heap_live_bytes;
    *stwi_table_find(&a->elsewhere, (uintptr_t)p) = (stw_rec){.key = (uintptr_t)p, .units = (uint32_t)units, .ref = ref,
        .stream = s->index & STW_STREAM_MASK, .fate = stwi_match_placed(&a->match, entry)};
    a->elsewhere.count++;
    stwi_live_more(a, units);
    return p;
}

static inline void *block_at(const stw_stream *s, uint32_t b)
{
    return s->heap->space.base + ((uint64_t)s->heap->blocks[b].start << STW_UNIT_SHIFT);
}

/* In arena space that is idle for as long as the request lives; NULL: none is known. */
static void *sweep_locked(stw_allocator *a, const stw_stream *s, uint64_t units, uint32_t entry, bool committed, uint64_t *class)
{
    uint32_t end, atom = stwi_guest_sweep_locked(a, s, entry, units, committed, &end);
    void *p = guest_at_locked(a, s, units, atom, end, entry);
    *class += p != NULL;
    return p;
}

/* The heap has no block for it without committing memory, or none at all. */
static __attribute__((noinline)) void *from_elsewhere_locked(stw_allocator *a, stw_stream *s, uint64_t units, uint32_t entry,
                                                             uint64_t *class, bool sweep, bool swept, bool stitch)
{
    uint32_t b = 0;
    void *p = NULL;
    if (sweep && (!swept || a->arena.committed_bytes < a->arena.bytes))
        p = sweep_locked(a, s, units, entry, !stwi_life_known(&a->match, entry), class);
    if (p)
        return p;
    if (stitch)
        p = stwi_stitch_locked(a, s, units, entry, &b);
    if (!b && (sweep || stitch) && (b = stwi_heap_alloc_locked(a, s, units, true)) != 0)
        p = block_at(s, b);
    return b ? elsewhere_locked(a, s, p, units, b, entry, class) : stwi_fail_locked(a, s, units);
}

/* For a request that has no place in the plan, or cannot have it. One that the plan knows goes where the arena idles as long as it lives, so
 * that what the heap has free is there for those that fit nowhere else; then it is the heap's. Where that would commit memory, it is the
 * arena, whether committed or not, or several holes. */
void *stwi_from_heap_locked(stw_allocator *a, stw_stream *s, uint64_t units, uint32_t entry, uint64_t *class)
{
    const bool sweep = s->plan >= 0 && a->aside == 0 && class != &a->stats.dynamic;
    const bool first = sweep && class != &a->stats.unknown && stwi_life_known(&a->match, entry);
    const bool stitch = a->stitch && units << STW_UNIT_SHIFT >= 2 * a->backend.granularity;
    if (!stwi_table_ensure(&a->elsewhere))
        return stwi_fail_locked(a, s, units);
    void *p = first ? sweep_locked(a, s, units, entry, true, class) : NULL;
    if (p)
        return p;
    const uint32_t b = stwi_heap_alloc_locked(a, s, units, !sweep && !stitch);
    if (__builtin_expect(!b, 0))
        return from_elsewhere_locked(a, s, units, entry, class, sweep, first, stitch);
    return elsewhere_locked(a, s, block_at(s, b), units, b, entry, class);
}

/* A place in idle arena space; NULL: none. */
static __attribute__((noinline)) void *guest_locked(stw_allocator *a, const stw_stream *s, uint64_t units, uint32_t list, uint32_t entry)
{
    uint32_t end, atom = stwi_guest_find_locked(a, s, list, units, &end);
    void *p = guest_at_locked(a, s, units, atom, end, entry);
    a->stats.dynamic += p != NULL;
    return p;
}

/* The plan's last entry is asked for: heaps that served nothing since the last time are not needed. */
static __attribute__((noinline)) void lap_locked(stw_allocator *a)
{
    uint64_t served = stwi_heap_requests(&a->stats);
    if (served == a->lap_heap) {
        stwi_limbo_leave_all_locked(a, false);
        stwi_trim_heaps_locked(a);
    }
    a->lap_heap = served;
    stwi_lap_locked(a);
}

static inline uint32_t match_locked(stw_allocator *a, uint64_t units, uint16_t stream)
{
    stw_matcher *m = &a->match;
    stwi_match_look(m);
    if (__builtin_expect(m->len == 1 && m->doubt == 0, 1)) {
        uint32_t p = m->first;
        const stw_plan_entry e = a->entries[p];
        const stw_slot *s = &a->slots[e.slot];
        if (s->stream == stream && (!(s->flags & STW_SLOT_PLANNED) || stwi_sized(s, units)) && stwi_score(m, p, s, e.life_nf, units) > STW_SURE_SCORE) {
            stwi_match_step(m, stwi_succ(m, p));
            return p;
        }
    }
    return stwi_match_slow_locked(a, units, stream);
}

/* A request of a stream of the plan that the plan does not know. */
static void *stray_locked(stw_allocator *a, stw_stream *s, uint64_t units, uint32_t entry)
{
    a->strays++;
    return stwi_from_heap_locked(a, s, units, entry, &a->stats.unknown);
}

void *stwi_planned_locked(stw_allocator *a, stw_stream *s, uint64_t units)
{
    a->match.fixed = stwi_requests(a) - a->stats.dynamic;
    const uint32_t entry = match_locked(a, units, (uint16_t)s->plan);
    if (entry == STW_NO_ENTRY)
        return stray_locked(a, s, units, STW_NO_ENTRY);
    if (__builtin_expect(entry + 1 == a->match.n, 0))
        lap_locked(a);
    const stw_slot *slot = &a->slots[a->entries[entry].slot];
    const bool planned = slot->flags & STW_SLOT_PLANNED, fixed = planned ? slot->varies == 0 : slot->flags & STW_SLOT_OPTIONAL && slot->lo == slot->hi;
    const bool other = fixed && units != slot->hi;
    a->match.stranger = (other && (entry < a->match.wrap || !stwi_proportional(&a->match, units, slot->hi))) ||
                        (planned && a->match.doubt > 0 && entry + (a->entries[entry].life_nf & STW_ENTRY_LIFE_MAX) < a->match.n);
    if (planned && units > slot->hi)
        return stwi_from_heap_locked(a, s, units, entry, &a->stats.too_large);
    if (a->match.stranger)
        return stray_locked(a, s, units, entry);
    if (!planned) {
        void *guest = slot->list != 0 && a->aside == 0 ? guest_locked(a, s, units, slot->list - 1, entry) : NULL;
        return guest ? guest : stwi_from_heap_locked(a, s, units, entry, &a->stats.dynamic);
    }
    if (a->aside > 0 || !stwi_take_locked(a, s, slot->atom_begin, slot->atom_end, slot->atoms, slot->lo, units))
        return stwi_from_heap_locked(a, s, units, entry, &a->stats.conflicts);
    a->stats.hits++;
    stw_rec *r = &a->in_arena.recs[slot->place];
    stwi_slot_rec(r, a, slot, units, s, stwi_match_placed(&a->match, entry));
    stwi_live_more(a, units);
    return (void *)(uintptr_t)r->key;
}
