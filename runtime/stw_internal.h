/* stw_internal.h: the runtime's one state struct, and what its files share. Not installed.
 *
 *   plan_load.c     untrusted bytes -> entries, slots, atoms        (at creation)
 *   stw_match.c     which entry of the plan is this request?        (rules: MATCHER.md)
 *   stw_heap.c      best fit in one growing range, for each stream
 *   stw_pages.c     which granules of arena and heaps are committed
 *   stw_memory.c    giving them back: trims, moves
 *   stw_stitch.c    a request that no hole fits, from several of them
 *   stw_table.c     address -> what lives there; stream handle -> stream
 *   stw_order.c     which stream has to wait for which
 *   stw_wait.c      events, and waiting for them
 *   stw_marks.c     blocks that several streams use
 *   stw.c           create, destroy, malloc, free, mark
 *   stw_check.c     stats, walk, the self-check
 *   stw_report.c    the report
 *   stw_lock.c      the lock, and fork
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
#include "stw_plan.h"

#include <stdbool.h>

#pragma GCC visibility push(hidden)

#define STW_UNIT_SHIFT 9
#define STW_MAX_REQUEST (UINT64_C(1) << 60) /* bytes; PyTorch itself refuses above */
#define STW_MAX_RANGE (UINT64_C(1) << 41)   /* bytes of one arena or heap: units fit 32 bits */
#define STW_NO_ENTRY UINT32_MAX

/* ---- records in memory from mmap (stw_table.c) ---- */

void *stwi_map(size_t bytes);                                /* zeroed; NULL on failure */
void *stwi_grow(void *p, size_t old_bytes, size_t new_bytes); /* NULL: p is as it was */
/* An array of *cap elements of `each` bytes, with room for twice as many; NULL: all is as it was. */
void *stwi_double(void *p, uint32_t *cap, size_t each);
void stwi_unmap(void *p, size_t bytes);

/* ---- the lock (stw_lock.c) ---- */

/* A thread that has been the owner of a lock. Only that thread writes `inside`: were the flag the
 * lock's own, a former owner that is just standing back would clear it under its successor. */
typedef struct {
    uintptr_t thread;
    uint32_t inside; /* 1: in, or about to find out that it may not */
} stw_owner;

#define STW_OWNERS 8u

typedef struct {
    stw_owner *owner;  /* may enter without the mutex; NULL: nobody */
    uint32_t held;     /* the mutex: 0 or 1 */
    uint32_t sleepers; /* 1: threads may be asleep on it */
    uint32_t streak;   /* under the mutex: times in a row that `last` has taken it */
    uint32_t n_owners; /* of owners, ever */
    uintptr_t last;
    stw_owner owners[STW_OWNERS];
} stw_lock;

#define STW_ANYONE ((uintptr_t)1) /* where threads cannot be told apart, nobody becomes an owner */

void stwi_lock_mutex(stw_lock *l); /* by the mutex, ending another thread's privilege */
void stwi_unlock_mutex(stw_lock *l);

/* A value that no other living thread has, and never 0. */
static inline uintptr_t stwi_self(void)
{
#if defined __x86_64__ || defined __aarch64__
    return (uintptr_t)__builtin_thread_pointer();
#else
    return STW_ANYONE;
#endif
}

/* The record of the owner where the caller is that and has entered as such; NULL: entered by the
 * mutex. The answer goes to stwi_unlock. */
static inline stw_owner *stwi_lock(stw_lock *l)
{
    stw_owner *o = __atomic_load_n(&l->owner, __ATOMIC_ACQUIRE);
    if (__builtin_expect(o != NULL && o->thread == stwi_self(), 1)) {
        __atomic_store_n(&o->inside, 1, __ATOMIC_RELAXED);
        __atomic_signal_fence(__ATOMIC_SEQ_CST); /* the other half is in stw_lock.c: membarrier */
        if (__builtin_expect(__atomic_load_n(&l->owner, __ATOMIC_RELAXED) == o, 1))
            return o;
        __atomic_store_n(&o->inside, 0, __ATOMIC_RELEASE);
    }
    stwi_lock_mutex(l);
    return NULL;
}

