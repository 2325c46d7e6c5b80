/* test_api.c: what a caller can see. The scenarios of planned addresses that collide with reality
 * (late frees, extra, missing and resized requests), misuse, exhaustion, marks, streams, a backend
 * that fails at every call there is, and fork.
 */
#define _DEFAULT_SOURCE
#include "check.h"
#include "support.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static test_backend memory;
static char message[300];

static stw_allocator *make(builder *b, const stw_options *options)
{
    stw_backend backend = test_backend_make(&memory, true, 0);
    stw_allocator *a = NULL;
    size_t n = 0;
    uint8_t *file = b ? builder_finish(b, &n) : NULL;
    if (!CHECK_EQ(stw_create(&a, file, n, options, &backend, message, sizeof message), STW_OK)) {
        printf("  %s\n", message);
        exit(check_end("test_api"));
    }
    free(file);
    return a;
}

static stw_stats stats(stw_allocator *a)
{
    stw_stats s;
    if (!CHECK_EQ(stw_check(a, message, sizeof message), 0))
        printf("  %s\n", message);
    stw_get_stats(a, &s);
    return s;
}

static void end(stw_allocator *a)
{
    stats(a);
    stw_destroy(a);
    CHECK_EQ(memory.reserved, 0);
    CHECK_EQ(memory.committed, 0);
}

static int64_t place(stw_allocator *a, const void *p) /* in units; of the arena where below its end */
{
    return ((int64_t)(uintptr_t)p - (int64_t)(uintptr_t)stw_arena(a)) / 512;
}

static void *get(stw_allocator *a, size_t units)
{
    return stw_malloc(a, units * 512, 0);
}

/* Two entries that share an address, because the first should be dead by then. */
static void test_late_free(void)
{
    builder b = {0};
    builder_stream(&b, 0, 0, 10);
    builder_entry(&b, builder_planned(&b, 0, 0, 10), 1);
    builder_entry(&b, builder_planned(&b, 0, 0, 10), 1);
    stw_allocator *a = make(&b, NULL);
    char *p = get(a, 10), *q = get(a, 10); /* p is still alive */
    CHECK_EQ(place(a, p), 0);
    CHECK(q != NULL && (q + 5120 <= p || q >= p + 5120));
    stw_stats s = stats(a);
    CHECK_EQ(s.hits, 1);
    CHECK_EQ(s.conflicts, 1);
    CHECK_EQ(s.static_fallback_bytes, 5120);
    CHECK_EQ(stw_free(a, p), 0);
    CHECK_EQ(place(a, get(a, 10)), 0); /* next pass: the slot is free again */
    CHECK(get(a, 10) != NULL);
    s = stats(a);
    CHECK_EQ(s.hits, 2);
    CHECK_EQ(s.conflicts, 2);
    end(a); /* with three alive: nothing else to say */
}

/* A step of `n` entries of distinct sizes, each at its own place, all freed at the end of the step. */
static builder ladder(uint32_t n)
{
    builder b = {0};
    builder_stream(&b, 0, 0, n * (n + 1) / 2 + n * 20);
    for (uint32_t i = 0, at = 0; i < n; at += 20 + i, i++)
        builder_entry(&b, builder_planned(&b, 0, at, 20 + i), n - i);
    return b;
}

enum { STEP = 100 };

/* One pass over the ladder, with a request of `extra` bytes before entry k (k < STEP), leaving
 * entry `missing` out, and entries `swapped`, swapped + 1 in the other order. Returns the hits. */
static uint64_t pass(stw_allocator *a, size_t extra, int k, int missing, int swapped)
{
    void *live[STEP];
    stw_stats before = stats(a);
    for (int i = 0; i < STEP; i++) {
        int e = i == swapped ? i + 1 : i == swapped + 1 && swapped >= 0 ? i - 1 : i;
        if (i == k && extra)
            CHECK_EQ(stw_free(a, stw_malloc(a, extra, 0)), 0);
        live[i] = e == missing ? NULL : get(a, (size_t)(20 + e));
    }
    for (int i = 0; i < STEP; i++)
        CHECK_EQ(stw_free(a, live[i]), 0);
    return stats(a).hits - before.hits;
}

