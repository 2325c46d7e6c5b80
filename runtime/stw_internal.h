/* stw_internal.h: the runtime's one state struct, and what its files share; what each of them shares by itself is in
 * a header of its name. Not installed.
 *
 *   plan_load.c, plan_check.c  untrusted bytes -> entries, slots, atoms        (at creation)
 *   stw_match.c     which entry of the plan is this request?        (rules: MATCHER.md)
 *   stw_alike.c     what may have been taken for another entry of it
 *   stw_repeat.c    what it repeats may be over, or come again
 *   stw_proportion.c  sizes that change together
 *   stw_points.c    marks
 *   stw_heap.c      best fit in one growing range, for each stream
 *   stw_bins.c      its free blocks, by size
 *   stw_pages.c     which granules of arena and heaps are committed
 *   stw_memory.c    giving them back: trims, moves
 *   stw_guest.c     where a request without an address may lie in the arena
 *   stw_idle.c      the search for free atoms there
 *   stw_lent.c      and what the plan lends of them
 *   stw_stitch.c    a request that no hole fits, from several of them
 *   stw_table.c     address -> what lives there; stream handle -> stream
 *   stw_order.c     which stream has to wait for which
 *   stw_wait.c      events, and waiting for them
 *   stw_marks.c     blocks that several streams use
 *   stw.c           malloc, free, mark
 *   stw_step.c      the hot path: what the plan says to do for each request
 *   stw_serve.c     and what there is to do where it is not in step
 *   stw_create.c    create, destroy
 *   stw_check.c     stats, walk, the self-check
 *   stw_report.c    the report
 *   stw_lock.c      the lock, and fork
 *   stw_bits.c      bitmaps
 *   backend_host.c, crc32c.c
 *   stw_record.c, stw_record_file.c   the recorder, behind stw_record.h; it shares nothing with the allocator
 *   cuda_open.c, cuda_driver.c, backend_cuda.c, cuda_events.c: device memory, behind stw_cuda.h
 *
 * Words: a unit is 512 bytes (STW_PLAN_ALIGN). Names end in _locked where the caller must hold
 * a->lock. Records live beside the memory they describe, never in it: device memory cannot be
 * written by the host. Nothing here calls malloc: records come from mmap, which grows them in
 * place or by moving pages.
 */
#ifndef STW_INTERNAL_H
#define STW_INTERNAL_H

#include "stw.h"
#include "stw_bits.h"
#include "stw_heap.h"
#include "stw_idle.h"
#include "stw_lock.h"
#include "stw_match.h"
#include "stw_plan.h"
#include "stw_table.h"

#include <stdbool.h>

#pragma GCC visibility push(hidden)

#define STW_MAX_REQUEST (UINT64_C(1) << 60) /* bytes; PyTorch itself refuses above */

/* ---- words for people (stw_report.c) ---- */

void stwi_say_failed_locked(const stw_allocator *a, const stw_stream *s, uint64_t units);
void stwi_say_aside_locked(const stw_allocator *a);
void stwi_say_end(stw_allocator *a);

/* ---- the allocator ---- */

#define STW_FREED 64u           /* frees that are remembered one by one */
#define STW_NO_WORD UINT32_MAX /* it was none of the arena, or of several words, and idle was told */

/* Counters at a lap: when the plan's last entry is asked for. */
typedef struct {
    uint64_t hits, conflicts, dynamic;
    uint64_t off; /* too large, or strays */
} stw_lap;

