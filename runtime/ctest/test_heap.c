/* test_heap.c: random requests to a heap beside a model that is too simple to be wrong: an array of
 * blocks in address order, searched from end to end, by the rules of MATCHER.md. Every address must
 * be the model's, and the self-check must hold after every operation.
 */
#include "check.h"
#include "support.h"
#include "../stw_lowest.h"

#include <stdlib.h>
#include <string.h>

enum { SMALL = 2048, MOST = 3000 };

typedef struct {
    uint64_t start, units;
    uint64_t freed; /* 0: used; else when it was freed: later is larger */
} piece;

typedef struct {
    piece pieces[MOST];
    size_t n;
    uint64_t clock, limit;
} model;

static void model_split(model *m, size_t i, uint64_t units)
{
    if (m->pieces[i].units == units)
        return;
    memmove(&m->pieces[i + 1], &m->pieces[i], (m->n - i) * sizeof(piece));
    m->n++;
    m->pieces[i].units = units;
    m->pieces[i + 1].start += units;
    m->pieces[i + 1].units -= units;
    m->pieces[i + 1].freed = ++m->clock;
}

/* True where free piece x is to be taken before y. */
static bool before(const piece *x, const piece *y)
{
    if (x->units != y->units)
        return x->units < y->units;
    return x->units < SMALL ? x->freed > y->freed : x->start < y->start;
}

static int64_t model_alloc(model *m, uint64_t units)
{
    size_t best = MOST;
    for (size_t i = 0; i < m->n; i++)
        if (m->pieces[i].freed && m->pieces[i].units >= units &&
            (best == MOST || before(&m->pieces[i], &m->pieces[best])))
            best = i;
    if (best != MOST) {
        model_split(m, best, units);
        m->pieces[best].freed = 0;
        return (int64_t)m->pieces[best].start;
    }
    piece *last = m->n ? &m->pieces[m->n - 1] : NULL;
    uint64_t top = last ? last->start + last->units : 0, start = last && last->freed ? last->start : top;
    if (start + units > m->limit)
        return -1;
    if (start == top)
        last = &m->pieces[m->n++];
    *last = (piece){start, units, 0};
    return (int64_t)start;
}

/* Joins piece i + 1 to piece i where both are free. */
static void model_join(model *m, size_t i)
{
    if (i + 1 >= m->n || !m->pieces[i].freed || !m->pieces[i + 1].freed)
        return;
    m->pieces[i].units += m->pieces[i + 1].units;
    m->pieces[i].freed = m->clock;
    memmove(&m->pieces[i + 1], &m->pieces[i + 2], (m->n - i - 2) * sizeof(piece));
    m->n--;
}

static void model_free(model *m, uint64_t start)
{
    size_t i = 0;
    while (m->pieces[i].start != start)
        i++;
    m->pieces[i].freed = ++m->clock;
    model_join(m, i);
    if (i > 0)
        model_join(m, i - 1);
}

static uint64_t random_units(uint64_t *seed, int mix)
{
    uint64_t r = check_random(seed), kind = r % 8;
    if (mix == 0)
        return 1 + (r >> 8) % 6; /* few sizes, many equal */
    if (mix == 1)
        return SMALL - 3 + (r >> 8) % 6; /* round the border */
    if (mix == 2)
        return SMALL + ((r >> 8) % 4) * 1000; /* large, many equal */
    if (mix == 4) /* round the borders of the ranges of sizes that share a bin */
        return ((UINT64_C(4096) + (r >> 8) % 3) << (r >> 16) % 13) - 1 + (r >> 32) % 3;
    if (mix == 5) /* many sizes, few trees */
        return (1 << 16) + (r >> 8) % 50;
    return kind < 5 ? 1 + (r >> 8) % 40 : kind < 7 ? 1 + (r >> 8) % 2500 : 1 + (r >> 8) % 40000;
}

/* Frees live[k] of n, in units above base, from both; the last one takes its place. */
static void free_one(stw_allocator *a, model *m, char *base, uint64_t *live, size_t k, size_t n)
{
    CHECK_EQ(stw_free(a, base + live[k] * 512), 0);
    model_free(m, live[k]);
    live[k] = live[n - 1];
}

