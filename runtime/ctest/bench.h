/* bench.h: what the files of the bench share (bench.c). */
#ifndef BENCH_H
#define BENCH_H

#include "../stw_internal.h"
#include "check.h"
#include "support.h"

#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 15, MOST = 100000, STEP = 1000, LAPS = 20, WINDOW = 64, BIG_GRANULE = 2 << 20, GRANULE = 64 << 10 };

typedef struct {
    void *(*get)(size_t);
    void (*put)(void *);
    void *live[WINDOW];
} plain;

extern plain glibc, mimalloc;  /* mimalloc.get == NULL: not installed */
extern test_backend memory;
extern size_t sizes[STEP * LAPS * 2]; /* of a row's requests */

typedef struct {
    stw_allocator *a;
    const size_t *sizes;
    size_t n, at, window;
    bool trim; /* the heap, before each round trip */
    void *live[WINDOW];
} load;

/* What a file of the bench prints. */
void plan_rows(void);
void stream_rows(void);
void dynamic_rows(void);
void heap_rows(void);
void thread_rows(void);

double clock_ns(int clock);
double cpu(void); /* ns of this thread */
void group(const char *what);
void row(const char *what, double ns); /* one line of the table; the caller ends it, with counts */
void bare_row(const char *what, double ns);
double share(uint64_t part, uint64_t whole); /* in percent */

typedef void pairs_fn(void *ctx, size_t n);

double median(double *v, size_t n);
/* Median ns of one of n pairs; a first round warms up and says how many fill a round. */
double measure(pairs_fn *pairs, void *ctx);
/* Of the pairs of a load; *s: what was counted meanwhile. What is still held is freed. */
double measure_load(load *l, stw_stats *s);
/* Ends the row of a pair: where that is above 100 ns, with those of a malloc and of a free, in turns of WINDOW of each. */
void apart(double pair, pairs_fn *mallocs, pairs_fn *frees, void *ctx);
void load_apart(double pair, load *l);
/* An allocator with the plan, or without one where b is NULL, over bare addresses. */
stw_allocator *make(builder *b, size_t granule);

#endif