struct stw_allocator {
    stw_lock lock;
    /* The hot path's own: */
    stw_space arena;
    const struct stw_step *next; /* what is to be done for the request expected; one that fits none, where it is not that simple */
    uint64_t room;           /* units that may come alive before more live than ever did */
    uint64_t *occupied;      /* bit per atom: a live allocation covers it */
    uint32_t freed[STW_FREED]; /* by number of the free: the word of it in which atoms came free, or STW_NO_WORD */
    stw_table in_arena;      /* address -> live allocation there: a key for every atom, made once */
    stw_matcher match;
    /* The rest: */
    struct stw_step *steps;        /* one for each entry */
    const stw_plan_entry *entries; /* of the plan, as are slots */
    const stw_slot *slots;
    stw_stream *last_stream; /* of the last request that was not in step; NULL at first */
    struct stw_stitch *stitch; /* NULL: nothing is stitched */
    struct stw_order *order; /* NULL: no stream ever waits for another */
    bool shared;             /* streams may use each other's addresses, and the order is there */
    uint64_t answered;       /* requests, but those in step that are not accounted for yet */
    stw_table elsewhere;     /* as in_arena, of heaps and stitched ranges: keys of what is live */
    stw_idle idle;           /* where to look for free atoms */
    uint64_t told_frees;     /* frees of which it has been told */
    stw_stats stats;         /* counters; stw_get_stats fills in what can be derived */
    stw_plan plan;
    stw_table handles; /* stream handle -> index in streams */
    stw_stream *streams;
    uint32_t n_streams, cap_streams;
    uint64_t *taken_plan_streams; /* bit per plan stream: a handle has it */
    size_t occupied_bytes, taken_bytes, all_bytes, steps_bytes; /* of those mappings */
    uint32_t granule_shift; /* log2 of the units of a granule */
    uint64_t *touched;      /* bit per granule of the arena, scratch of a trim */
    size_t touched_bytes;
    uint64_t most_bytes;    /* ever reserved */
    uint64_t most_live_bytes; /* ever, when the peaks were last reset */
    uint64_t movable_bytes, movable_lap_bytes; /* that may still be moved; more of it with each lap */
    uint64_t aside;         /* laps on plan until it is back, where the plan is set aside: no address of the arena is given (stw_memory.c); else 0 */
    uint64_t strays;        /* requests of the plan's streams that are unknown */
    stw_lap laps[2];        /* the last two */
    uint64_t capacity_bytes, heap_bytes;
    void (*say)(void *ctx, const char *text);
    void *say_ctx;
    uint64_t *needed;  /* bit per atom, scratch of a sweep */
    uint64_t swept;    /* entries that sweeps have read */
    uint64_t lap_heap; /* requests the heap had served when the plan's last entry was last asked for */
    stw_backend backend;
    stw_allocator *fork_prev, *fork_next;
};

/* ---- in step (stw_step.c) ---- */

typedef struct stw_step stw_step;

bool stwi_steps_make(stw_allocator *a); /* false: no memory */
void stwi_steps_arm_locked(stw_allocator *a, const stw_stream *s); /* s has a stream of the plan now */
void stwi_settle_locked(stw_allocator *a); /* counts what has been served in step */
void stwi_aim_locked(stw_allocator *a);    /* says what the next step is; none while the plan is set aside */
void stwi_frees_tell_locked(stw_allocator *a); /* tells a->idle what came free */

/* The lock, for all but the hot path; stwi_leave undoes it. */
static inline stw_owner *stwi_enter(stw_allocator *a)
{
    stw_owner *o = stwi_lock(&a->lock);
    stwi_settle_locked(a);
    return o;
}

static inline void stwi_leave(stw_allocator *a, stw_owner *o)
{
    stwi_aim_locked(a);
    stwi_unlock(&a->lock, o);
}

/* So many units have come alive, or ended. */
static inline void stwi_live_more(stw_allocator *a, uint64_t units)
{
    if (__builtin_expect(__builtin_sub_overflow(a->room, units, &a->room), 0)) {
        a->stats.peak_live_bytes -= a->room << STW_UNIT_SHIFT; /* it is below 0 */
        a->room = 0;
    }
}

static inline void stwi_live_less(stw_allocator *a, uint64_t units)
{
    a->room += units;
}

/* ---- out of step (stw_serve.c) ---- */

/* A request of a stream of the plan. */
void *stwi_planned_locked(stw_allocator *a, stw_stream *s, uint64_t units);
/* One that has no place in the plan, or cannot have it; class: the counter of such. */
void *stwi_from_heap_locked(stw_allocator *a, stw_stream *s, uint64_t units, uint32_t entry, uint64_t *class);
void *stwi_fail_locked(stw_allocator *a, const stw_stream *s, uint64_t units); /* the end of one that gets nothing */
/* Takes the atoms [begin, end), of that mask, for later work of s, which uses `units` from where they begin, if all are free, there is
 * memory, and s can be made to wait for who had them. */
bool stwi_take_locked(stw_allocator *a, const stw_stream *s, uint32_t begin, uint32_t end, uint64_t mask, uint64_t start, uint64_t units);

/* The granules that units [start, start + units) of a space touch. */
static inline stw_granules stwi_granules(const stw_allocator *a, uint64_t start, uint64_t units)
{
    return (stw_granules){start >> a->granule_shift, (start + units + (UINT64_C(1) << a->granule_shift) - 1) >> a->granule_shift};
}

static inline bool stwi_in_arena(const stw_allocator *a, uint64_t at)
{
    return at - (uintptr_t)a->arena.base < a->arena.bytes;
}

/* ---- live allocations (stw_table.c) ---- */