static inline void stwi_unlock(stw_lock *l, stw_owner *o)
{
    if (__builtin_expect(o != NULL, 1))
        __atomic_store_n(&o->inside, 0, __ATOMIC_RELEASE);
    else
        stwi_unlock_mutex(l);
}

void stwi_fork_add(stw_allocator *a); /* a fork now leaves a's lock free in the child */
void stwi_fork_remove(stw_allocator *a);

/* ---- the table (stw_table.c): 64-bit key -> record ---- */

typedef struct {
    uint64_t key;
    uint32_t units;  /* 0: this cell is empty; of in_arena: nothing is live there */
    uint32_t ref;    /* planned: slot, or STW_GUEST + first atom; heap: block; of a stream: its index */
    uint32_t stream : 28; /* index in a->streams */
    uint32_t ordered : 1; /* its free concerns other streams: in a shared arena, marked or pinned */
    uint32_t marked : 1;  /* other streams use it, too (stw_marks.c) */
    uint32_t pinned : 1;  /* others that could not be noted: it is never reused */
    uint32_t planned : 1; /* 1: in the arena */
    uint32_t fate;   /* of the entry that its request was matched with (stw_matcher.fates); none: STW_NO_VOTE */
} stw_rec;

typedef struct {
    stw_rec *recs;
    uint64_t mask;  /* cells - 1 */
    uint32_t shift; /* 64 - log2(cells) */
    uint64_t count;
} stw_table;

bool stwi_table_init(stw_table *t, uint32_t log2_cells);
bool stwi_table_grow(stw_table *t);
void stwi_table_drop(stw_table *t);

static inline uint64_t stwi_home(const stw_table *t, uint64_t key)
{
    return (key * UINT64_C(0x9e3779b97f4a7c15)) >> t->shift;
}

/* The cell of key, or the empty one where it belongs. */
static inline stw_rec *stwi_table_find(const stw_table *t, uint64_t key)
{
    uint64_t i = stwi_home(t, key);
    while (t->recs[i].units != 0 && t->recs[i].key != key)
        i = (i + 1) & t->mask;
    return &t->recs[i];
}

void stwi_table_remove_shift(stw_table *t, stw_rec *r);

/* Empties r, a full cell of t. */
static inline void stwi_table_remove(stw_table *t, stw_rec *r)
{
    const stw_rec *next = &t->recs[((uint64_t)(r - t->recs) + 1) & t->mask];
    if (__builtin_expect(next->units == 0, 1)) {
        r->units = 0;
        t->count--;
    } else {
        stwi_table_remove_shift(t, r);
    }
}

/* Makes sure that one more record fits: at most half the cells are full. */
static inline bool stwi_table_ensure(stw_table *t)
{
    return __builtin_expect(t->count * 2 <= t->mask, 1) || stwi_table_grow(t);
}

/* ---- granules (stw_pages.c, stw_memory.c) ---- */

/* Address space that is committed by granules: the arena, a heap. */
typedef struct {
    char *base;               /* NULL: none */
    uint64_t solid;           /* the units below are committed, all of them */
    uint64_t bytes;           /* of address space, a multiple of the granularity */
    uint64_t committed_bytes; /* the same */
    uint64_t *pages;          /* bit per granule: committed */
    size_t pages_bytes;
} stw_space;

typedef struct {
    uint64_t from, to; /* half-open */
} stw_granules;

/* Of a bitmap: the first index in [from, end) whose bit is `on`, end if there is none; one more than the last in
 * [begin, end), begin if there is none; sets [from, to). */
uint64_t stwi_bits_next(const uint64_t *bits, uint64_t from, uint64_t end, bool on);
uint64_t stwi_bits_last(const uint64_t *bits, uint64_t begin, uint64_t end, bool on);
void stwi_bits_set(uint64_t *bits, uint64_t from, uint64_t to, bool on);

bool stwi_space_open(const stw_allocator *a, stw_space *p, uint64_t bytes); /* false: no memory, p is empty */
void stwi_space_close(stw_allocator *a, stw_space *p);
/* Gives back what is committed of the granules [from, to), the highest first, at most so many; returns how many. */
uint64_t stwi_space_give_locked(stw_allocator *a, stw_space *p, uint64_t from, uint64_t to, uint64_t most);
const char *stwi_space_check(const stw_allocator *a, const stw_space *p);
bool stwi_space_ready_far(const stw_allocator *a, const stw_space *p, uint64_t start, uint64_t units);
bool stwi_space_commit_far_locked(stw_allocator *a, stw_space *p, uint64_t start, uint64_t units);

