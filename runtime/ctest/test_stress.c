/* test_stress.c: eight threads on one allocator with real memory. Each writes a pattern of its own
 * into what it gets and looks for it before it lets go, so one address in two hands is seen, by the
 * pattern or by the thread sanitizer. Blocks are also freed by other threads than their owner. The
 * threads interleave as they please; the requests of each are the same in every run.
 */
#include "check.h"
#include "support.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 8, HELD = 200, OPERATIONS = CHECK_SANITIZED ? 4000 : 60000, SHELF = 64 };

typedef struct {
    unsigned char *p;
    size_t bytes;
    uint64_t pattern;
} block;

static stw_allocator *a;
static pthread_mutex_t shelf_lock = PTHREAD_MUTEX_INITIALIZER;
static block shelf[SHELF]; /* blocks on their way to another thread */

typedef struct {
    uint64_t seed;
    unsigned long wrong, empty;
    pthread_t thread;
} worker;

static void paint(const block *b)
{
    for (size_t i = 0; i + 8 <= b->bytes; i += i + 512 < b->bytes ? 256 : 8) /* a few spots, and all of the tail */
        memcpy(b->p + i, &b->pattern, 8);
}

static bool intact(const block *b)
{
    uint64_t v;
    for (size_t i = 0; i + 8 <= b->bytes; i += i + 512 < b->bytes ? 256 : 8) {
        memcpy(&v, b->p + i, 8);
        if (v != b->pattern)
            return false;
    }
    return true;
}

static void let_go(worker *w, block *b)
{
    if (!b->p)
        return;
    w->wrong += !intact(b);
    w->wrong += stw_free(a, b->p) != 0;
    b->p = NULL;
}

static void *work(void *arg)
{
    worker *w = arg;
    uint64_t seed = w->seed;
    block *held = calloc(HELD, sizeof *held);
    for (int i = 0; held && i < OPERATIONS; i++) {
        uint64_t r = check_random(&seed);
        block *b = &held[r % HELD];
        let_go(w, b);
        size_t units = r >> 60 ? 1 + (r >> 20) % 20 : 1 + (r >> 20) % 3000;
        *b = (block){stw_malloc(a, units * 512, (r >> 40) % 3), units * 512, r};
        if (b->p)
            paint(b);
        else
            w->empty++;
        if (i % 16 == 0) { /* put one on the shelf, take what lay there */
            pthread_mutex_lock(&shelf_lock);
            block other = shelf[(r >> 44) % SHELF];
            shelf[(r >> 44) % SHELF] = *b;
            pthread_mutex_unlock(&shelf_lock);
            *b = other;
        }
        if (i % 1000 == 0) {
            stw_mark(a, STW_MARK_ITERATION, i, NULL);
            w->wrong += stw_check(a, NULL, 0) != 0;
        }
    }
    for (int i = 0; held && i < HELD; i++)
        let_go(w, &held[i]);
    free(held);
    return NULL;
}

int main(void)
{
    builder b = {0};
    builder_stream(&b, 0, 0, 4000);
    builder_stream(&b, 1, 4000, 8000);
    builder_stream(&b, 2, 8000, 12000);
    uint64_t seed = 42;
    for (int i = 0; i < 600; i++) { /* overlapping slots on purpose: occupancy must sort it out */
        uint64_t r = check_random(&seed);
        uint32_t stream = (uint32_t)(r % 3), size = 1 + (uint32_t)(r >> 8) % 20;
        builder_entry(&b, builder_planned(&b, stream, stream * 4000 + (uint32_t)(r >> 32) % 3900, size), 10);
    }
    builder_mark(&b, 0, STW_MARK_ITERATION, 0, NULL);
    size_t n;
    uint8_t *file = builder_finish(&b, &n);
    stw_backend backend = stw_backend_host(0);
    stw_options o = {.heap_bytes = UINT64_C(8) << 30};
    char message[200];
    CHECK_EQ(stw_create(&a, file, n, &o, &backend, message, sizeof message), STW_OK);
    free(file);

    static worker workers[THREADS];
    for (uint64_t i = 0; i < THREADS; i++) {
        workers[i].seed = i + 1;
        CHECK_EQ(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_join(workers[i].thread, NULL), 0);
        CHECK_EQ(workers[i].wrong, 0);
        CHECK_EQ(workers[i].empty, 0);
    }
    worker last = {0};
    for (int i = 0; i < SHELF; i++)
        let_go(&last, &shelf[i]);
    CHECK_EQ(last.wrong, 0);

    stw_stats s;
    stw_get_stats(a, &s);
    CHECK_EQ(s.requests, (uint64_t)THREADS * OPERATIONS);
    CHECK_EQ(s.frees, s.requests);
    CHECK_EQ(s.live_bytes, 0);
    CHECK(s.hits > 0 && s.conflicts > 0 && s.unknown > 0);
    CHECK_EQ(stw_check(a, message, sizeof message), 0);
    printf("%llu requests of %d threads: %llu hits, %llu conflicts, %llu too large, %llu unknown\n",
           (unsigned long long)s.requests, THREADS, (unsigned long long)s.hits, (unsigned long long)s.conflicts,
           (unsigned long long)s.too_large, (unsigned long long)s.unknown);
    stw_destroy(a);
    return check_end("test_stress");
}
