/* stw_heap.h: address space that is committed by granules (stw_pages.c, stw_memory.c), and the heaps in it (stw_heap.c). Not installed. */
#ifndef STW_HEAP_H
#define STW_HEAP_H

#include "stw.h"
#include "stw_lowest.h"

#include <stdbool.h>

#pragma GCC visibility push(hidden)

#define STW_UNIT_SHIFT 9
#define STW_MAX_RANGE (UINT64_C(1) << 41) /* bytes of one arena or heap: units fit 32 bits */

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

bool stwi_space_open(const stw_allocator *a, stw_space *p, uint64_t bytes); /* false: no memory, p is empty */
void stwi_space_close(stw_allocator *a, stw_space *p);
/* Gives back what is committed of the granules [from, to), the highest first, at most so many; returns how many. */
uint64_t stwi_space_give_locked(stw_allocator *a, stw_space *p, uint64_t from, uint64_t to, uint64_t most);
const char *stwi_space_check(const stw_allocator *a, const stw_space *p);
uint64_t stwi_space_missing(const stw_space *p, stw_granules r); /* granules of r that are not committed */
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
/* Gives back every granule on which nothing lives: of arena and heaps, or of heaps. Returns the bytes. */
uint64_t stwi_trim_locked(stw_allocator *a);
uint64_t stwi_trim_heaps_locked(stw_allocator *a);
/* Commits what [start, start + units) of p touches, which has failed, by giving back what else is idle. False: there is not enough of it. */
bool stwi_make_room_locked(stw_allocator *a, stw_space *p, uint64_t start, uint64_t units);
#define STW_ROOM_PART 16u /* beside what is missing, that part of what is held is given back then */
/* Before the granules r of p are committed, `more` bytes of them new: gives back of what is idle elsewhere, if it would
 * be more than ever before. */
void stwi_move_locked(stw_allocator *a, const stw_space *p, stw_granules r, uint64_t more);
void stwi_lap_locked(stw_allocator *a); /* the plan's last entry is asked for: more may be moved, and the plan may come back */
#define STW_MOVE_ARENAS 4u /* arenas' worth that may be moved at all */
#define STW_MOVE_LAP 128u  /* and that part of one more with each step of the plan */
#define STW_ASIDE_OFF 256u /* the plan is set aside only where of 257 requests more than one is not where it says */
#define STW_ASIDE_PART 16u /* and of 16 more than one, or that part of what is needed, and a granule, would be reserved beside it; a lap counts for it again in which all but that part would be */
#define STW_MOVE_RISE 24u  /* the total rises by up to that part of what is needed, as the last half of what may be moved is used up */
#define STW_SPARE_WORK 8192u /* entries to come that are read for each granule that the arena gives back, at most all */
#define STW_MOVE_PARTS 256u /* in which that is measured */

/* ---- the heap (stw_heap.c) ---- */

#define STW_SMALL_UNITS STW_LOWEST_MIN /* of smaller free blocks the one freed last is taken first */
#define STW_LARGE_UNITS STW_LOWEST_END /* below, there is a bin for each size */
#define STW_OCTAVE (STW_LARGE_UNITS / 2) /* bins for every power of two from there on */
#define STW_BINS (20 * STW_OCTAVE)     /* all sizes of 32 bits */

/* A piece of a heap's range, free or used. Block 0 is nobody. */
typedef struct {
    uint32_t start, units;
    uint32_t prev, next;  /* neighbours in address order; next also chains unused records */
    uint32_t side[2];     /* free: previous and next in its list, or what is below and above it in its tree */
    uint32_t up;          /* free, in a tree: what it is a side of; 0: the root; by address: not 0 where it is in h->lowest, alone it need not be */
    uint32_t used;        /* 0: in a bin */
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
    stw_lowest lowest;             /* free blocks from STW_SMALL_UNITS to STW_LARGE_UNITS, but those that are alone in their bin */
    uint64_t groups;               /* bit g: words[g] is not 0 */
    uint64_t words[STW_BINS / 64 / 64]; /* a bit for each of bins: it is not 0 */
    uint64_t bins[STW_BINS / 64];  /* a bit for each of first: it is not 0 */
    uint32_t first[STW_BINS];      /* a bin's free blocks: the first of a list, the lowest, the root of a tree; 0: none */
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

#pragma GCC visibility pop
#endif