static void test_divergence(void)
{
    builder b = ladder(STEP);
    stw_allocator *a = make(&b, NULL);
    CHECK_EQ(pass(a, 0, 0, -1, -9), STEP);
    CHECK_EQ(pass(a, 4, 40, -1, -9), STEP);          /* one extra costs only itself */
    CHECK_EQ(pass(a, 64 << 20, 41, -1, -9), STEP);   /* of whatever size */
    /* One missing or two swapped cost one request more: the one in doubt is first taken for the
     * expected entry with another size. */
    CHECK_EQ(pass(a, 0, 0, 30, -9), STEP - 2);
    CHECK_EQ(pass(a, 0, 0, 0, -9), STEP - 2); /* at the seam */
    CHECK_EQ(pass(a, 0, 0, STEP - 1, -9), STEP - 1);
    CHECK_EQ(pass(a, 0, 0, -1, 50), STEP - 2);
    CHECK_EQ(pass(a, 0, 0, -1, -9), STEP); /* and then all is well again */
    stw_stats s = stats(a);
    CHECK_EQ(s.restarts, 0);
    CHECK(s.slow > 0);
    end(a);
}

/* A step as planned, then 0.67 of every size, then 1.5, then as planned. */
static void test_resized(void)
{
    builder b = ladder(STEP);
    stw_allocator *a = make(&b, NULL);
    static const struct {
        size_t numerator, denominator;
        uint64_t hits_least, hits_most;
    } passes[] = {{1, 1, STEP, STEP}, {2, 3, 1, STEP}, {3, 2, 0, STEP - 1}, {1, 1, 0, STEP}, {1, 1, STEP, STEP}};
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) {
        uint64_t hits = stats(a).hits;
        void *live[STEP];
        stw_mark(a, STW_MARK_ITERATION, (int64_t)i, NULL); /* no such mark: nothing */
        for (size_t e = 0; e < STEP; e++) {
            live[e] = stw_malloc(a, (20 + e) * 512 * passes[i].numerator / passes[i].denominator, 0);
            CHECK(live[e] != NULL);
        }
        hits = stats(a).hits - hits;
        CHECK(hits >= passes[i].hits_least && hits <= passes[i].hits_most);
        for (size_t e = 0; e < STEP; e++)
            CHECK_EQ(stw_free(a, live[e]), 0);
    }
    end(a);

    builder one = {0}; /* smaller sits in the slot; larger never does */
    builder_stream(&one, 0, 0, 8);
    for (int i = 0; i < 4; i++)
        builder_entry(&one, builder_planned(&one, 0, 0, 8), 1);
    a = make(&one, NULL);
    void *p = get(a, 5);
    CHECK_EQ(place(a, p), 0);
    CHECK_EQ(stats(a).live_bytes, 5 * 512);
    stw_free(a, p);
    p = get(a, 9);
    CHECK(place(a, p) >= 8 || place(a, p) < 0);
    CHECK_EQ(stats(a).too_large, 1);
    CHECK_EQ(stats(a).static_fallback_bytes, 9 * 512);
    stw_free(a, p);
    end(a);
}

