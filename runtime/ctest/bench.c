/* bench.c: the price of a malloc + free pair, beside glibc's malloc + free of 64 bytes in the same
 * run. Every number is the least of many short rounds: what the code costs when nobody disturbs it.
 * Times say something about one machine; the ratios and the growth with holes are what to look at.
 */
#define _DEFAULT_SOURCE
#include "check.h"
#include "support.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUNDS = 25, PAIRS = 50000, STEP = 1000, WINDOW = 64 };

static test_backend memory;
static void *volatile sink;
static double baseline;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void row(const char *what, double ns)
{
    printf("  %-52s %8.1f ns  %6.2f x\n", what, ns, ns / baseline);
}

static stw_allocator *make(builder *b)
{
    char message[300];
    size_t n = 0;
    uint8_t *file = b ? builder_finish(b, &n) : NULL;
    stw_backend backend = test_backend_make(&memory, true, 2 << 20);
    stw_options o = {.heap_bytes = UINT64_C(64) << 30};
    stw_allocator *a;
    if (stw_create(&a, file, n, &o, &backend, message, sizeof message) != STW_OK) {
        puts(message);
        exit(1);
    }
    free(file);
    return a;
}

static double glibc_pair(void)
{
    double best = 1e18;
    for (int r = 0; r < ROUNDS; r++) {
        double t = now();
        for (int i = 0; i < PAIRS; i++) {
            sink = malloc(64);
            free(sink);
        }
        t = (now() - t) / PAIRS;
        best = t < best ? t : best;
    }
    return best;
}

static double glibc_window(void)
{
    void *live[WINDOW] = {0};
    double best = 1e18;
    for (int r = 0; r < ROUNDS; r++) {
        double t = now();
        for (int i = 0; i < PAIRS; i++) {
            free(live[i % WINDOW]);
            live[i % WINDOW] = malloc(64);
        }
        t = (now() - t) / PAIRS;
        best = t < best ? t : best;
    }
    for (int i = 0; i < WINDOW; i++)
        free(live[i]);
    return best;
}

/* Pairs in sync with the plan of `holes_plan` or without a plan; window: freed that many requests later. */
static double pairs(stw_allocator *a, const size_t *sizes, size_t n, size_t window)
{
    static void *live[WINDOW];
    double best = 1e18;
    size_t at = 0;
    memset(live, 0, sizeof live);
    for (int r = 0; r < ROUNDS; r++) {
        double t = now();
        if (window == 1)
            for (int i = 0; i < PAIRS; i++) {
                sink = stw_malloc(a, sizes[at], 0);
                stw_free(a, sink);
                at = at + 1 == n ? 0 : at + 1;
            }
        else
            for (size_t i = 0; i < PAIRS; i++) {
                stw_free(a, live[i % window]);
                live[i % window] = stw_malloc(a, sizes[at], 0);
                at = at + 1 == n ? 0 : at + 1;
            }
        t = (now() - t) / PAIRS;
        best = t < best ? t : best;
    }
    for (size_t i = 0; window > 1 && i < window; i++)
        stw_free(a, live[i]);
    return best;
}

static size_t sizes[STEP];

/* An arena with `holes` one-unit holes between live blocks, made by the prologue, and a step of
 * STEP entries: every other goes into a hole, the others above them. */
static stw_allocator *holes_plan(uint32_t holes)
{
    builder b = {0};
    builder_stream(&b, 0, 0, 2 * holes + WINDOW * 40 + 2);
    uint32_t i;
    for (i = 0; i < 2 * holes; i++)
        builder_entry(&b, builder_planned(&b, 0, i, 1), STW_ENTRY_LIFE_MAX);
    b.loop_start = 2 * holes;
    for (i = 0; i < STEP; i++) {
        bool in_hole = i % 2 && i / 2 % WINDOW < holes;
        uint32_t units = in_hole ? 1 : 8 + i % 33;
        uint32_t offset = in_hole ? 2 * (uint32_t)((uint64_t)(i / 2 % WINDOW) * holes / WINDOW) + 1 : 2 * holes + i % WINDOW * 40;
        builder_entry(&b, builder_planned(&b, 0, offset, units), 1);
        sizes[i] = units * 512;
    }
    stw_allocator *a = make(&b);
    void **live = calloc(2 * holes + 1, sizeof *live);
    for (i = 0; live && i < 2 * holes; i++)
        live[i] = stw_malloc(a, 512, 0);
    for (i = 1; live && i < 2 * holes; i += 2)
        stw_free(a, live[i]);
    free(live);
    return a;
}

/* A heap with `holes` holes of 1 to 4096 units between live blocks. */
static stw_allocator *holes_heap(uint32_t holes)
{
    stw_allocator *a = make(NULL);
    uint64_t seed = 1;
    void **live = calloc(2 * holes, sizeof *live);
    for (uint32_t i = 0; live && i < 2 * holes; i++)
        live[i] = stw_malloc(a, i % 2 ? (1 + check_random(&seed) % 4096) * 512 : 512, 0);
    for (uint32_t i = 1; live && i < 2 * holes; i += 2)
        stw_free(a, live[i]);
    free(live);
    return a;
}