bool stwi_places_make(stw_allocator *a); /* a->in_arena, and where slots are in it; false: no memory */
const char *stwi_places_check(const stw_allocator *a);
/* The live allocation after r, in no particular order; NULL begins, and ends. */
const stw_rec *stwi_live_next(const stw_allocator *a, const stw_rec *r);

/* The cell of the atom that begins at an address of the arena; where none does, an empty one. */
static inline stw_rec *stwi_place(const stw_allocator *a, uint64_t at)
{
    const stw_table *t = &a->in_arena;
    uint64_t i = stwi_home(t, at);
    while (__builtin_expect(t->recs[i].key != at, 0) && t->recs[i].key != 0)
        i = (i + 1) & t->mask;
    return &t->recs[i];
}

/* The record of what lives at p; where nothing does, one of 0 units. */
static inline stw_rec *stwi_live_find(const stw_allocator *a, const void *p)
{
    uint64_t at = (uintptr_t)p;
    return __builtin_expect(stwi_in_arena(a, at), 1) ? stwi_place(a, at) : stwi_table_find(&a->elsewhere, at);
}

/* Requests that heaps have served. */
static inline uint64_t stwi_heap_requests(const stw_stats *s)
{
    return s->conflicts + s->too_large + s->dynamic - s->guests + s->unknown;
}

/* Every request that has been answered. */
static inline uint64_t stwi_requests(const stw_allocator *a)
{
    return a->answered + (a->match.here - a->match.from);
}

/* ---- guests (stw_guest.c): dynamic requests in idle space of the arena ---- */

/* 1 + the list of needs of a slot; 0: none. */
static inline uint32_t stwi_list(const stw_slot *s)
{
    return s->flags & STW_SLOT_PLANNED ? 0 : s->list;
}

/* Whether a request of that entry has a life that is known. The prologue's are asked for once, and beside them who knows what:
 * a job that is resumed loads its weights. */
static inline bool stwi_life_known(const stw_matcher *m, uint32_t entry)
{
    return entry != STW_NO_ENTRY && (entry >= m->wrap || !m->stranger);
}

/* First atom of the best place for `units` of a plan stream, free and not named by the list;
 * *end: one past the last atom it would touch. STW_NO_ENTRY: none. */
uint32_t stwi_guest_find_locked(stw_allocator *a, const stw_stream *s, uint32_t list, uint64_t units, uint32_t *end);
/* The same for a request without a list, by reading the plan: of `entry`, or, where that is STW_NO_ENTRY,
 * of an unknown life; `committed`: only atoms that are. STW_NO_ENTRY also where that would cost more than the requests so far have paid for. */
uint32_t stwi_guest_sweep_locked(stw_allocator *a, const stw_stream *s, uint32_t entry, uint64_t units, bool committed, uint32_t *end);
/* A bitmap, good until the next call: the atoms that planned requests start to use while a request of `entry` is alive, as stwi_guest_sweep_locked
 * knows its life, or a whole step where it does not; NULL: not known. */
const uint64_t *stwi_guest_needs_locked(stw_allocator *a, uint32_t entry);
#define STW_LENT_RANGES 12u /* that a search looks into, of those that are large enough */
#define STW_LENT_BATCH 16u  /* of the list that are read before they are looked into: it may be over then */
#define STW_SWEEP_PART 16u /* the shortest life tried is this part of a step */
#define STW_SWEEP_WORK 64u /* entries that a request pays for */
/* First atom i with bounds[i] >= unit. */
uint32_t stwi_atom_at(const stw_plan *p, uint64_t unit);
/* The same, where bounds[atom] < unit, for an answer that is not far from it. */
uint32_t stwi_atom_after(const stw_plan *p, uint32_t atom, uint64_t unit);

/* The atoms that a live allocation in the arena covers; returns their mask. */
static inline uint64_t stwi_arena_atoms(const stw_rec *r, uint32_t *begin, uint32_t *end)
{
    if (r->wide) {
        *begin = (uint32_t)r->atoms;
        *end = (uint32_t)(r->atoms >> 32);
        return 0;
    }
    *begin = r->ref * 64 + (uint32_t)__builtin_ctzll(r->atoms);
    *end = r->ref * 64 + 64 - (uint32_t)__builtin_clzll(r->atoms);
    return r->atoms;
}

/* *r becomes the record of what covers the atoms [begin, end), of that mask, for stream s. Field by field: a copy of the whole would wait for its parts
 * to be written. */