static void test_misuse(void)
{
    builder b = ladder(4);
    stw_allocator *a = make(&b, NULL);
    CHECK(stw_malloc(a, 0, 0) == NULL);
    CHECK(stw_malloc(a, SIZE_MAX, 0) == NULL);
    CHECK(stw_malloc(a, ((size_t)1 << 60) + 1, 0) == NULL);
    CHECK(stw_malloc(a, (size_t)1 << 60, 5) == NULL); /* not absurd, only too much */
    CHECK_EQ(stw_free(a, NULL), 0);
    int stranger;
    CHECK_EQ(stw_free(a, &stranger), -1);
    char *p = get(a, 20), *q = stw_malloc(a, 100, 5);
    CHECK_EQ(place(a, p), 0); /* nothing above has moved the position */
    CHECK_EQ(stw_free(a, p + 512), -1);
    CHECK_EQ(stw_free(a, p), 0);
    CHECK_EQ(stw_free(a, p), -1);
    CHECK_EQ(stw_free(a, q), 0);
    CHECK_EQ(stw_free(a, q), -1);
    stw_mark(a, 99, 0, "x");
    stw_mark(a, STW_MARK_PHASE, 0, NULL);
    stw_stats s = stats(a);
    CHECK_EQ(s.zero_size, 1);
    CHECK_EQ(s.failed, 3);
    CHECK_EQ(s.bad_free, 4);
    CHECK_EQ(s.frees, 2);
    CHECK_EQ(s.requests, 6);
    CHECK_EQ(s.live_bytes, 0);
    end(a);

    CHECK(stw_malloc(NULL, 1, 0) == NULL);
    CHECK_EQ(stw_free(NULL, &stranger), -1);
    CHECK(stw_arena(NULL) == NULL);
    stw_mark(NULL, 1, 0, NULL);
    stw_get_stats(NULL, &s);
    stw_walk(NULL, NULL, NULL);
    stw_destroy(NULL);
    CHECK(stw_check(NULL, message, sizeof message) != 0);
    for (int i = -1; i < 6; i++)
        CHECK(strlen(stw_status_string((stw_status)i)) > 1);
    CHECK(strchr(stw_version(), '.') != NULL);
}

static void test_create_arguments(void)
{
    stw_backend good = test_backend_make(&memory, true, 0), bad = good;
    stw_allocator *a = (stw_allocator *)&memory;
    stw_options o = {0};
    CHECK_EQ(stw_create(NULL, NULL, 0, NULL, &good, message, sizeof message), STW_E_ARG);
    CHECK_EQ(stw_create(&a, NULL, 0, NULL, NULL, message, sizeof message), STW_E_ARG);
    CHECK(a == NULL && strstr(message, "backend") != NULL);
    CHECK_EQ(stw_create(&a, NULL, 5, NULL, &good, NULL, 0), STW_E_ARG);
    CHECK_EQ(stw_create(&a, "", 0, NULL, &good, NULL, 0), STW_E_ARG);
    bad.granularity = 768;
    CHECK_EQ(stw_create(&a, NULL, 0, NULL, &bad, message, sizeof message), STW_E_ARG);
    CHECK(strstr(message, "granularity") != NULL);
    bad.granularity = 256;
    CHECK_EQ(stw_create(&a, NULL, 0, NULL, &bad, message, 3), STW_E_ARG);
    CHECK_EQ(strlen(message), 2);
    bad = good;
    bad.release = NULL;
    CHECK_EQ(stw_create(&a, NULL, 0, NULL, &bad, NULL, 0), STW_E_ARG);
    o.heap_bytes = UINT64_C(1) << 41;
    CHECK_EQ(stw_create(&a, NULL, 0, &o, &good, message, sizeof message), STW_E_ARG);
    CHECK(strstr(message, "heap_bytes") != NULL);

    builder b = ladder(4);
    size_t n;
    uint8_t *file = builder_finish(&b, &n);
    o = (stw_options){.capacity_bytes = 8192};
    CHECK_EQ(stw_create(&a, file, n, &o, &good, message, sizeof message), STW_E_MEMORY);
    CHECK(strstr(message, "capacity") != NULL);
    free(file);
}

static void test_exhaustion(void)
{
    stw_options o = {.capacity_bytes = 1 << 20};
    stw_allocator *a = make(NULL, &o);
    CHECK(stw_arena(a) == NULL);
    void *p = stw_malloc(a, 600 << 10, 0);
    CHECK(p != NULL);
    CHECK(stw_malloc(a, 600 << 10, 0) == NULL);
    CHECK(stw_malloc(a, 600 << 10, 1) == NULL); /* another stream's heap: same capacity */
    CHECK(stw_malloc(a, 400 << 10, 1) != NULL);
    CHECK_EQ(stats(a).failed, 2);
    CHECK_EQ(stw_free(a, p), 0);
    CHECK(stw_malloc(a, 600 << 10, 0) == p); /* it works again */
    CHECK(stw_malloc(a, 25 << 10, 0) == NULL);
    CHECK(stw_malloc(a, 24 << 10, 0) != NULL);
    CHECK_EQ(stats(a).reserved_bytes, 1 << 20);
    CHECK_EQ(stats(a).peak_reserved_bytes, 1 << 20);
    end(a);

    o = (stw_options){.heap_bytes = 10000}; /* rounded to 12288; the end of the address space */
    a = make(NULL, &o);
    CHECK(get(a, 25) == NULL);
    p = get(a, 24);
    CHECK(p != NULL);
    CHECK(get(a, 1) == NULL);
    CHECK_EQ(stw_free(a, p), 0);
    end(a);
}

