/* stw.c: malloc, free, mark.
 *
 * A planned request in step costs: the lock, one comparison with the step that is next, one bitmap
 * word, one record, whose cell the step knows; its free the same with a look-up for the comparison
 * (stw_step.h). Both change nothing where they do not apply, and everything else (another position, the heap, growth)
 * is behind a call, the last thing done, so that the hot path keeps nothing of its own across one.
 * What is not in step: stw_serve.c.
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

/* All requests but those that the plan expects, and whose memory is committed. */
static __attribute__((noinline)) void *malloc_unexpected(stw_allocator *a, stw_owner *owner, size_t size, uint64_t handle)
{
    const uint64_t units = (size + STW_PLAN_ALIGN - 1) >> STW_UNIT_SHIFT;
    stw_stream *s = a->last_stream;
    void *p = NULL;
    if (__builtin_expect(size - 1 >= STW_MAX_REQUEST, 0)) {
        ++*(size == 0 ? &a->stats.zero_size : &a->stats.failed);
    } else if (((!s || s->handle != handle) && !(s = find_stream_locked(a, handle))) || s->plan < 0) {
        p = s ? stwi_from_heap_locked(a, s, units, STW_NO_ENTRY, &a->stats.unknown) : stwi_fail_locked(a, s, units);
    } else {
        stwi_settle_locked(a);
        p = stwi_planned_locked(a, s, units);
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
    void *p = stwi_from_heap_locked(a, s, units, entry, &a->stats.conflicts);
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
                             !stwi_step_heard(&a->match, step) || !stwi_space_ready(a, &a->arena, step->end - units, units), 0))
        return malloc_unexpected(a, owner, size, stream);
    uint32_t begin, end;
    uint64_t mask = stwi_arena_atoms(&step->rec, &begin, &end);
    stw_stream *s = &a->streams[step->rec.stream];
    void *p;
    if (__builtin_expect(stwi_take_locked(a, s, begin, end, mask, step->end - units, units), 1)) {
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
