/* stw.c: malloc, free, mark.
 *
 * A planned request in step costs: the lock, one comparison with the step that is next, one bitmap
 * word, one record, whose cell the step knows; its free the same with a look-up for the comparison
 * (stw_step.h). Both change nothing where they do not apply, and everything else (another position, the heap, growth)
 * is behind a call, the last thing done, so that the hot path keeps nothing of its own across one.
 *
 * Order of work in malloc: whatever can fail for want of memory is prepared before anything is
 * changed, so a request that fails leaves no trace but a moved position and a counter.
 */
#include "stw_step.h"

/* The plan's stream for a handle whose first request this is. */
static int32_t claim_plan_stream(stw_allocator *a, uint64_t handle)
{
    for (uint32_t i = 0; a->match.n > 0 && i < a->plan.n_streams; i++) {
        uint64_t bit = UINT64_C(1) << (i & 63), *taken = &a->taken_plan_streams[i >> 6];
        if ((a->plan.streams[i].handle == 0) == (handle == 0) && !(*taken & bit)) {
            *taken |= bit;
            return (int32_t)i;
        }
    }
    return STW_NO_PLAN;
}

/* The stream of a handle, made when missing; NULL: no memory. */
static stw_stream *make_stream_locked(stw_allocator *a, uint64_t handle)
{
    stw_rec *r = stwi_table_find(&a->handles, handle);
    if (r->units == 0) {
        if (a->n_streams == STW_STREAM_MASK)
            return NULL;
        if (a->n_streams == a->cap_streams) {
            stw_stream *grown = stwi_double(a->streams, &a->cap_streams, sizeof *a->streams);
            if (!grown)
                return NULL;
            a->streams = grown;
            a->last_stream = NULL;
        }
        if (!stwi_table_ensure(&a->handles))
            return NULL;
        r = stwi_table_find(&a->handles, handle);
        *r = (stw_rec){.key = handle, .units = 1, .ref = a->n_streams};
        a->handles.count++;
        a->streams[a->n_streams] = (stw_stream){handle, STW_NOT_ASKED, a->n_streams, NULL};
        a->n_streams++;
    }
    return &a->streams[r->ref];
}

/* The same for a request. */
static __attribute__((noinline)) stw_stream *find_stream_locked(stw_allocator *a, uint64_t handle)
{
    stw_stream *s = make_stream_locked(a, handle);
    if (s && s->plan == STW_NOT_ASKED && (s->plan = claim_plan_stream(a, handle)) >= 0)
        stwi_steps_arm_locked(a, s);
    return a->last_stream = s;
}

/* Commits memory of the arena that has been taken, under pressure after others have made room. */
static __attribute__((noinline)) bool commit_arena_locked(stw_allocator *a, uint64_t start, uint64_t units)
{
    if (stwi_space_commit_far_locked(a, &a->arena, start, units))
        return true;
    stwi_limbo_leave_all_locked(a, true);
    return stwi_make_room_locked(a, &a->arena, start, units);
}

/* Takes the atoms [begin, end), of that mask, for later work of s, which uses `units` from where they begin, if all are free, there is
 * memory, and s can be made to wait for who had them. */
static inline bool take_locked(stw_allocator *a, const stw_stream *s, uint32_t begin, uint32_t end, uint64_t mask, uint64_t start,
                               uint64_t units)
{
    if (!stwi_range_take(a->occupied, begin, end, mask))
        return false;
    if (__builtin_expect((start + units > a->arena.solid && !commit_arena_locked(a, start, units)) ||
                             (a->order != NULL && !stwi_order_take_locked(a, s, begin, end)),
                         0)) {
        stwi_range_give(a->occupied, begin, end, mask);
        return false;
    }
    return true;
}

bool stwi_arena_take_locked(stw_allocator *a, const stw_stream *s, uint32_t begin, uint32_t end)
{
    return take_locked(a, s, begin, end, stwi_mask_of(begin, end), 0, 0);
}