typedef struct {
    size_t bytes, n, planned;
    uint64_t streams;
} seen;

static void see(void *ctx, void *p, size_t size, uint64_t stream, int planned)
{
    seen *s = ctx;
    s->bytes += size;
    s->n += p != NULL;
    s->planned += planned == 1;
    s->streams |= stream;
}

static void test_walk(void)
{
    builder b = ladder(4);
    stw_allocator *a = make(&b, NULL);
    seen s = {0};
    stw_walk(a, see, &s);
    CHECK_EQ(s.n, 0);
    get(a, 20);
    get(a, 21);
    stw_malloc(a, 1, 4);
    stw_malloc(a, 513, 8);
    stw_walk(a, see, &s);
    CHECK_EQ(s.n, 4);
    CHECK_EQ(s.planned, 2);
    CHECK_EQ(s.streams, 12);
    CHECK_EQ(s.bytes, 44 * 512);
    CHECK_EQ(s.bytes, stats(a).live_bytes);
    end(a);
}

/* A prologue of two entries, then a loop of three; one allocation crosses the seam. */
static void test_wrap(void)
{
    builder b = {0};
    builder_stream(&b, 0, 0, 100);
    builder_entry(&b, builder_planned(&b, 0, 90, 10), STW_ENTRY_LIFE_MAX); /* weights */
    builder_entry(&b, builder_planned(&b, 0, 80, 9), STW_ENTRY_LIFE_MAX);
    b.loop_start = 2;
    for (uint32_t i = 0; i < 3; i++)
        builder_entry(&b, builder_planned(&b, 0, i * 20, 20 - i), i == 2 ? 2 : 1);
    stw_allocator *a = make(&b, NULL);
    CHECK_EQ(place(a, get(a, 10)), 90);
    CHECK_EQ(place(a, get(a, 9)), 80);
    void *carried = NULL;
    for (int step = 0; step < 10; step++)
        for (uint32_t i = 0; i < 3; i++) {
            void *p = get(a, 20 - i);
            CHECK_EQ(place(a, p), i * 20);
            CHECK_EQ(stats(a).position, i == 2 ? 2 : i + 3);
            if (i == 1)
                stw_free(a, carried);
            if (i == 2)
                carried = p;
            else
                stw_free(a, p);
        }
    stw_stats s = stats(a);
    CHECK_EQ(s.hits, 32);
    CHECK_EQ(s.requests, 32);
    CHECK_EQ(s.slow, 0);
    end(a);
}