/* Whether the granules that [start, start + units) touches are committed. */
static inline bool stwi_space_ready(const stw_allocator *a, const stw_space *p, uint64_t start, uint64_t units)
{
    return __builtin_expect(start + units <= p->solid, 1) || stwi_space_ready_far(a, p, start, units);
}

/* Commits them. False: no memory, nothing changed but what moved. */
static inline bool stwi_space_commit_locked(stw_allocator *a, stw_space *p, uint64_t start, uint64_t units)
{
    return __builtin_expect(start + units <= p->solid, 1) || stwi_space_commit_far_locked(a, p, start, units);
}

/* Memory is given back when the device has been waited for, and that breaks a capture. */
bool stwi_capturing_locked(const stw_allocator *a);
/* Gives back every granule on which nothing lives: of arena and heaps, of heaps, or of all but what [start, start +
 * units) of p touches, for which there is to be room. Returns the bytes. */
uint64_t stwi_trim_locked(stw_allocator *a);
uint64_t stwi_trim_heaps_locked(stw_allocator *a);
uint64_t stwi_trim_for_locked(stw_allocator *a, const stw_space *p, uint64_t start, uint64_t units);
/* Before the granules r of p are committed, `more` bytes of them new: gives back of what is idle elsewhere, if it would
 * be more than ever before. */
void stwi_move_locked(stw_allocator *a, const stw_space *p, stw_granules r, uint64_t more);
#define STW_MOVE_ARENAS 4u /* arenas' worth that may be moved at all */
#define STW_MOVE_LAP 128u  /* and that part of one more with each step of the plan */

/* ---- the heap (stw_heap.c) ---- */

#define STW_SMALL_LOG2 11
#define STW_SMALL_UNITS (1u << STW_SMALL_LOG2) /* smaller free blocks have a list for each exact size */
#define STW_OCTAVES (32 - STW_SMALL_LOG2)      /* larger ones have 64 trees for each power of two */

/* A piece of a heap's range, free or used. Block 0 is nobody. */
typedef struct {
    uint32_t start, units;
    uint32_t prev, next;  /* neighbours in address order; next also chains unused records */
    uint32_t left, right; /* free: previous and next in its list, or children in the tree */
    uint32_t used;        /* 1: handed out */
    uint32_t reserved;
} stw_block;

typedef struct {
    stw_space space;
    uint32_t top;             /* units [0, top) are tiled by blocks */
    uint32_t last;            /* the block that ends at top; 0: none */
    stw_block *blocks;
    uint32_t n_blocks, cap_blocks; /* records ever used; records there is room for */
    uint32_t limbo, limbo_last; /* freed blocks that other streams may still use: marks of the first and the last; 0: none */
    uint64_t n_limbo;
    uint32_t spare, n_spare;       /* chain of unused records below n_blocks, its length */
    uint32_t octaves;              /* bit o: large[o] is not 0 */
    uint64_t large[STW_OCTAVES];   /* bit k: root[o][k] is not 0 */
    uint32_t root[STW_OCTAVES][64]; /* trees of free blocks of STW_SMALL_UNITS and more */
    uint64_t small_words;          /* bit w: small[w] is not 0 */
    uint64_t small[STW_SMALL_UNITS / 64];
    uint32_t head[STW_SMALL_UNITS]; /* first free block of exactly that many units */
} stw_heap;

#define STW_NO_PLAN (-1)
#define STW_NOT_ASKED (-2)

typedef struct {
    uint64_t handle;
    int32_t plan;   /* index of the plan's stream; STW_NO_PLAN: none, its requests match nothing; STW_NOT_ASKED before the first */
    uint32_t index; /* of this in a->streams */
    stw_heap *heap; /* NULL before the first request that needs it */
} stw_stream;

/* Returns a block of exactly `units` of s's heap, made when missing; 0: no memory, nothing changed. Where
 * it may not commit, 0 also if the block would need memory that is not committed. */