/* Takes the atoms [atom, end) for a guest; NULL where there are none to take. */
static void *guest_at_locked(stw_allocator *a, const stw_stream *s, uint64_t units, uint32_t atom, uint32_t end, uint32_t entry)
{
    if (atom == STW_NO_ENTRY || !take_locked(a, s, atom, end, stwi_mask_of(atom, end), a->plan.bounds[atom], units))
        return NULL;
    const uint64_t at = (uintptr_t)a->arena.base + ((uint64_t)a->plan.bounds[atom] << STW_UNIT_SHIFT);
    a->stats.guests++;
    *stwi_place(a, at) = stwi_arena_rec(a, at, units, atom, end, stwi_mask_of(atom, end), s, true, stwi_match_placed(&a->match, entry));
    stwi_live_more(a, units);
    return (void *)(uintptr_t)at;
}

/* The end of a request that gets nothing. */
static void *fail_locked(stw_allocator *a, const stw_stream *s, uint64_t units)
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
    return b ? elsewhere_locked(a, s, p, units, b, entry, class) : fail_locked(a, s, units);
}

/* For a request that has no place in the plan, or cannot have it. One that the plan knows goes where the arena idles as long as it lives, so
 * that what the heap has free is there for those that fit nowhere else; then it is the heap's. Where that would commit memory, it is the
 * arena, whether committed or not, or several holes. */