static void test_streams(void)
{
    builder b = {0};
    builder_stream(&b, 0xabc, 0, 10);
    builder_stream(&b, 0, 10, 20);
    builder_stream(&b, 0xdef, 20, 30);
    builder_entry(&b, builder_planned(&b, 1, 10, 10), 3);
    builder_entry(&b, builder_planned(&b, 0, 0, 10), 3);
    builder_entry(&b, builder_planned(&b, 2, 20, 10), 3);
    stw_allocator *a = make(&b, NULL);
    void *p0 = get(a, 10), *p1 = stw_malloc(a, 5120, 0x111), *p2 = stw_malloc(a, 5120, 0x222);
    CHECK_EQ(place(a, p0), 10); /* by handle 0 */
    CHECK_EQ(place(a, p1), 0);  /* the others in order of appearance */
    CHECK_EQ(place(a, p2), 20);
    stw_free(a, p0);
    stw_free(a, p1);
    stw_free(a, p2);
    uint64_t position = stats(a).position;
    void *q = stw_malloc(a, 5120, 0x333); /* one stream too many: matches nothing, moves nothing */
    CHECK_EQ(stats(a).unknown, 1);
    CHECK_EQ(stats(a).position, position);
    CHECK_EQ(place(a, get(a, 10)), 10);
    stw_free(a, q);
    CHECK(stw_malloc(a, 5120, 0x444) != q); /* never another stream's memory, even if free */
    CHECK(stw_malloc(a, 5120, 0x333) == q);
    end(a);

    a = make(NULL, &(stw_options){.heap_bytes = 4096}); /* many streams: each its own range */
    char *last = NULL;
    for (uint64_t handle = 0; handle < 1000; handle++) {
        char *p = stw_malloc(a, 512, handle * 0x10001);
        CHECK(p == last + 4096 || !last);
        last = p;
        stw_malloc(a, 512, 0);
    }
    CHECK(stw_malloc(a, 512, 999 * 0x10001) == last + 512);
    end(a);
}

/* The tail of a plan repeated after marks; without them the position would be off. */
static void test_marks(void)
{
    builder b = {0};
    builder_stream(&b, 0, 0, 4000);
    uint32_t same = 0;
    for (uint32_t i = 0; i < 30; i++) /* equal sizes: only marks can tell where we are */
        same = builder_entry(&b, builder_planned(&b, 0, i * 16, 16), 1);
    CHECK_EQ(same, 29);
    b.loop_start = 10;
    builder_mark(&b, 5, STW_MARK_ITERATION, 7, NULL);
    builder_mark(&b, 10, STW_MARK_ITERATION, 0, NULL);
    builder_mark(&b, 14, STW_MARK_PHASE, 0, "forward");
    builder_mark(&b, 20, STW_MARK_PHASE, 0, "backward");
    builder_mark(&b, 24, STW_MARK_PHASE, 0, "forward");
    builder_mark(&b, 30, STW_MARK_PHASE, 0, "end");
    stw_allocator *a = make(&b, NULL);
    static const struct {
        uint32_t kind;
        int64_t value;
        const char *name;
        uint64_t want;
    } steps[] = {
        {STW_MARK_ITERATION, 7, NULL, 5},    /* by its number, in the prologue */
        {STW_MARK_ITERATION, 3, NULL, 10},   /* any other: the loop's */
        {STW_MARK_PHASE, 0, "backward", 20}, /* ahead */
        {STW_MARK_PHASE, 0, "forward", 24},  /* 4 ahead, 6 behind */
        {STW_MARK_PHASE, 0, "forward", 24},  /* here */
        {STW_MARK_PHASE, 0, "backward", 20}, /* 4 behind; 16 ahead round the loop */
        {STW_MARK_PHASE, 0, "end", 10},      /* after the last entry: where the loop begins */
        {STW_MARK_PHASE, 0, "nowhere", 10},
    };
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        stw_mark(a, steps[i].kind, steps[i].value, steps[i].name);
        CHECK_EQ(stats(a).position, steps[i].want);
    }
    CHECK_EQ(stats(a).resyncs, 6);
    CHECK_EQ(place(a, get(a, 16)), 10 * 16);
    end(a);
}

/* Far from the plan: lost, then found again. */
static void test_restart(void)
{
    builder b = ladder(400);
    stw_allocator *a = make(&b, NULL);
    for (int i = 0; i < 400; i++)
        stw_free(a, get(a, 3000)); /* another program altogether */
    stw_stats s = stats(a);
    CHECK(s.unknown >= 300);
    CHECK(s.restarts >= 1);
    uint64_t hits = s.hits;
    int first = -1;
    for (int i = 0; i < 800; i++) {
        stw_free(a, get(a, (size_t)(20 + (i + 200) % 400)));
        stw_get_stats(a, &s);
        if (s.hits > hits && first < 0)
            first = i;
    }
    CHECK(first >= 0 && first <= 100 + 16 + 4);
    s = stats(a);
    CHECK_EQ(s.hits - hits, 800 - first); /* and never a miss after that */
    end(a);
}