uint32_t stwi_heap_alloc_locked(stw_allocator *a, stw_stream *s, uint64_t units, bool may_commit);
bool stwi_heap_make_locked(stw_allocator *a, stw_stream *s); /* the stream has a heap now; false: no memory */
void stwi_heap_free_locked(stw_heap *h, uint32_t block);
bool stwi_heap_ensure(stw_heap *h, uint32_t blocks); /* room for so many more; false: no memory */
/* Hands out [start, start + units) of a free block, which is b or comes after b; needs room for two blocks. */
uint32_t stwi_heap_carve_locked(stw_heap *h, uint32_t b, uint32_t start, uint32_t units);
void stwi_heap_drop(stw_allocator *a, stw_heap *h);
/* stw_check's part: NULL, or what is wrong. *used counts handed-out blocks and units. */
const char *stwi_heap_check(const stw_heap *h, uint64_t *used_blocks, uint64_t *used_units);

/* ---- the plan (plan_load.c) ---- */

typedef struct {
    uint32_t lo, hi;                /* units, as in stw_plan_slot */
    uint32_t atom_begin, atom_end;  /* planned: its atoms, half-open */
    uint64_t atoms;                 /* planned: the same, as bits of one word (stwi_mask_of) */
    uint16_t stream, flags;         /* as in stw_plan_slot */
    union {
        uint32_t list;  /* dynamic: 1 + its list of needs; 0: none (stwi_list) */
        uint32_t place; /* planned: cell of a->in_arena */
    };
} stw_slot;

typedef struct {
    void *bytes; /* our copy of the file; entries, streams and marks point into it */
    size_t mapped_bytes;
    size_t file_bytes;
    stw_slot *slots;
    size_t slots_mapped_bytes;
    uint64_t arena_bytes, capacity_bytes;
    uint32_t n_entries, n_slots, n_streams, n_marks;
    uint32_t loop_start, n_atoms;
    uint32_t shared_age;      /* as in stw_plan_header */
    uint32_t n_lists, words;  /* lists of needs; 64-bit words of a bitmap over atoms */
    uint32_t *bounds;         /* atom i is units [bounds[i], bounds[i + 1]) of the arena */
    uint64_t *needs;          /* list l: bits of the atoms it names and of those that are kept, from word l * words on */
    uint64_t *kept;           /* bits of the atoms that are never lent; behind the lists */
    size_t bounds_mapped_bytes, needs_mapped_bytes;
    const stw_plan_entry *entries;
    const stw_plan_stream *streams;
    const stw_plan_mark *marks;
    uint32_t n_rules;  /* statements of rules that the plan says it obeys */
    char rules[13];    /* the first digits of their digest; "" where there are none */
} stw_plan;

stw_status stwi_plan_load(stw_plan *out, const void *bytes, size_t n, char *err, size_t err_bytes);
void stwi_plan_drop(stw_plan *p);

uint32_t stwi_crc32c(uint32_t crc, const void *p, size_t bytes); /* running: start with 0 */

/* ---- words for people (stw_report.c) ---- */

void stwi_say_failed_locked(const stw_allocator *a, const stw_stream *s, uint64_t units);
void stwi_say_end(stw_allocator *a);

/* ---- the matcher (stw_match.c) ---- */

enum { STW_SYNC, STW_LOST, STW_SEARCH };

#define STW_BACK 64u
#define STW_AHEAD 700u
#define STW_PATH (STW_BACK + STW_AHEAD + 2)
#define STW_NONE_SCORE (INT32_MIN / 2)
#define STW_WHOLE 1000000 /* the whole, in millionths */
#define STW_VOTE_FOR 3000
#define STW_VOTE_AGAINST (-1500)
#define STW_VOUCHES (-1000) /* a match with an own score of that says that the position is right */
#define STW_RESIZED_TRUSTED 8u /* resized requests in a row after which a smaller one gets the slot */
#define STW_COPIES 4u /* that a loop may consist of: the compiler unrolls no further */
#define STW_ANCHOR_WITHIN 64u /* entries from the loop's start that may be the anchor */
#define STW_COMMON_UNITS (4096 >> STW_UNIT_SHIFT) /* up to it sizes are common: an equal one says little, and none is the anchor */
#define STW_INNER 0x80000000u   /* in a fate: of a loop entry that dies within its iteration */
#define STW_NO_VOTE 0x7fffffffu /* in a fate: its free says nothing; entries are fewer */
#define STW_SURE_SCORE 1000 /* a score above it is taken without looking further */