static inline void stwi_arena_rec(stw_rec *r, const stw_allocator *a, uint64_t key, uint64_t units, uint32_t begin, uint32_t end, uint64_t mask,
                                  const stw_stream *s, bool guest, uint32_t fate)
{
    r->key = key;
    r->atoms = mask ? mask : (uint64_t)end << 32 | begin;
    r->units = (uint32_t)units;
    r->ref = begin >> 6;
    r->stream = s->index & STW_STREAM_MASK;
    r->guest = guest;
    r->marked = 0;
    r->planned = 1;
    r->wide = mask == 0;
    r->ordered = a->shared;
    r->pinned = 0;
    r->fate = fate;
}

static inline void stwi_slot_rec(stw_rec *r, const stw_allocator *a, const stw_slot *slot, uint64_t units, const stw_stream *s, uint32_t fate)
{
    stwi_arena_rec(r, a, (uintptr_t)a->arena.base + ((uint64_t)slot->lo << STW_UNIT_SHIFT), units, slot->atom_begin, slot->atom_end, slot->atoms, s,
                   false, fate);
}

/* ---- requests made of several holes (stw_stitch.c) ---- */

typedef struct stw_stitch stw_stitch;
#define STW_STITCHED 0x80000000u /* in stw_rec.ref of what is not planned: blocks are fewer */

bool stwi_stitch_make(stw_allocator *a, uint64_t limit_bytes); /* false: no memory */
void stwi_stitch_drop(stw_allocator *a);
/* An address for a request of `entry` of stream s, and what becomes its record's ref; NULL: none, nothing changed. */
void *stwi_stitch_locked(stw_allocator *a, stw_stream *s, uint64_t units, uint32_t entry, uint32_t *ref);
void stwi_stitch_give_locked(stw_allocator *a, uint32_t ref);
/* The memory is about to be given back: no range may hold on to it. */
void stwi_stitch_forget_locked(stw_allocator *a, const void *p, uint64_t bytes);
/* Sets the bits, one for each granule of the arena, of pieces in use. */
void stwi_stitch_touch(const stw_allocator *a, uint64_t *granules);
/* Takes the atoms for later work of s, if all are free and it can be made to wait for who had them. */
bool stwi_arena_take_locked(stw_allocator *a, const stw_stream *s, uint32_t begin, uint32_t end);
const char *stwi_stitch_check_one(const stw_allocator *a, const stw_rec *r);
/* Marks the atoms of pieces in use in seen, and counts their blocks and those blocks' units. */
const char *stwi_stitch_check(const stw_allocator *a, uint64_t *seen, uint64_t *blocks, uint64_t *units);

/* ---- the order of work between streams (stw_order.c, stw_marks.c) ---- */

typedef struct stw_order stw_order;

bool stwi_order_make(stw_allocator *a, bool shared); /* false: no memory */
void stwi_order_drop(stw_allocator *a);
/* Makes the stream wait for all others that had the atoms [begin, end), so that its work from now on may use
 * them. False: there is no way to make sure. The order is there (a->order). */
bool stwi_order_take_locked(stw_allocator *a, const stw_stream *s, uint32_t begin, uint32_t end);
/* The atoms that are needed, and those that the stream could only have by waiting for something young; NULL: there are none
 * of these. Good until the next call. The order is there. */
const uint64_t *stwi_order_dear_locked(stw_allocator *a, const stw_stream *s, const uint64_t *needed);
/* The allocation r of the arena is freed, in the atoms [begin, end). The order is there. */
void stwi_order_freed_locked(stw_allocator *a, const stw_rec *r, uint32_t begin, uint32_t end);
/* Stream s, not its own, uses r, too. False: that cannot be remembered. The order is there. */
bool stwi_mark_locked(stw_allocator *a, stw_rec *r, const stw_stream *s);
uint32_t stwi_marks_take(stw_allocator *a, uint64_t key); /* the first mark of a marked block, which is unmarked */
uint32_t stwi_mark_drop(stw_order *o, uint32_t m);        /* the one after it */
/* The marked allocation r of a heap is freed: its block waits. */
void stwi_limbo_enter_locked(stw_allocator *a, const stw_rec *r);
/* Frees the blocks of s's heap whose waiting is over; where `wait`, by making s wait for what is left, however young.
 * Returns whether any came free. */
bool stwi_limbo_leave_locked(stw_allocator *a, stw_stream *s, bool wait);
bool stwi_limbo_leave_all_locked(stw_allocator *a, bool wait); /* of all heaps */
const char *stwi_order_check(const stw_allocator *a);
const char *stwi_marks_check(const stw_allocator *a, uint64_t *limbo_blocks, uint64_t *limbo_units);

#pragma GCC visibility pop
#endif
