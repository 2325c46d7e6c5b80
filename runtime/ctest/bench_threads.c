/* bench_threads.c: several threads on one allocator. */
#define _GNU_SOURCE
#include "bench.h"

#include <pthread.h>
#include <time.h>

enum { THREADS = 4 };

typedef struct {
    stw_allocator *a; /* NULL: `other` */
    const plain *other;
    uint64_t stream;
    pthread_t thread;
    pthread_barrier_t *start; /* NULL: at once */
    size_t pairs;
    double ns; /* of its CPU time */
} worker;

static void *work(void *arg)
{
    worker *w = arg;
    if (w->start)
        pthread_barrier_wait(w->start);
    double t = cpu();
    for (size_t i = 0; i < w->pairs; i++) {
        void *volatile p = w->a ? stw_malloc(w->a, 4096, w->stream) : w->other->get(64);
        if (w->a)
            stw_free(w->a, p);
        else
            w->other->put(p);
    }
    w->ns = cpu() - t;
    return NULL;
}

/* What any allocator with one lock costs. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void *locked_malloc(size_t bytes)
{
    pthread_mutex_lock(&mutex);
    void *p = malloc(bytes);
    pthread_mutex_unlock(&mutex);
    return p;
}

static void locked_free(void *p)
{
    pthread_mutex_lock(&mutex);
    free(p);
    pthread_mutex_unlock(&mutex);
}

/* n threads at once on one allocator: on a stream each, or all on one. CPU time of a pair, and how
 * long it took on the clock, all threads together. */
static void threads_row(const char *what, stw_allocator *a, const plain *other, size_t n, bool apart)
{
    enum { RUNS = 9, PAIRS = 4 * MOST };
    double runs[RUNS], wall[RUNS];
    for (int r = 0; r < RUNS; r++) {
        worker w[THREADS];
        pthread_barrier_t start;
        pthread_barrier_init(&start, NULL, (unsigned)n);
        double t = clock_ns(CLOCK_MONOTONIC);
        for (size_t i = 0; i < n; i++) {
            w[i] = (worker){a, other, apart ? i : 0, 0, &start, PAIRS / n, 0};
            if (pthread_create(&w[i].thread, NULL, work, &w[i]) != 0)
                exit(1);
        }
        runs[r] = 0;
        for (size_t i = 0; i < n; i++) {
            pthread_join(w[i].thread, NULL);
            runs[r] += w[i].ns / PAIRS;
        }
        pthread_barrier_destroy(&start);
        wall[r] = (clock_ns(CLOCK_MONOTONIC) - t) / PAIRS;
    }
    row(what, median(runs, RUNS));
    printf("%.1f to %.1f; on the clock %.1f\n", runs[0], runs[RUNS - 1], median(wall, RUNS));
}

/* Main and another thread in turns of 10,000 pairs, as forward and backward passes are. */
static double turns(stw_allocator *a)
{
    enum { RUNS = 5, TURNS = 20, TURN = 10000 };
    double runs[RUNS];
    for (int r = 0; r < RUNS; r++) {
        runs[r] = 0;
        for (int i = 0; i < TURNS; i++) {
            worker w = {a, NULL, 0, 0, NULL, TURN, 0};
            if (i % 2)
                work(&w);
            else if (pthread_create(&w.thread, NULL, work, &w) == 0)
                pthread_join(w.thread, NULL);
            runs[r] += w.ns / (TURNS * TURN);
        }
    }
    return median(runs, RUNS);
}

void thread_rows(void)
{
    stw_allocator *a = make(NULL, BIG_GRANULE);
    group("threads on one allocator; 4,096 bytes, others 64");
    threads_row("glibc, 1 thread beside the main one", NULL, &glibc, 1, false);
    threads_row("heap, 1 thread beside the main one", a, NULL, 1, false);
    bare_row("heap, 2 threads in turns of 10,000 pairs", turns(a));
    threads_row("glibc, 4 threads", NULL, &glibc, THREADS, false);
    if (mimalloc.get)
        threads_row("mimalloc, 4 threads", NULL, &mimalloc, THREADS, false);
    threads_row("glibc under one mutex, 4 threads", NULL, &(plain){.get = locked_malloc, .put = locked_free}, THREADS, false);
    threads_row("heap, 4 threads, a stream each", a, NULL, THREADS, true);
    threads_row("heap, 4 threads, one stream", a, NULL, THREADS, false);
    stw_destroy(a);
}