typedef struct {
    uint32_t n;       /* entries of the plan */
    uint32_t wrap;    /* where the loop begins: what follows entry n - 1 */
    uint32_t mode;    /* STW_SYNC, … */
    uint32_t nf;      /* successful frees since the last request, clamped to 3 */
    uint32_t n_votes; /* of those, frees that vote; at most 3, the last ones */
    uint32_t votes[3]; /* positions they name */
    uint32_t first;   /* sync: position of path index 0, always a hypothesis */
    uint32_t len;     /* sync: path indexes held in stay, the last is a hypothesis; else 0 */
    uint32_t best;    /* sync: path index of the best one, whose score is 0 */
    int32_t average;  /* share of well matched requests, millionths */
    uint32_t steady;  /* sync: columns in a row that confirmed the best hypothesis */
    uint32_t columns; /* search: columns so far */
    uint32_t run;     /* search: of those, the last ones in a row reached by a good match */
    uint32_t anchor;  /* the loop's first entry that is easy to tell; STW_NO_ENTRY: none */
    uint32_t last;    /* the last entry of the loop that a request with an address was answered with; STW_NO_ENTRY: none so far */
    uint32_t copy;    /* entries after which the loop is the same again; all of it where it never is */
    uint64_t inner;   /* live requests of loop entries that die within their iteration */
    uint64_t search_began; /* number of the request with which the last search began; 0: none */
    int32_t stay[STW_PATH]; /* score of each path index, thousandths; STW_NONE_SCORE: dropped */
    int32_t *all;     /* search: the same for every entry, n + 1 of them */
    uint32_t *fates;  /* of each entry: STW_INNER, and the position that its free votes for, or STW_NO_VOTE */
} stw_matcher;

/* ---- the allocator ---- */

struct stw_allocator {
    stw_lock lock;
    /* The hot path's own: */
    stw_space arena;
    const stw_plan_entry *entries; /* of the plan, as are slots */
    const stw_slot *slots;
    uint64_t *occupied;      /* bit per atom: a live allocation covers it */
    stw_stream *last_stream; /* of the last request; NULL at first */
    struct stw_stitch *stitch; /* NULL: nothing is stitched */
    struct stw_order *order; /* NULL: no stream ever waits for another */
    bool shared;             /* streams may use each other's addresses, and the order is there */
    stw_table in_arena;      /* address -> live allocation there: a key for every atom, made once */
    stw_table elsewhere;     /* the same of heaps and stitched ranges: keys of what is live */
    stw_stats stats;         /* counters; stw_get_stats fills in what can be derived */
    stw_matcher match;
    /* The rest: */
    stw_plan plan;
    stw_table handles; /* stream handle -> index in streams */
    stw_stream *streams;
    uint32_t n_streams, cap_streams;
    uint64_t *taken_plan_streams; /* bit per plan stream: a handle has it */
    size_t occupied_bytes, taken_bytes, all_bytes; /* of those mappings */
    uint32_t granule_shift; /* log2 of the units of a granule */
    uint64_t *touched;      /* bit per granule of the arena, scratch of a trim */
    size_t touched_bytes;
    uint64_t most_bytes;    /* ever reserved */
    uint64_t movable_bytes, movable_lap_bytes; /* that may still be moved; more of it with each lap */
    uint64_t capacity_bytes, heap_bytes;
    void (*say)(void *ctx, const char *text);
    void *say_ctx;
    uint64_t resized;  /* planned entries in a row that were asked for with another size */
    uint64_t *needed;  /* bit per atom, scratch of a sweep */
    uint64_t swept;    /* entries that sweeps have read */
    uint64_t lap_heap; /* requests the heap had served when the plan's last entry was last asked for */
    stw_backend backend;
    stw_allocator *fork_prev, *fork_next;
};

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
static inline uint64_t stwi_requests(const stw_stats *s)
{
    return s->hits + s->conflicts + s->too_large + s->dynamic + s->unknown + s->zero_size + s->failed;
}

