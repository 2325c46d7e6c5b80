/* test_memory.c: the caller's mistakes and the system's refusals: misuse, exhaustion, a backend that
 * fails at every call there is, no memory for records, real pages, fork.
 */
#define _DEFAULT_SOURCE
#include "scene.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

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

static void test_limits_and_peaks(void)
{
    builder b = ladder(4);
    b.capacity_bytes = 1 << 20;
    stw_allocator *a = make(&b, NULL);
    void *p = get(a, 20);
    uint64_t arena = stats(a).reserved_bytes; /* what p touches */
    void *q = stw_malloc(a, 100 << 10, 1);
    CHECK_EQ(stw_size(a, p), 20 * 512);
    CHECK_EQ(stw_size(a, (char *)p + 512), 0);
    CHECK_EQ(stw_size(a, NULL), 0);
    CHECK_EQ(stw_set_capacity(a, arena + (50 << 10)), -1); /* q is in the way: as before */
    CHECK(stw_malloc(a, 200 << 10, 2) != NULL);
    CHECK_EQ(stw_free(a, q), 0);
    stw_reset_peaks(a);
    CHECK_EQ(stats(a).peak_live_bytes, stats(a).live_bytes);
    CHECK_EQ(stats(a).peak_reserved_bytes, stats(a).reserved_bytes); /* q's memory is still held */
    CHECK_EQ(stats(a).heap_peak_bytes, 200 << 10);
    CHECK_EQ(stw_set_capacity(a, arena + (250 << 10)), 0); /* q's memory went back for it */
    CHECK_EQ(stats(a).reserved_bytes, arena + (200 << 10));
    CHECK(stw_malloc(a, 100 << 10, 2) == NULL);
    CHECK_EQ(stw_set_capacity(a, 0), 0); /* the plan's own limit stays */
    CHECK(stw_malloc(a, 2 << 20, 2) == NULL);
    CHECK(stw_malloc(a, 100 << 10, 2) != NULL);
    end(a);
    CHECK_EQ(stw_set_capacity(NULL, 1), -1);
    CHECK_EQ(stw_size(NULL, &b), 0);
    stw_reset_peaks(NULL);
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

/* Returns a sum of the addresses that were handed out. */
static uint64_t run_all_paths(stw_allocator *a)
{
    void *live[64] = {0};
    uint64_t sum = 0;
    for (size_t i = 0; i < 64; i++) {
        live[i] = stw_malloc(a, i % 3 ? 512 * (20 + i / 3) : 100000 * i, i % 5 == 4 ? i : 0);
        sum = sum * 31 + (uintptr_t)live[i];
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
    return sum * 31 + (uintptr_t)p;
}

/* The k-th reserve or commit fails, for every k there is, after once without a failure (k = 0). */
static void test_failures(void)
{
    long calls = 0;
    uint64_t usual = 0, usual_hits = 0;
    for (long k = 0; k <= 1 || k <= calls + 1; k++) {
        builder b = ladder(20);
        size_t n;
        uint8_t *file = builder_finish(&b, &n);
        stw_backend backend = test_backend_make(&memory, true, 0);
        stw_options o = {.heap_bytes = 64 << 20};
        memory.fail_at = k;
        stw_allocator *a;
        stw_status s = stw_create(&a, file, n, &o, &backend, message, sizeof message);
        CHECK_EQ(s, k == 1 ? STW_E_MEMORY : STW_OK);
        if (a) {
            uint64_t sum = run_all_paths(a);
            calls = memory.calls;
            stw_stats now = stats(a);
            if (k == 0)
                usual = sum, usual_hits = now.hits;
            /* The request failed, or went elsewhere, or there, but as a guest or after something was given back. */
            CHECK_EQ(k > 0 && k <= calls, now.failed > 0 || now.trims > 0 || now.hits != usual_hits || sum != usual);
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

/* No memory for the allocator's own records: blocks, table, streams grow until the system refuses. */
static void test_no_records(void)
{
    static void *live[200000];
    struct rlimit old, tight;
    stw_allocator *a = make(NULL, NULL);
    FILE *f = fopen("/proc/self/statm", "r");
    unsigned long pages = 0, n = 0, failed;
    if (!CHECK(f && fscanf(f, "%lu", &pages) == 1 && getrlimit(RLIMIT_AS, &old) == 0))
        return;
    fclose(f);
    for (int round = 0; round < 2; round++) { /* one stream, then a stream for each request */
        tight = old;
        tight.rlim_cur = pages * (unsigned long)sysconf(_SC_PAGESIZE) + (2 << 20);
        CHECK_EQ(setrlimit(RLIMIT_AS, &tight), 0);
        for (n = failed = 0; n < 200000 && failed < 100; n++) {
            live[n] = stw_malloc(a, 512, round ? n : 0);
            failed += live[n] == NULL;
        }
        CHECK_EQ(setrlimit(RLIMIT_AS, &old), 0);
        CHECK_EQ(failed, 100);
        CHECK_EQ(stats(a).failed, 100 * (1 + (unsigned)round));
        CHECK(stw_malloc(a, 512, 0) != NULL); /* as soon as there is memory again */
        while (n > 0)
            CHECK_EQ(stw_free(a, live[--n]), 0);
    }
    end(a);
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

/* What nobody uses goes back: when asked, under pressure, and once the plan has done without the heap
 * for a whole step. Granules are 4096 bytes: 8 units. */
static void test_trim(void)
{
    stw_options o = {.capacity_bytes = 40 * 4096};
    stw_allocator *a = make(NULL, &o);
    void *p[40];
    for (int i = 0; i < 40; i++)
        p[i] = get(a, 8);
    CHECK_EQ(stats(a).reserved_bytes, 40 * 4096);
    CHECK_EQ(stw_trim(a), 0);
    for (int i = 0; i < 40; i += 2)
        stw_free(a, p[i]);
    CHECK(get(a, 16) == NULL ? false : stats(a).trims == 1); /* 20 holes of one granule: two from them, */
    CHECK_EQ(stats(a).reserved_bytes, (40 - 2) * 4096);      /* and two, a sixteenth of what was held, for those to come */
    CHECK(get(a, 16) == NULL ? false : stats(a).trims == 1);
    CHECK(get(a, 8 * 17) == NULL);
    CHECK_EQ(stats(a).reserved_bytes, 24 * 4096); /* all that is idle went, and was not enough */
    CHECK_EQ(stats(a).failed, 1);
    p[0] = get(a, 8); /* the first hole again: committed anew */
    CHECK(p[0] != NULL);
    CHECK_EQ(stats(a).reserved_bytes, 25 * 4096);
    CHECK_EQ(stw_free(a, p[0]), 0);
    CHECK_EQ(stw_trim(a), 4096);
    CHECK_EQ(stats(a).trims, 3);
    CHECK_EQ(stats(a).returned_bytes, 21 * 4096);
    end(a);

    builder b = ladder(4);
    a = make(&b, NULL);
    p[0] = get(a, 999); /* unknown: from the heap */
    CHECK_EQ(stw_free(a, p[0]), 0);
    for (int step = 0; step < 3; step++) {
        for (size_t i = 0; i < 4; i++)
            p[i] = get(a, 20 + i);
        for (size_t i = 0; i < 4; i++)
            stw_free(a, p[i]);
        CHECK_EQ(stats(a).trims, step > 0); /* the first lap follows a request of the heap's */
    }
    CHECK_EQ(stats(a).reserved_bytes, stats(a).arena_bytes);
    end(a);
}

static bool captures;

static int capturing(void *ctx, uint64_t stream)
{
    (void)ctx;
    return captures && stream == 0;
}

/* While a stream captures nothing is given back: what there is no memory for in the best hole goes to a larger one that has some. */
static void test_capture(void)
{
    enum { G = 4096 };
    stw_backend backend = test_backend_make(&memory, true, G);
    backend.capturing = capturing;
    stw_allocator *a;
    if (!CHECK_EQ(stw_create(&a, NULL, 0, NULL, &backend, NULL, 0), STW_OK))
        return;
    void *p[6];
    static const size_t granules[] = {4, 1, 8, 1, 8, 1};
    for (int i = 0; i < 6; i++)
        p[i] = stw_malloc(a, granules[i] * G, 0);
    stw_free(a, p[0]);
    CHECK_EQ(stw_trim(a), 4 * G);
    CHECK_EQ(stw_set_capacity(a, 19 * G), 0);
    stw_free(a, p[4]);
    stw_free(a, p[2]);
    captures = true;
    CHECK(stw_malloc(a, 3 * G, 0) == p[2]); /* of two that are equal, the lower one */
    CHECK(stw_malloc(a, 9 * G, 0) == NULL);
    CHECK(stw_malloc(a, 8 * G, 0) == p[4]);
    CHECK(stw_malloc(a, 4 * G, 0) == (char *)p[2] + 3 * G);
    CHECK_EQ(stats(a).trims, 1);
    CHECK_EQ(stats(a).failed, 1);
    end(a);
}

static void note(void *ctx, const char *text)
{
    char *all = ctx;
    strncat(all, text, 3999 - strlen(all));
    strncat(all, "\n", 3999 - strlen(all));
}

/* The plan's limit holds beside the caller's; running out is said less and less often; the report has its
 * lines, and a length where there is no room. */
static void test_report(void)
{
    char said[4000] = "", lines[2000], tight[20];
    stw_options o = {.capacity_bytes = 64 << 20, .say = note, .say_ctx = said};
    builder b = ladder(4);
    b.capacity_bytes = 8 << 20;
    b.extra_kind = STW_SECTION_INFO;
    b.extra_flags = STW_SECTION_OPTIONAL;
    b.extra_text = "version: 1\nrule: a.rules:1:1: keep a\nrules-digest: 0123456789abcdef0123\nrule: \nrule: a.rules:2:1: keep b";
    stw_allocator *a = make(&b, &o);
    get(a, 20);
    for (int i = 0; i < 5; i++)
        CHECK(stw_malloc(a, 9 << 20, 0) == NULL);
    int times = 0;
    for (const char *p = said; (p = strstr(p, "out of memory")) != NULL; p++)
        times++;
    CHECK_EQ(times, 3); /* of failures 1 to 5: the first, second and fourth */
    CHECK(strstr(said, "8.00 MiB the limit") != NULL);
    size_t n = stw_report(a, lines, sizeof lines);
    CHECK_EQ(n, strlen(lines));
    CHECK_EQ(stw_report(a, NULL, 0), n);
    CHECK_EQ(stw_report(a, tight, sizeof tight), n);
    CHECK_EQ(strlen(tight), sizeof tight - 1);
    CHECK(strstr(lines, "6: 1 planned, 0 dynamic, 0 unknown, 5 failed") != NULL);
    CHECK(strstr(lines, "100.00 % of the planned at their address") != NULL);
    CHECK(strstr(lines, "\nrules     2 statements (0123456789ab)\n") != NULL);
    CHECK_EQ(stw_report(NULL, lines, sizeof lines), 0);
    end(a);
    CHECK(strstr(said, lines) != NULL);
}

int main(void)
{
    test_misuse();
    test_create_arguments();
    test_exhaustion();
    test_limits_and_peaks();
    test_walk();
    test_failures();
    test_trim();
    test_capture();
    test_report();
    if (!CHECK_SANITIZED) /* they need address space of their own */
        test_no_records();
    test_host();
    test_fork();
    return check_end("test_memory");
}
