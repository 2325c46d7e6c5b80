/* test_stress.c: eight threads on one allocator with real memory. Each fills what it gets, all of it, with
 * a seeded pattern in which every word is another one, and looks for it, all of it, before it lets go: one
 * address in two hands is seen, by the pattern or by the thread sanitizer, and so is memory that was
 * given back while somebody used it. Blocks are also freed by other threads than their owner, and one
 * thread trims. The threads interleave as they please; the requests of each are the same in every
 * run. Two plans: one that eight threads at once cannot follow, one in which nearly every order fits.
 */
#include "check.h"
#include "support.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 8, HELD = 200, OPERATIONS = CHECK_SANITIZED ? 2000 : 20000, SHELF = 64,
       USUAL = 16 };

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
    uint32_t streams; /* handles it asks on */
    bool usual;       /* half of its requests have the usual size */
    bool trims;
    pthread_t thread;
} worker;

static uint64_t word(const block *b, size_t i)
{
    return (b->pattern + i) * UINT64_C(0x9e3779b97f4a7c15);
}

static void paint(const block *b)
{
    size_t i = 0;
    for (; i + 8 <= b->bytes; i += 8)
        memcpy(b->p + i, &(uint64_t){word(b, i)}, 8);
    memcpy(b->p + i, &(uint64_t){word(b, i)}, b->bytes - i);
}

static bool intact(const block *b)
{
    size_t i = 0;
    uint64_t differ = 0, v;
    for (; i + 8 <= b->bytes; i += 8) {
        memcpy(&v, b->p + i, 8);
        differ |= v ^ word(b, i);
    }
    return differ == 0 && memcmp(b->p + i, &(uint64_t){word(b, i)}, b->bytes - i) == 0;
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
        size_t units = w->usual && r >> 59 & 1 ? USUAL : r >> 60 ? 1 + (r >> 20) % 20 : 1 + (r >> 20) % 600;
        size_t bytes = units * 512 - (r >> 50) % 512;
        *b = (block){stw_malloc(a, bytes, (r >> 40) % w->streams), bytes, r};
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
        if (w->trims && i % 50 == 0)
            stw_trim(a);
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

/* Overlapping slots on purpose, on three streams: occupancy must sort it out. */
static builder unruly(void)
{
    builder b = {0};
    builder_stream(&b, 0, 0, 4000);
    builder_stream(&b, 1, 4000, 8000);
    builder_stream(&b, 2, 8000, 12000);
    uint64_t seed = 42;
    for (int i = 0; i < 600; i++) {
        uint64_t r = check_random(&seed);
        uint32_t stream = (uint32_t)(r % 3), size = 1 + (uint32_t)(r >> 8) % 20;
        builder_entry(&b, builder_planned(&b, stream, stream * 4000 + (uint32_t)(r >> 32) % 3900, size), 10);
    }
    builder_mark(&b, 0, STW_MARK_ITERATION, 0, NULL);
    return b;
}

/* Planned requests of the usual size and dynamic ones of any, which become guests between them. */
static builder easy(void)
{
    static const uint32_t needs[] = {2, 0, 0, 1, 2000, 10000};
    builder b = {.extra_kind = STW_SECTION_NEEDS, .extra_flags = STW_SECTION_OPTIONAL, .extra_text = needs,
                 .extra_bytes = sizeof needs};
    builder_stream(&b, 0, 0, 64000);
    uint64_t seed = 43;
    for (uint32_t i = 0; i < 4000; i++) {
        uint64_t r = check_random(&seed);
        if (r & 1) {
            uint32_t d = builder_dynamic(&b, 0, 1, 600);
            b.slots[d].aux = (uint16_t)(1 + (r >> 1) % 2);
            builder_entry(&b, d, 10);
        } else {
            builder_entry(&b, builder_planned(&b, 0, (uint32_t)(r >> 32) % (64000 - USUAL), USUAL), 10);
        }
    }
    return b;
}

static void stress(builder *b, bool usual)
{
    size_t n;
    uint8_t *file = builder_finish(b, &n);
    stw_backend backend = stw_backend_host(64 << 10);
    stw_options o = {.heap_bytes = UINT64_C(8) << 30};
    char message[200];
    CHECK_EQ(stw_create(&a, file, n, &o, &backend, message, sizeof message), STW_OK);
    free(file);

    static worker workers[THREADS];
    for (uint64_t i = 0; i < THREADS; i++) {
        workers[i] = (worker){.seed = i + 1, .streams = usual ? 1 : 3, .usual = usual, .trims = i == 0};
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
    CHECK(s.hits > 0 && s.conflicts > 0 && s.trims > 0);
    CHECK(usual ? s.guests > 0 : s.unknown > 0);
    CHECK_EQ(stw_check(a, message, sizeof message), 0);
    printf("%llu requests of %d threads: %llu hits, %llu conflicts, %llu too large, %llu dynamic, %llu unknown, %llu guests, %llu trims\n",
           (unsigned long long)s.requests, THREADS, (unsigned long long)s.hits, (unsigned long long)s.conflicts,
           (unsigned long long)s.too_large, (unsigned long long)s.dynamic, (unsigned long long)s.unknown,
           (unsigned long long)s.guests, (unsigned long long)s.trims);
    stw_destroy(a);
}

int main(void)
{
    builder b = unruly();
    stress(&b, false);
    b = easy();
    stress(&b, true);
    return check_end("test_stress");
}