static inline uint32_t stwi_succ(const stw_matcher *m, uint32_t p)
{
    return p + 1 == m->n ? m->wrap : p + 1;
}

/* Score of the entry at position p for a request, in thousandths; the streams are equal. */
static inline int32_t stwi_score(const stw_matcher *m, uint32_t p, const stw_slot *s, uint32_t life_nf, uint64_t units)
{
    int32_t v;
    if (s->flags & STW_SLOT_PLANNED) {
        uint64_t big = units > s->hi ? units : s->hi, small = units > s->hi ? s->hi : units;
        v = big == small ? (units > STW_COMMON_UNITS ? 4000 : 1500)
                         : (big > 4 * small ? -2500 : -2000);
    } else if (s->lo <= units && units <= s->hi) {
        v = 1500;
    } else {
        v = 3 * units >= s->lo && units <= 3 * (uint64_t)s->hi ? 1000 : 200;
    }
    for (uint32_t i = 0; i < m->n_votes; i++)
        v += m->votes[i] == p ? STW_VOTE_FOR : STW_VOTE_AGAINST;
    return v + (m->nf >= (life_nf >> 28 & 3) && m->nf <= life_nf >> 30 ? 1000 : -1500);
}

/* A request of entry e is answered with an address; returns its fate. */
static inline uint32_t stwi_match_placed(stw_matcher *m, uint32_t e)
{
    if (e == STW_NO_ENTRY)
        return STW_NO_VOTE;
    if (e >= m->wrap)
        m->last = e;
    m->inner += m->fates[e] >> 31;
    return m->fates[e];
}

/* It is freed. */
static inline void stwi_match_freed(stw_matcher *m, uint32_t fate)
{
    const uint32_t vote = fate & STW_NO_VOTE;
    m->inner -= fate >> 31;
    m->nf += m->nf < 3;
    if (vote == STW_NO_VOTE)
        return;
    if (m->mode == STW_SYNC) { /* a free of the past is late, and says nothing */
        uint32_t p = m->first + m->best;
        p = p < m->n ? p : m->wrap + (p - m->n);
        uint32_t ahead = vote >= p ? vote - p : vote >= m->wrap ? m->n - p + (vote - m->wrap) : UINT32_MAX;
        if (ahead > STW_AHEAD)
            return;
    }
    if (__builtin_expect(m->n_votes == 3, 0)) {
        m->votes[0] = m->votes[1];
        m->votes[1] = m->votes[2];
        m->n_votes = 2;
    }
    m->votes[m->n_votes++] = vote;
}

/* Which entry is this request of `units` and plan stream `stream`? STW_NO_ENTRY: none. The plan
 * has entries. */
uint32_t stwi_match_slow_locked(stw_allocator *a, uint64_t units, uint16_t stream);
void stwi_match_mark_locked(stw_allocator *a, uint32_t kind, int64_t value, uint64_t name);
void stwi_match_init(stw_matcher *m, const stw_plan *p);
uint32_t stwi_match_position(const stw_matcher *m); /* entry expected next; n: lost */
const char *stwi_match_check(const stw_matcher *m);

/* The entry expected, p, is what was asked for; next is what follows it. */
static inline void stwi_match_step(stw_matcher *m, uint32_t next)
{
    m->first = next;
    m->average += (int32_t)((uint32_t)(STW_WHOLE - m->average) / 64); /* never negative */
    m->nf = m->n_votes = 0;
}

static inline uint32_t stwi_match_locked(stw_allocator *a, uint64_t units, uint16_t stream)
{
    stw_matcher *m = &a->match;
    if (__builtin_expect(m->len == 1, 1)) {
        uint32_t p = m->first;
        const stw_plan_entry e = a->entries[p];
        const stw_slot *s = &a->slots[e.slot];
        if (s->stream == stream && stwi_score(m, p, s, e.life_nf, units) > STW_SURE_SCORE) {
            stwi_match_step(m, stwi_succ(m, p));
            return p;
        }
    }
    return stwi_match_slow_locked(a, units, stream);
}

/* ---- ranges of the occupancy bitmap ---- */

