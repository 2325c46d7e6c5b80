/* replay_driver.h: executes a list of operations on an allocator without leaving C. Test and
 * measuring equipment: not part of the library, and free of Go pointers in memory.
 */
#ifndef STW_REPLAY_DRIVER_H
#define STW_REPLAY_DRIVER_H

#include "stw.h"

#include <assert.h>

/* model.Op, field by field. */
typedef struct {
    int64_t size;    /* ALLOC: bytes; MARK of an iteration: its number */
    uint64_t stream; /* ALLOC; FREE: another stream that used it, too, or 0 */
    uint32_t id;     /* ALLOC, FREE: the request; MARK of a phase: index of its name */
    uint8_t kind;    /* STWD_* */
    uint8_t mark;    /* STW_MARK_* */
    uint8_t zero[2];
} stwd_op;
static_assert(sizeof(stwd_op) == 24, "stwd_op");

enum { STWD_ALLOC = 1, STWD_FREE = 2, STWD_MARK = 3, STWD_SNAPSHOT = 4 };

/* The caller has checked the list: ids below n_ids, allocated once, freed at most once and
 * after that, names in range. */
typedef struct {
    const stwd_op *ops;
    size_t n_ops;
    const char *names;           /* one after another, each ended by a zero byte */
    const uint32_t *name_at;     /* where each begins */
    uint32_t n_ids;
    int canary;                  /* write, and check at free */
    uint64_t seed;               /* of the canaries */
    stw_stats *snapshots;        /* one for each STWD_SNAPSHOT; the first thread fills them */
} stwd_list;

typedef struct {
    uint64_t spent_ns; /* CPU time for the list, of the thread that took most */
    uint64_t faults;   /* blocks whose canary had changed */
} stwd_result;

/* Runs the list on `threads` threads, each its own copy with its own ids. at[t * n_ids + id]
 * receives the address of request id of thread t, 0 where there was none, plus 1 once freed.
 * Returns 0, or -1 where a thread could not be started (the others have run). */
int stwd_run(stw_allocator *a, const stwd_list *list, uint32_t threads, uintptr_t *at,
             uint64_t *bytes, stwd_result *out);

/* Frees what the lists have left, checking canaries first. bytes[], as filled by stwd_run, has
 * the size of every live request; NULL without canaries. Returns the faults found. */
uint64_t stwd_release(stw_allocator *a, const stwd_list *list, uint32_t threads, uintptr_t *at,
                      const uint64_t *bytes);

/* Nanoseconds of CPU time for `pairs` times malloc(64) and free of the C library. */
uint64_t stwd_baseline(uint64_t pairs);

/* The live blocks, in an array from malloc; *n is their number. NULL where there are none or
 * memory ran out (then *n is UINT64_MAX). */
typedef struct {
    uintptr_t at;
    uint64_t size, stream;
    int32_t planned;
    int32_t zero;
} stwd_block;
stwd_block *stwd_walk(stw_allocator *a, uint64_t *n);

#endif