static __attribute__((noinline)) void *from_heap_locked(stw_allocator *a, stw_stream *s, uint64_t units, uint32_t entry,
                                                        uint64_t *class)
{
    const bool sweep = s->plan >= 0 && class != &a->stats.dynamic;
    const bool first = sweep && class != &a->stats.unknown && stwi_life_known(&a->match, entry);
    const bool stitch = a->stitch && units << STW_UNIT_SHIFT >= 2 * a->backend.granularity;
    if (!stwi_table_ensure(&a->elsewhere))
        return fail_locked(a, s, units);
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
    a->movable_bytes += a->movable_lap_bytes;
    a->lap_heap = served;
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

/* A request of a stream of the plan that is not in step. */
static __attribute__((noinline)) void *planned_locked(stw_allocator *a, stw_stream *s, uint64_t units)
{
    a->match.fixed = stwi_requests(a) - a->stats.dynamic;
    const uint32_t entry = match_locked(a, units, (uint16_t)s->plan);
    if (entry == STW_NO_ENTRY)
        return from_heap_locked(a, s, units, STW_NO_ENTRY, &a->stats.unknown);
    if (__builtin_expect(entry + 1 == a->match.n, 0))
        lap_locked(a);
    const stw_slot *slot = &a->slots[a->entries[entry].slot];
    if (!(slot->flags & STW_SLOT_PLANNED)) {
        void *guest = slot->list != 0 ? guest_locked(a, s, units, slot->list - 1, entry) : NULL;
        return guest ? guest : from_heap_locked(a, s, units, entry, &a->stats.dynamic);
    }
    a->match.stranger = (units != slot->hi && slot->varies == 0 && (entry < a->match.wrap || !stwi_proportional(&a->match, units, slot->hi))) ||
                        (a->match.doubt > 0 && entry + (a->entries[entry].life_nf & STW_ENTRY_LIFE_MAX) < a->match.n);
    if (units > slot->hi)
        return from_heap_locked(a, s, units, entry, &a->stats.too_large);
    if (a->match.stranger)
        return from_heap_locked(a, s, units, entry, &a->stats.unknown);
    if (!take_locked(a, s, slot->atom_begin, slot->atom_end, slot->atoms, slot->lo, units))
        return from_heap_locked(a, s, units, entry, &a->stats.conflicts);
    a->stats.hits++;
    stw_rec *r = &a->in_arena.recs[slot->place];
    *r = stwi_slot_rec(a, slot, units, s, stwi_match_placed(&a->match, entry));
    stwi_live_more(a, units);
    return (void *)(uintptr_t)r->key;
}

/* All requests but those that the plan expects. */
static __attribute__((noinline)) void *malloc_unexpected(stw_allocator *a, stw_owner *owner, size_t size, uint64_t handle)
{
    const uint64_t units = (size + STW_PLAN_ALIGN - 1) >> STW_UNIT_SHIFT;
    stw_stream *s = a->last_stream;
    void *p = NULL;
    if (__builtin_expect(size - 1 >= STW_MAX_REQUEST, 0)) {
        ++*(size == 0 ? &a->stats.zero_size : &a->stats.failed);
    } else if (((!s || s->handle != handle) && !(s = find_stream_locked(a, handle))) || s->plan < 0) {
        p = s ? from_heap_locked(a, s, units, STW_NO_ENTRY, &a->stats.unknown) : fail_locked(a, s, units);
    } else {
        stwi_settle_locked(a);
        p = planned_locked(a, s, units);
        a->match.stranger = false;
        stwi_aim_locked(a);
    }
    a->answered++;
    stwi_unlock(&a->lock, owner);
    return p;
}

/* The request expected gets nothing of the arena. */
static __attribute__((noinline)) void *expected_conflict_locked(stw_allocator *a, stw_stream *s, uint64_t units)
{
    stwi_settle_locked(a);
    const uint32_t entry = a->match.first;
    stwi_match_step(&a->match, entry + 1);
    void *p = from_heap_locked(a, s, units, entry, &a->stats.conflicts);
    stwi_aim_locked(a);
    a->answered++;
    return p;
}

/* All requests but those that the owner of the lock, who is in, has served; NULL: who is not the owner. */
static __attribute__((noinline)) void *malloc_any(stw_allocator *a, stw_owner *owner, size_t size, uint64_t stream)
{
    if (!owner)
        owner = stwi_lock(&a->lock);
    const stw_step *step = stwi_expected(a);
    const uint32_t units = step->rec.units;
    if (__builtin_expect(!stwi_step_fits(step, (size + STW_PLAN_ALIGN - 1) >> STW_UNIT_SHIFT, stream) || step->end == UINT64_MAX ||
                             !stwi_step_heard(&a->match, step), 0))
        return malloc_unexpected(a, owner, size, stream);
    uint32_t begin, end;
    uint64_t mask = stwi_arena_atoms(&step->rec, &begin, &end);
    stw_stream *s = &a->streams[step->rec.stream];
    void *p;
    if (__builtin_expect(take_locked(a, s, begin, end, mask, step->end - units, units), 1)) {
        a->next = a->order ? a->next : step + 1;
        p = stwi_step_done(a, step);
    } else {
        p = expected_conflict_locked(a, s, units);
    }
    stwi_unlock(&a->lock, owner);
    return p;
}

/* A request in step whose atoms lie in several words. Streams need no order. */
static __attribute__((noinline)) void *malloc_wide(stw_allocator *a, stw_owner *owner, const stw_step *s)
{
    const stw_rec *r = &s->rec;
    if (s->end > a->arena.solid || !stwi_step_heard(&a->match, s) ||
        !stwi_range_take_wide(a->occupied, (uint32_t)r->atoms, (uint32_t)(r->atoms >> 32)))
        return malloc_any(a, owner, (size_t)r->units << STW_UNIT_SHIFT, s->handle);
    a->next = s + 1;
    void *p = stwi_step_done(a, s);
    stwi_unlock_owned(owner);
    return p;
}

void *stw_malloc(stw_allocator *a, size_t size, uint64_t stream)
{
    if (!a)
        return NULL;
    stw_owner *owner = stwi_lock_owned(&a->lock);
    if (__builtin_expect(!owner, 0))
        return malloc_any(a, owner, size, stream);
    const stw_step *s = a->next;
    if (!stwi_step_fits(s, (size + STW_PLAN_ALIGN - 1) >> STW_UNIT_SHIFT, stream)) /* where streams are ordered, none does */
        return a->order ? malloc_any(a, owner, size, stream) : malloc_unexpected(a, owner, size, stream);
    if (a->match.agree < s->least && s->rec.wide)
        return malloc_wide(a, owner, s);
    uint64_t *word = &a->occupied[s->rec.ref];
    if (__builtin_expect(s->end > a->arena.solid || (a->match.agree < s->least && !stwi_step_heard(&a->match, s)) || *word & s->rec.atoms, 0))
        return malloc_any(a, owner, size, stream);
    *word |= s->rec.atoms;
    a->next = s + 1;
    void *p = stwi_step_done(a, s);
    stwi_unlock_owned(owner);
    return p;
}

/* Frees r, which is live. */
static inline void end_locked(stw_allocator *a, stw_rec *r)
{
    a->freed[a->match.frees % STW_FREED] = STW_NO_WORD;
    if (!stwi_match_freed(&a->match, r->fate))
        stwi_match_vote(&a->match, r->fate);
    stwi_live_less(a, r->units);
    if (r->planned) {
        uint32_t begin, end;
        uint64_t mask = stwi_arena_atoms(r, &begin, &end);
        if (r->ordered)
            stwi_order_freed_locked(a, r, begin, end);
        stwi_range_give(a->occupied, begin, end, mask);
        stwi_idle_freed(&a->idle, begin, end);
        r->units = 0;
    } else {
        a->stats.heap_live_bytes -= (uint64_t)r->units << STW_UNIT_SHIFT;
        if (__builtin_expect(r->ordered, 0))
            stwi_limbo_enter_locked(a, r);
        else if (__builtin_expect(r->ref & STW_STITCHED, 0))
            stwi_stitch_give_locked(a, r->ref);
        else
            stwi_heap_free_locked(a->streams[r->stream].heap, r->ref);
        stwi_table_remove(&a->elsewhere, r);
    }
}

/* Frees what r is the record of, if anything, and leaves. */
static __attribute__((noinline)) int free_found(stw_allocator *a, stw_owner *owner, stw_rec *r)
{
    int result = 0;
    if (__builtin_expect(r->units == 0, 0)) {
        a->stats.bad_free++;
        result = -1;
    } else if (!r->pinned) {
        end_locked(a, r);
    }
    stwi_unlock(&a->lock, owner);
    return result;
}

/* All frees but those that the owner of the lock, who is in, has found; NULL: who is not the owner. */
static __attribute__((noinline)) int free_any(stw_allocator *a, stw_owner *owner, void *p)
{
    if (!p) {
        if (owner)
            stwi_unlock_owned(owner);
        return 0;
    }
    if (!owner)
        owner = stwi_lock(&a->lock);
    return free_found(a, owner, stwi_live_find(a, p));
}

/* The rest of a free whose vote is not the usual one. */
static __attribute__((noinline)) int vote_and_leave(stw_allocator *a, stw_owner *owner, uint32_t fate)
{
    stwi_match_vote(&a->match, fate);
    stwi_unlock_owned(owner);
    return 0;
}

int stw_free(stw_allocator *a, void *p)
{
    if (!a)
        return p ? -1 : 0;
    stw_owner *owner = stwi_lock_owned(&a->lock);
    if (__builtin_expect(!owner, 0))
        return free_any(a, owner, p);
    stw_rec *r = &a->in_arena.recs[stwi_home(&a->in_arena, (uintptr_t)p)];
    if (__builtin_expect(r->key != (uintptr_t)p, 0) && (++r)->key != (uintptr_t)p) /* home, or next door */
        return free_any(a, owner, p);
    if (__builtin_expect(r->units == 0 || r->wide || r->ordered, 0))
        return p ? free_found(a, owner, r) : free_any(a, owner, p);
    a->occupied[r->ref] &= ~r->atoms;
    a->freed[a->match.frees % STW_FREED] = r->ref;
    stwi_live_less(a, r->units);
    r->units = 0;
    if (__builtin_expect(!stwi_match_freed(&a->match, r->fate), 0))
        return vote_and_leave(a, owner, r->fate);
    stwi_unlock_owned(owner);
    return 0;
}

int stw_record_stream(stw_allocator *a, void *p, uint64_t stream)
{
    if (!p)
        return 0;
    if (!a)
        return -1;
    stw_owner *owner = stwi_enter(a);
    stw_rec *r = stwi_live_find(a, p);
    int result = r->units != 0 ? 0 : -1;
    if (result == 0 && a->backend.event_record && a->streams[r->stream].handle != stream) {
        const stw_stream *s = make_stream_locked(a, stream);
        if (!s || (!a->order && !stwi_order_make(a, false)) || !stwi_mark_locked(a, r, s))
            r->pinned = r->ordered = 1;
    }
    stwi_leave(a, owner);
    return result;
}

uint64_t stw_trim(stw_allocator *a)
{
    if (!a)
        return 0;
    stw_owner *owner = stwi_enter(a);
    stwi_limbo_leave_all_locked(a, false);
    uint64_t bytes = stwi_trim_locked(a);
    stwi_leave(a, owner);
    return bytes;
}

void stw_mark(stw_allocator *a, uint32_t kind, int64_t value, const char *name)
{
    if (!a || (kind == STW_MARK_PHASE && !name))
        return;
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    for (; kind == STW_MARK_PHASE && *name; name++)
        hash = (hash ^ (uint8_t)*name) * UINT64_C(0x100000001b3);
    stw_owner *owner = stwi_enter(a);
    stwi_match_mark_locked(a, kind, value, hash);
    stwi_leave(a, owner);
}