static void holes_table(void)
{
    static const uint32_t holes[] = {10, 1000, 100000};
    char what[100];
    double plan[3], heap[3];
    stw_stats s;
    for (int i = 0; i < 3; i++) {
        stw_allocator *a = holes_plan(holes[i]);
        plan[i] = pairs(a, sizes, STEP, 1);
        snprintf(what, sizeof what, "planned, in sync, %u holes", holes[i]);
        row(what, plan[i]);
        stw_get_stats(a, &s);
        if (s.hits != s.requests || s.slow != 0)
            puts("  BUG: not in sync");
        stw_destroy(a);
    }
    for (int i = 0; i < 3; i++) {
        stw_allocator *a = holes_heap(holes[i]);
        uint64_t seed = 2;
        for (int k = 0; k < STEP; k++)
            sizes[k] = (1 + check_random(&seed) % (k % 2 ? 40 : 5000)) * 512;
        heap[i] = pairs(a, sizes, STEP, 1);
        snprintf(what, sizeof what, "heap alone, mixed sizes, %u holes", holes[i]);
        row(what, heap[i]);
        stw_destroy(a);
    }
    printf("  growth from 10 to 100,000 holes: planned %.2f x, heap %.2f x\n", plan[2] / plan[0], heap[2] / heap[0]);
}

/* One request too many at the start of each step: what the matcher's slow path costs. */
static void slow_row(void)
{
    stw_allocator *a = holes_plan(10);
    stw_stats s0, s1;
    double best = 1e18;
    stw_get_stats(a, &s0);
    for (int r = 0; r < ROUNDS; r++) {
        double t = now();
        for (int step = 0; step < 10; step++) {
            stw_free(a, stw_malloc(a, 999 * 512, 0));
            for (int i = 0; i < STEP; i++)
                stw_free(a, stw_malloc(a, sizes[i], 0));
        }
        t = (now() - t) / (10 * (STEP + 1));
        best = t < best ? t : best;
    }
    stw_get_stats(a, &s1);
    row("planned, one extra request in 1,000", best);
    printf("  (of those %.1f %% hits, %.1f %% by the slow path)\n",
           100 * (double)(s1.hits - s0.hits) / (double)(s1.requests - s0.requests),
           100 * (double)(s1.slow - s0.slow) / (double)(s1.requests - s0.requests));
    stw_destroy(a);
}

typedef struct {
    stw_allocator *a; /* NULL: glibc */
    uint64_t stream;
    pthread_t thread;
    int pairs;
} worker;

static void *work(void *arg)
{
    const worker *w = arg;
    for (int i = 0; i < w->pairs; i++) {
        void *volatile p = w->a ? stw_malloc(w->a, 4096, w->stream) : malloc(64);
        if (w->a)
            stw_free(w->a, p);
        else
            free(p);
    }
    return NULL;
}

/* ns for a pair of one thread while n of them work, streams apart. */
static double threads(stw_allocator *a, int n)
{
    double best = 1e18;
    for (int r = 0; r < 3; r++) {
        worker w[4];
        double t = now();
        for (int i = 0; i < n; i++) {
            w[i] = (worker){a, (uint64_t)i, 0, 20 * PAIRS};
            pthread_create(&w[i].thread, NULL, work, &w[i]);
        }
        for (int i = 0; i < n; i++)
            pthread_join(w[i].thread, NULL);
        t = (now() - t) / (20 * PAIRS) / n;
        best = t < best ? t : best;
    }
    return best;
}

/* Main and another thread in turns of 10,000 pairs, as forward and backward passes are. */
static double turns(stw_allocator *a)
{
    enum { TURNS = 40, TURN = 10000 };
    double best = 1e18;
    for (int r = 0; r < 5; r++) {
        double t = now();
        for (int i = 0; i < TURNS; i++) {
            worker w = {a, 0, 0, TURN};
            if (i % 2)
                work(&w);
            else if (pthread_create(&w.thread, NULL, work, &w) == 0)
                pthread_join(w.thread, NULL);
        }
        t = (now() - t) / (TURNS * TURN);
        best = t < best ? t : best;
    }
    return best;
}

int main(void)
{
    baseline = glibc_pair();
    printf("malloc + free, least of %d rounds of %d pairs\n", ROUNDS, PAIRS);
    row("glibc, 64 bytes", baseline);
    row("glibc, 64 bytes, freed 64 requests later", glibc_window());
    stw_allocator *a = holes_plan(0);
    row("planned, in sync", pairs(a, sizes, STEP, 1));
    stw_destroy(a);
    a = holes_plan(0);
    row("planned, in sync, freed 40 requests later", pairs(a, sizes, STEP, 40));
    stw_stats s;
    stw_get_stats(a, &s);
    if (s.hits != s.requests)
        puts("  BUG: not in sync");
    stw_destroy(a);
    a = make(NULL);
    const size_t one = 64;
    row("heap alone, 64 bytes", pairs(a, &one, 1, 1));
    row("heap alone, 64 bytes, freed 64 requests later", pairs(a, &one, 1, WINDOW));
    stw_destroy(a);
    holes_table();
    slow_row();
    a = make(NULL);
    row("glibc, 1 thread beside the main one", threads(NULL, 1));
    row("heap, 1 thread beside the main one", threads(a, 1));
    row("heap, 2 threads in turns of 10,000 pairs", turns(a));
    row("glibc, 4 threads, per pair overall", threads(NULL, 4));
    row("heap, 4 threads, per pair overall", threads(a, 4));
    stw_destroy(a);
    return 0;
}