static void check_now(stw_allocator *a, uint64_t seed, int operation)
{
    char message[200];
    if (operation % (CHECK_SANITIZED ? 16 : 1) == 0 && !CHECK_EQ(stw_check(a, message, sizeof message), 0))
        printf("  seed %llu, operation %d: %s\n", (unsigned long long)seed, operation, message);
}

static void run(uint64_t seed, int mix, int operations)
{
    test_backend memory;
    stw_backend backend = test_backend_make(&memory, true, mix >= 4 ? 2 << 20 : 0);
    stw_options o = {.heap_bytes = mix >= 4 ? UINT64_C(1) << 38 : mix % 2 ? 64 << 20 : 512 << 20};
    stw_allocator *a;
    char message[200];
    static model m;
    static uint64_t live[MOST];
    char *base = NULL;
    size_t n = 0;
    memset(&m, 0, sizeof m);
    m.limit = o.heap_bytes / 512;
    CHECK_EQ(stw_create(&a, NULL, 0, &o, &backend, message, sizeof message), STW_OK);
    for (int i = 0; i < operations; i++) {
        uint64_t r = check_random(&seed), grow = i / 200 % 2 ? 40 : 60; /* fills and drains in turn */
        if (n == 0 || (r % 100 < grow && m.n < MOST - 2)) {
            uint64_t units = random_units(&seed, mix);
            char *p = stw_malloc(a, units * 512 - r % 512, 0);
            int64_t want = model_alloc(&m, units);
            if (!base)
                base = p;
            CHECK_EQ(p ? (p - base) / 512 : -1, want);
            if (p)
                live[n++] = (uint64_t)(p - base) / 512;
        } else {
            free_one(a, &m, base, live, r / 128 % n, n);
            n--;
        }
        check_now(a, seed, i);
    }
    while (n > 0)
        CHECK_EQ(stw_free(a, base + live[--n] * 512), 0);
    CHECK_EQ(stw_check(a, message, sizeof message), 0);
    stw_destroy(a);
    CHECK_EQ(memory.reserved, 0);
}

/* Many holes of one size, or two, between blocks that stay: deep trees, in which holes that are neighbours in memory are
 * neighbours, or many in one line. */
static void run_deep(uint64_t seed, uint64_t least, uint64_t kinds)
{
    enum { N = 700 };
    test_backend memory;
    stw_backend backend = test_backend_make(&memory, true, 2 << 20);
    stw_allocator *a;
    char message[200];
    static model m;
    static uint64_t live[MOST];
    size_t n = 0;
    memset(&m, 0, sizeof m);
    m.limit = UINT64_C(256) << 21;
    CHECK_EQ(stw_create(&a, NULL, 0, NULL, &backend, message, sizeof message), STW_OK);
    char *base = NULL;
    for (int i = 0; i < 2 * N; i++) {
        uint64_t units = i % 2 ? 1 : least << check_random(&seed) % kinds;
        char *p = stw_malloc(a, units * 512, 0);
        base = base ? base : p;
        CHECK_EQ((p - base) / 512, model_alloc(&m, units));
        if (units > 1)
            live[n++] = (uint64_t)(p - base) / 512;
    }
    for (int i = 0; i < 6000; i++) {
        uint64_t r = check_random(&seed), grow = i / 500 % 2 ? 70 : 30;
        if (n == 0 || (r % 100 < grow && m.n < MOST - 2)) {
            uint64_t units = least << (r >> 8) % kinds;
            char *p = stw_malloc(a, units * 512, 0);
            CHECK_EQ((p - base) / 512, model_alloc(&m, units));
            live[n++] = (uint64_t)(p - base) / 512;
        } else {
            free_one(a, &m, base, live, r / 128 % n, n);
            n--;
        }
        check_now(a, seed, i);
    }
    stw_destroy(a);
    CHECK_EQ(memory.reserved, 0);
}

