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

/* Makes r, an empty cell of its table, the record of what is handed out for a request of entry e. */
static inline void *record_locked(stw_allocator *a, stw_rec *r, stw_rec what, uint32_t e)
{
    *r = what;
    r->fate = stwi_match_placed(&a->match, e);
    stwi_live_more(a, what.units);
    return (void *)(uintptr_t)what.key;
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
    stw_rec what = stwi_arena_rec(a, at, units, atom, end, stwi_mask_of(atom, end), s);
    what.guest = 1;
    a->stats.guests++;
    return record_locked(a, stwi_place(a, at), what, entry);
}

/* The end of a request that gets nothing. */
static void *fail_locked(stw_allocator *a, const stw_stream *s, uint64_t units)
{
    a->stats.failed++;
    stwi_say_failed_locked(a, s, units);
    return NULL;
}

/* From the heap; where that would commit memory, from idle arena space if there is some for as long
 * as the request lives, or from several holes. */
static __attribute__((noinline)) void *from_heap_locked(stw_allocator *a, stw_stream *s, uint64_t units, uint32_t entry,
                                                        uint64_t *class)
{
    bool sweep = s->plan >= 0 && class != &a->stats.dynamic;
    bool stitch = a->stitch && units << STW_UNIT_SHIFT >= 2 * a->backend.granularity;
    if (!stwi_table_ensure(&a->elsewhere))
        return fail_locked(a, s, units);
    uint32_t b = stwi_heap_alloc_locked(a, s, units, !sweep && !stitch), end;
    void *p = NULL;
    if (!b && sweep) {
        uint32_t atom = stwi_guest_sweep_locked(a, s, entry, units, &end);
        p = guest_at_locked(a, s, units, atom, end, entry);
        if (p) {
            ++*class;
            return p;
        }
    }
    if (!b && stitch)
        p = stwi_stitch_locked(a, s, units, entry, &b);
    if (!b && (sweep || stitch))
        b = stwi_heap_alloc_locked(a, s, units, true);
    if (!b)
        return fail_locked(a, s, units);
    ++*class;
    uint64_t bytes = units << STW_UNIT_SHIFT;
    if (class == &a->stats.conflicts || class == &a->stats.too_large)
        a->stats.static_fallback_bytes += bytes;
    a->stats.heap_live_bytes += bytes;
    if (a->stats.heap_live_bytes > a->stats.heap_peak_bytes)
        a->stats.heap_peak_bytes = a->stats.heap_live_bytes;
    if (!p)
        p = s->heap->space.base + ((uint64_t)s->heap->blocks[b].start << STW_UNIT_SHIFT);
    a->elsewhere.count++;
    stw_rec *r = stwi_table_find(&a->elsewhere, (uintptr_t)p);
    /* In place: put together elsewhere and copied, it would wait for its own stores, 10 ns. */
    *r = (stw_rec){.key = (uintptr_t)p, .units = (uint32_t)units, .ref = b, .stream = s->index & STW_STREAM_MASK, .fate = stwi_match_placed(&a->match, entry)};
    stwi_live_more(a, (uint32_t)units);
    return p;
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

static __attribute__((noinline)) void *malloc_locked(stw_allocator *a, uint64_t units, uint64_t handle)
{
    stw_stream *s = a->last_stream;
    if (!s || s->handle != handle)
        s = find_stream_locked(a, handle);
    uint32_t entry = STW_NO_ENTRY;
    a->match.stranger = false;
    a->match.fixed = stwi_requests(&a->stats) - a->stats.dynamic;
    if (s && s->plan >= 0)
        entry = match_locked(a, units, (uint16_t)s->plan);
    if (!s)
        return fail_locked(a, s, units);
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
    return record_locked(a, &a->in_arena.recs[slot->place], stwi_slot_rec(a, slot, units, s), entry);
}

/* All requests but those that the owner of the lock, who is in, has seen to be in step; NULL: who is not the owner. */
static __attribute__((noinline)) void *malloc_any(stw_allocator *a, stw_owner *owner, size_t size, uint64_t stream)
{
    void *p = NULL;
    const uint64_t units = (size + STW_PLAN_ALIGN - 1) >> STW_UNIT_SHIFT;
    if (!owner)
        owner = stwi_lock(&a->lock);
    const stw_step *s = a->next;
    if (stwi_step_fits(a, units, stream) && stwi_step_heard(&a->match, s)) {
        uint32_t begin, end;
        uint64_t mask = stwi_arena_atoms(&s->rec, &begin, &end);
        if (stwi_range_take(a->occupied, begin, end, mask))
            p = stwi_step_done(a, s);
    }
    if (!p) {
        stwi_settle_locked(a);
        if (__builtin_expect(size - 1 < STW_MAX_REQUEST, 1))
            p = malloc_locked(a, units, stream);
        else if (size == 0)
            a->stats.zero_size++;
        else
            a->stats.failed++;
        stwi_aim_locked(a);
    }
    stwi_unlock(&a->lock, owner);
    return p;
}

void *stw_malloc(stw_allocator *a, size_t size, uint64_t stream)
{
    if (!a)
        return NULL;
    stw_owner *owner = stwi_lock_owned(&a->lock);
    if (__builtin_expect(!owner || !stwi_step_fits(a, (size + STW_PLAN_ALIGN - 1) >> STW_UNIT_SHIFT, stream), 0))
        return malloc_any(a, owner, size, stream);
    const stw_step *s = a->next;
    uint64_t *word = &a->occupied[s->rec.ref];
    if (__builtin_expect((a->match.agree < s->least && (s->rec.wide || !stwi_step_heard(&a->match, s))) || *word & s->rec.atoms, 0))
        return malloc_any(a, owner, size, stream);
    *word |= s->rec.atoms;
    void *p = stwi_step_done(a, s);
    stwi_unlock_owned(owner);
    return p;
}

/* Frees r, which is live, if it is not in the arena, or others are concerned. */
static __attribute__((noinline)) void end_locked(stw_allocator *a, stw_rec *r)
{
    a->freed[a->match.frees % STW_FREED] = STW_NO_WORD;
    if (!stwi_match_freed(&a->match, r->fate))
        stwi_match_vote(&a->match, r->fate);
    stwi_live_less(a, r->units);
    if (r->planned) {
        uint32_t begin, end;
        uint64_t mask = stwi_arena_atoms(r, &begin, &end);
        stwi_order_freed_locked(a, r, begin, end);
        stwi_range_give(a->occupied, begin, end, mask);
        stwi_idle_freed(&a->idle, begin, end);
        r->units = 0;
    } else {
        if (r->ordered)
            stwi_limbo_enter_locked(a, r);
        else if (__builtin_expect(r->ref & STW_STITCHED, 0))
            stwi_stitch_give_locked(a, r->ref);
        else
            stwi_heap_free_locked(a->streams[r->stream].heap, r->ref);
        a->stats.heap_live_bytes -= (uint64_t)r->units << STW_UNIT_SHIFT;
        stwi_table_remove(&a->elsewhere, r);
    }
}

/* All frees but those that the owner of the lock, who is in, has seen to be simple; NULL: who is not the owner. */
static __attribute__((noinline)) int free_any(stw_allocator *a, stw_owner *owner, void *p)
{
    int result = 0;
    if (!owner)
        owner = stwi_lock(&a->lock);
    stw_rec *r = stwi_live_find(a, p);
    if (r->units == 0) {
        result = p ? -1 : 0;
        a->stats.bad_free += p != NULL;
    } else if (!r->planned || r->ordered) {
        if (!r->pinned)
            end_locked(a, r);
    } else {
        uint32_t begin, end;
        uint64_t mask = stwi_arena_atoms(r, &begin, &end);
        stwi_range_give(a->occupied, begin, end, mask);
        stwi_idle_freed(&a->idle, begin, end);
        a->freed[a->match.frees % STW_FREED] = STW_NO_WORD;
        if (!stwi_step_undone(a, r))
            stwi_match_vote(&a->match, r->fate);
    }
    stwi_unlock(&a->lock, owner);
    return result;
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
    if (__builtin_expect(r->key != (uintptr_t)p || r->units == 0 || r->wide || r->ordered, 0))
        return free_any(a, owner, p);
    a->occupied[r->ref] &= ~r->atoms;
    a->freed[a->match.frees % STW_FREED] = r->ref;
    if (__builtin_expect(!stwi_step_undone(a, r), 0))
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