static void run_all_paths(stw_allocator *a)
{
    void *live[64] = {0};
    for (size_t i = 0; i < 64; i++) {
        live[i] = stw_malloc(a, i % 3 ? 512 * (20 + i / 3) : 100000 * i, i % 5 == 4 ? i : 0);
        if (i % 7 == 6)
            stw_free(a, live[i / 2]), live[i / 2] = NULL;
    }
    if (!CHECK_EQ(stw_check(a, message, sizeof message), 0))
        printf("  %s\n", message);
    for (size_t i = 0; i < 64; i++)
        CHECK_EQ(stw_free(a, live[i]), 0);
    void *p = get(a, 1);
    stw_stats s = stats(a);
    CHECK(p != NULL || memory.calls == memory.fail_at); /* one failure is not the end */
    CHECK_EQ(s.live_bytes, p ? 512 : 0);
}

/* The k-th reserve or commit fails, for every k there is. */
static void test_failures(void)
{
    long calls = 0;
    for (long k = 1; k == 1 || k <= calls + 1; k++) {
        builder b = ladder(20);
        size_t n;
        uint8_t *file = builder_finish(&b, &n);
        stw_backend backend = test_backend_make(&memory, true, 0);
        stw_options o = {.heap_bytes = 64 << 20};
        memory.fail_at = k;
        stw_allocator *a;
        stw_status s = stw_create(&a, file, n, &o, &backend, message, sizeof message);
        CHECK_EQ(s, k <= 2 ? STW_E_MEMORY : STW_OK);
        if (a) {
            run_all_paths(a);
            calls = memory.calls;
            CHECK_EQ(k <= calls, stats(a).failed > 0);
            stw_destroy(a);
        } else {
            calls = 3; /* at least: go on */
        }
        CHECK_EQ(memory.reserved, 0);
        CHECK_EQ(memory.committed, 0);
        free(file);
    }
    CHECK(calls > 20);
}

/* Real memory: pages appear where they are written, and are gone afterwards. */
static void test_host(void)
{
    static const size_t granularities[] = {512, 4096, 2 << 20};
    for (size_t i = 0; i < 3; i++) {
        stw_backend backend = test_backend_make(&memory, false, granularities[i]);
        stw_options o = {.heap_bytes = 1 << 30};
        builder b = ladder(20);
        size_t n;
        uint8_t *file = builder_finish(&b, &n);
        stw_allocator *a;
        CHECK_EQ(stw_create(&a, file, n, &o, &backend, NULL, 0), STW_OK);
        free(file); /* the plan was copied */
        CHECK_EQ((uintptr_t)stw_arena(a) % granularities[i], 0);
        unsigned char *p = get(a, 20), *q = stw_malloc(a, 700 << 20, 0);
        CHECK(p && q);
        memset(p, 1, 20 * 512);
        q[0] = q[((size_t)700 << 20) - 1] = 2;
        CHECK_EQ(p[20 * 512 - 1] + q[0], 3);
        stats(a);
        stw_destroy(a);
        CHECK_EQ(memory.reserved, 0);
        CHECK_EQ(memory.committed, 0);
    }
}

static void test_fork(void)
{
    builder b = ladder(20);
    stw_allocator *a = make(&b, NULL);
    void *p = get(a, 20);
    for (int i = 0; i < 3; i++) {
        pid_t child = fork();
        if (child == 0) {
            bool ok = stw_free(a, p) == 0 && stw_malloc(a, 21 * 512, 0) != NULL && stw_check(a, NULL, 0) == 0;
            stw_destroy(a);
            _exit(ok ? 0 : 1);
        }
        int status = -1;
        CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    }
    CHECK_EQ(stats(a).frees, 0);
    end(a);
}

int main(void)
{
    test_late_free();
    test_divergence();
    test_resized();
    test_misuse();
    test_create_arguments();
    test_exhaustion();
    test_walk();
    test_wrap();
    test_streams();
    test_marks();
    test_restart();
    test_failures();
    test_host();
    test_fork();
    return check_end("test_api");
}