/* Blocks far apart in a range of any size, beside an array of them that is searched from end to end. */
static void run_lowest(uint64_t seed, uint64_t range)
{
    enum { BLOCKS = 200, SIZES = 4 };
    static const uint32_t sizes[SIZES] = {STW_LOWEST_MIN, 4096, 12345, STW_LOWEST_END - 1};
    struct {
        uint32_t start, units; /* 0: not in */
    } blocks[BLOCKS + 1] = {{0, 0}};
    stw_lowest l;
    uint64_t n = 0;
    CHECK(stwi_lowest_open(&l, range));
    for (int i = 0; i < 20000; i++) {
        const uint32_t b = 1 + (uint32_t)(check_random(&seed) % BLOCKS);
        if (blocks[b].units == 0) {
            const uint64_t r = check_random(&seed), near = r >> 32 << 32 >> (r & 31); /* often near the beginning */
            const uint32_t start = (uint32_t)((near >> 32) % range), units = sizes[r >> 8 & 3];
            bool taken = false;
            for (uint32_t k = 1; k <= BLOCKS; k++)
                taken = taken || (blocks[k].units != 0 && blocks[k].start / STW_LOWEST_MIN == start / STW_LOWEST_MIN);
            if (taken)
                continue;
            blocks[b].start = start;
            blocks[b].units = units;
            stwi_lowest_insert(&l, start, units, b);
            CHECK(stwi_lowest_has(&l, start, units, b));
            n++;
        } else {
            uint32_t first = 0, next = 0;
            const uint32_t units = blocks[b].units;
            for (uint32_t k = 1; k <= BLOCKS; k++)
                if (blocks[k].units == units) {
                    first = first == 0 || blocks[k].start < blocks[first].start ? k : first;
                    next = k != b && (next == 0 || blocks[k].start < blocks[next].start) ? k : next;
                }
            CHECK_EQ(stwi_lowest_remove(&l, blocks[b].start, units, first == b), first == b ? next : 0);
            CHECK(!stwi_lowest_has(&l, blocks[b].start, units, b));
            blocks[b].units = 0;
            n--;
        }
        if (i % 500 == 0)
            CHECK(stwi_lowest_check(&l, (uint32_t)(range - 1), n) && !stwi_lowest_check(&l, (uint32_t)(range - 1), n + 1));
    }
    stwi_lowest_close(&l);
}

/* The pattern of weights that are replaced by slightly larger ones: freed neighbours must serve. */
static void test_padding(void)
{
    test_backend memory;
    stw_backend backend = test_backend_make(&memory, true, 2 << 20);
    stw_allocator *a;
    stw_stats s;
    void *layer[48];
    const size_t size = 200 << 20;
    CHECK_EQ(stw_create(&a, NULL, 0, NULL, &backend, NULL, 0), STW_OK);
    for (int i = 0; i < 48; i++)
        layer[i] = stw_malloc(a, size, 0);
    for (int i = 0; i < 48; i++) {
        void *padded = stw_malloc(a, size + 1024, 0);
        stw_free(a, layer[i]);
        layer[i] = padded;
    }
    stw_get_stats(a, &s);
    CHECK(s.peak_reserved_bytes <= s.peak_live_bytes + 2 * size);
    printf("48 layers, each replaced by one 1 KiB larger: reserved / live peak = %.3f\n",
           (double)s.peak_reserved_bytes / (double)s.peak_live_bytes);
    stw_destroy(a);
}

int main(void)
{
    for (int mix = 0; mix < 6; mix++)
        for (uint64_t seed = 1; seed <= (CHECK_SANITIZED ? 3 : 10); seed++)
            run(seed, mix, 4000);
    for (uint64_t seed = 1; seed <= (CHECK_SANITIZED ? 3 : 9); seed++)
        run_deep(seed, UINT64_C(2048) << seed % 4, 1 + seed % 2);
    for (uint64_t seed = 1; seed <= 20; seed++)
        run_lowest(seed, seed % 4 == 0 ? UINT64_C(1) << 32 : 1 + check_random(&(uint64_t){seed}) % (UINT64_C(1) << (12 + seed)));
    test_padding();
    return check_end("test_heap");
}