static inline uint64_t stwi_mask(uint32_t begin, uint32_t end) /* bits begin..end-1 of 0..63; end > begin */
{
    return (~UINT64_C(0) >> (64 - (end - begin))) << begin;
}

/* Bits [begin, end) of the word of begin; 0: they reach into more than one. */
static inline uint64_t stwi_mask_of(uint32_t begin, uint32_t end)
{
    return begin >> 6 == (end - 1) >> 6 ? stwi_mask(begin & 63, (begin & 63) + (end - begin)) : 0;
}

bool stwi_range_take_wide(uint64_t *bits, uint32_t begin, uint32_t end);
void stwi_range_give_wide(uint64_t *bits, uint32_t begin, uint32_t end);

/* Sets bits [begin, end), whose mask it is, if all are clear, else changes nothing. */
static inline bool stwi_range_take(uint64_t *bits, uint32_t begin, uint32_t end, uint64_t mask)
{
    if (__builtin_expect(mask == 0, 0))
        return stwi_range_take_wide(bits, begin, end);
    uint64_t *w = &bits[begin >> 6];
    if (*w & mask)
        return false;
    *w |= mask;
    return true;
}

static inline void stwi_range_give(uint64_t *bits, uint32_t begin, uint32_t end, uint64_t mask)
{
    if (__builtin_expect(mask == 0, 0))
        stwi_range_give_wide(bits, begin, end);
    else
        bits[begin >> 6] &= ~mask;
}

/* Sets bits [begin, end), set already or not. */
static inline void stwi_set_bits(uint64_t *bits, uint32_t begin, uint32_t end)
{
    for (uint32_t i = begin; i < end; i = (i | 63) + 1) {
        uint32_t stop = (i | 63) + 1 < end ? (i | 63) + 1 : end;
        bits[i >> 6] |= stwi_mask(i & 63, (i & 63) + (stop - i));
    }
}

/* ---- guests (stw_guest.c): dynamic requests in idle space of the arena ---- */

#define STW_GUEST 0x80000000u /* in stw_rec.ref: slots and atoms are fewer */

/* 1 + the list of needs of a slot; 0: none. */
static inline uint32_t stwi_list(const stw_slot *s)
{
    return s->flags & STW_SLOT_PLANNED ? 0 : s->list;
}

/* First atom of the best place for `units` of a plan stream, free and not named by the list;
 * *end: one past the last atom it would touch. STW_NO_ENTRY: none. */
uint32_t stwi_guest_find_locked(stw_allocator *a, const stw_stream *s, uint32_t list, uint64_t units, uint32_t *end);
/* The same for a request without a list, by reading the plan: of `entry`, or, where that is STW_NO_ENTRY,
 * of an unknown life. STW_NO_ENTRY also where that would cost more than the requests so far have paid for. */
uint32_t stwi_guest_sweep_locked(stw_allocator *a, const stw_stream *s, uint32_t entry, uint64_t units, uint32_t *end);
/* The atoms that planned requests start to use while a request of `entry` is alive, as stwi_guest_sweep_locked
 * knows its life, or a whole step where it does not; NULL: not known. */
const uint64_t *stwi_guest_needs_locked(stw_allocator *a, uint32_t entry);
#define STW_SWEEP_PART 32u /* the shortest life tried is this part of a step */
#define STW_SWEEP_WORK 64u /* entries that a request pays for */
/* First atom i with bounds[i] >= unit. */
uint32_t stwi_atom_at(const stw_plan *p, uint64_t unit);
/* The same, where bounds[atom] < unit, for an answer that is not far from it. */
uint32_t stwi_atom_after(const stw_plan *p, uint32_t atom, uint64_t unit);

/* The atoms that a live allocation in the arena covers; returns their mask. */
static inline uint64_t stwi_arena_atoms(const stw_allocator *a, const stw_rec *r, uint32_t *begin, uint32_t *end)
{
    if (r->ref & STW_GUEST) {
        *begin = r->ref & ~STW_GUEST;
        *end = stwi_atom_after(&a->plan, *begin, (uint64_t)a->plan.bounds[*begin] + r->units);
        return stwi_mask_of(*begin, *end);
    }
    const stw_slot *slot = &a->slots[r->ref];
    *begin = slot->atom_begin;
    *end = slot->atom_end;
    return slot->atoms;
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
