/* test_stitch.c: requests made of several idle pieces, on the double of libcuda, where a piece that is mapped twice
 * is one piece: every block is filled, all of it, with a value of its own when it is handed out and looked at, all of
 * it, before it is freed, so two owners of a piece are seen.
 */
#define _GNU_SOURCE
#include "cuda_scene.h"

#include <stdarg.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool no_growth;

/* In place of the library's: the records of idle pieces can be told not to grow. */
void *mremap(void *p, size_t from, size_t to, int flags, ...)
{
    return no_growth ? MAP_FAILED : (void *)syscall(SYS_mremap, p, from, to, flags, NULL);
}

static stw_backend b;

static stw_allocator *begin(bool plan, bool shared, bool late, stw_options o)
{
    double_config d = small_device();
    stw_allocator *a = NULL;
    size_t n = 0;
    uint8_t *file = plan ? cuda_plan(shared, &n) : NULL;
    d.late = late;
    d.memory = 256 << 20;
    gpu->reset(&d);
    o.heap_bytes = o.heap_bytes ? o.heap_bytes : 64 << 20;
    CHECK_EQ(stw_backend_cuda(&b, &(stw_cuda_options){.primary = 1}, message, sizeof message), STW_OK);
    if (!CHECK_EQ(stw_create(&a, file, n, &o, &b, message, sizeof message), STW_OK))
        printf("  %s\n", message);
    free(file);
    return a;
}

static stw_stats look(stw_allocator *a)
{
    stw_stats s;
    if (!CHECK_EQ(stw_check(a, message, sizeof message), 0))
        printf("  %s\n", message);
    stw_get_stats(a, &s);
    return s;
}

static void finish(stw_allocator *a)
{
    look(a);
    stw_destroy(a);
    stw_backend_cuda_close(&b);
    check_clean("stitch");
}

static unsigned char *get(stw_allocator *a, int granules)
{
    return stw_malloc(a, (size_t)granules * GRANULE, 0);
}

/* Sixteen blocks of `each` granules, of which the odd ones stay. */
static void comb(stw_allocator *a, int each, unsigned char *teeth[16])
{
    for (int i = 0; i < 16; i++)
        teeth[i] = get(a, each);
    for (int i = 0; i < 16; i += 2)
        CHECK_EQ(stw_free(a, teeth[i]), 0);
}

static void test_holes(void)
{
    unsigned char *teeth[16], *p, *q;
    stw_allocator *a = begin(false, false, false, (stw_options){.stitch_bytes = 64 << 20});
    comb(a, 2, teeth);
    uint64_t reserved = look(a).reserved_bytes;
    CHECK_EQ(reserved, 32 * GRANULE);
    p = get(a, 5); /* holes 0, 2 and the first half of 4 */
    CHECK(p != NULL);
    for (int g = 0; g < 5; g++)
        CHECK(gpu->same(p + g * GRANULE, teeth[g / 2 * 2] + g % 2 * GRANULE));
    stw_stats s = look(a);
    CHECK_EQ(s.stitched, 1);
    CHECK_EQ(s.stitches, 1);
    CHECK_EQ(s.stitch_bytes, 5 * GRANULE);
    CHECK_EQ(s.reserved_bytes, reserved);
    CHECK_EQ(s.heap_live_bytes, 21 * GRANULE);
    CHECK_EQ(stw_size(a, p), 5 * GRANULE);
    memset(p, 1, 5 * GRANULE);
    q = get(a, 1); /* what is left of hole 4 */
    CHECK(q == teeth[4] + GRANULE);
    memset(q, 2, GRANULE);
    for (int i = 0; i < 5 * GRANULE; i += 512)
        CHECK_EQ(p[i], 1);
    CHECK_EQ(stw_free(a, p + GRANULE), -1);
    CHECK_EQ(stw_free(a, p), 0);
    CHECK_EQ(stw_free(a, p), -1);

    long calls = gpu->calls(NULL); /* from now on nothing is asked of the driver */
    for (int i = 0; i < 10; i++) {
        unsigned char *again = get(a, 5), *less;
        CHECK(again == p);
        CHECK_EQ(stw_free(a, again), 0);
        less = stw_malloc(a, 9 * GRANULE / 2, 0);
        CHECK(less == p);
        unsigned char *whole = get(a, 2); /* a hole that was not needed */
        CHECK(whole != NULL && stw_free(a, whole) == 0);
        CHECK_EQ(stw_free(a, less), 0);
        look(a);
    }
    printf("test_stitch: 20 stitched requests in steady state, %ld driver calls\n", gpu->calls(NULL) - calls);
    CHECK_EQ(gpu->calls(NULL), calls);
    CHECK_EQ(look(a).stitches, 1);

    unsigned char *hole = get(a, 2); /* a piece of the range is in use: it must wait */
    for (unsigned char *more; hole != teeth[0] && (more = get(a, 2)) != NULL; hole = more) {
    }
    CHECK(hole == teeth[0]);
    q = get(a, 5);
    CHECK(q != NULL && q != p && !gpu->same(q, hole));
    CHECK_EQ(look(a).stitches, 2);
    CHECK_EQ(stw_free(a, q) + stw_free(a, hole), 0);
    CHECK(get(a, 1 + 16) != NULL); /* more than all holes: new memory */
    CHECK_EQ(look(a).stitched, 22);
    CHECK(look(a).reserved_bytes > reserved);
    finish(a);
}

/* Below two granules, without the option, without a backend that can: nothing. */
static void test_off(void)
{
    unsigned char *teeth[16];
    stw_allocator *a = begin(false, false, false, (stw_options){0});
    comb(a, 2, teeth);
    CHECK(get(a, 5) != NULL);
    CHECK_EQ(look(a).stitched, 0);
    CHECK_EQ(look(a).reserved_bytes, 37 * GRANULE);
    finish(a);
    a = begin(false, false, false, (stw_options){.stitch_bytes = 64 << 20});
    comb(a, 1, teeth);
    CHECK(stw_malloc(a, 2 * GRANULE - 512, 0) != NULL);
    CHECK_EQ(look(a).stitched, 0);
    CHECK(stw_malloc(a, 2 * GRANULE - 511, 0) != NULL);
    CHECK_EQ(look(a).stitched, 1);
    finish(a);
    stw_backend host = stw_backend_host(0);
    CHECK_EQ(stw_create(&a, NULL, 0, &(stw_options){.stitch_bytes = 1}, &host, message, sizeof message), STW_E_ARG);
    CHECK(strstr(message, "map memory twice") != NULL);
}

/* Address space and number are bounded; the range that was idle for longest goes; one in use never. */
static void test_bounds(void)
{
    unsigned char *teeth[16], *p[3];
    stw_allocator *a = begin(false, false, false, (stw_options){.stitch_bytes = 12 * GRANULE});
    comb(a, 2, teeth);
    CHECK(stw_free(a, get(a, 13)) == 0); /* more than may be */
    CHECK_EQ(look(a).stitched, 0);
    CHECK(stw_trim(a) > 0);
    stw_destroy(a);
    stw_backend_cuda_close(&b);
    a = begin(false, false, false, (stw_options){.stitch_bytes = 12 * GRANULE});
    comb(a, 2, teeth);
    for (int i = 0; i < 3; i++)
        p[i] = get(a, 4);
    CHECK_EQ(look(a).stitch_bytes, 12 * GRANULE);
    CHECK(stw_free(a, p[1]) == 0 && stw_free(a, p[0]) == 0);
    CHECK_EQ(stw_free(a, get(a, 3)), 0); /* p[1]'s has to go */
    CHECK_EQ(look(a).stitches, 4);
    CHECK_EQ(look(a).stitch_bytes, 11 * GRANULE);
    CHECK(get(a, 4) == p[0] && stw_free(a, p[0]) == 0);
    CHECK(get(a, 5) != NULL); /* and the one of three granules, and p[0]'s, too */
    CHECK_EQ(look(a).stitches, 5);
    CHECK_EQ(look(a).stitch_bytes, 9 * GRANULE);
    finish(a);

    a = begin(false, false, false, (stw_options){.stitch_bytes = 1 << 30});
    comb(a, 16, teeth);
    for (int n = 17; n < 100; n++) { /* of many sizes, each larger than those before */
        unsigned char *q = get(a, n);
        CHECK_EQ(stw_free(a, q), 0);
    }
    stw_stats s = look(a);
    CHECK_EQ(s.stitches, 83);
    for (int round = 0; round < 3; round++)
        for (int n = 17; n < 100; n++)
            CHECK_EQ(stw_free(a, get(a, n)), 0);
    CHECK_EQ(look(a).stitches, 83); /* all were found again */
    finish(a);
}

/* What is given back to the driver takes its ranges with it; what is in use stays. */
static void test_trim(void)
{
    unsigned char *teeth[16], *p, *q;
    stw_allocator *a = begin(false, false, false, (stw_options){.stitch_bytes = 64 << 20});
    comb(a, 2, teeth);
    p = get(a, 5);
    q = get(a, 6);
    CHECK_EQ(stw_free(a, q), 0);
    CHECK_EQ(look(a).stitch_bytes, 11 * GRANULE);
    memset(p, 7, 5 * GRANULE);
    CHECK_EQ(stw_trim(a), 11 * GRANULE);
    CHECK_EQ(look(a).stitch_bytes, 5 * GRANULE);
    CHECK_EQ(gpu->live().memory, 21 * GRANULE);
    for (int i = 0; i < 5 * GRANULE; i += 512)
        CHECK_EQ(p[i], 7);
    CHECK_EQ(stw_free(a, p), 0);
    CHECK_EQ(stw_trim(a), 5 * GRANULE);
    CHECK_EQ(look(a).stitch_bytes, 0);
    CHECK_EQ(gpu->live().memory, 16 * GRANULE);
    finish(a);
}

/* More holes than there is memory to take note of: those that are known are used. */
static void test_many_holes(void)
{
    enum { HOLES = 1500 };
    static unsigned char *teeth[2 * HOLES];
    stw_allocator *a = begin(false, false, false, (stw_options){.stitch_bytes = 64 << 20, .heap_bytes = 256 << 20});
    for (int i = 0; i < 2 * HOLES; i++)
        teeth[i] = get(a, 1);
    for (int i = 0; i < 2 * HOLES; i += 2)
        CHECK_EQ(stw_free(a, teeth[i]), 0);
    no_growth = true;
    unsigned char *p = get(a, 5);
    no_growth = false;
    CHECK_EQ(look(a).stitched, 1);
    CHECK_EQ(stw_free(a, p), 0);
    CHECK(get(a, 5) == p);
    finish(a);
}

enum { BLOCKS = 16, BLOCK = 2 * GRANULE };

/* Sixteen entries that live to the step's end, and one that dies at once, from unit `at` of the arena on. */
static stw_allocator *begin_blocks(uint32_t at)
{
    builder plan = {0};
    stw_allocator *a = NULL;
    void *p[BLOCKS + 1];
    size_t n;
    builder_stream(&plan, 0, 0, at + (BLOCKS + 2) * BLOCK / 512);
    for (uint32_t i = 0; i < BLOCKS; i++)
        builder_entry(&plan, builder_planned(&plan, 0, at + i * (BLOCK / 512), BLOCK / 512), BLOCKS + 1 - i);
    builder_entry(&plan, builder_planned(&plan, 0, at + BLOCKS * BLOCK / 512, 4 * GRANULE / 512), 1);
    uint8_t *file = builder_finish(&plan, &n);
    double_config d = small_device();
    d.memory = 256 << 20;
    gpu->reset(&d);
    CHECK_EQ(stw_backend_cuda(&b, &(stw_cuda_options){.primary = 1}, message, sizeof message), STW_OK);
    CHECK_EQ(stw_create(&a, file, n, &(stw_options){.stitch_bytes = 64 << 20, .heap_bytes = 64 << 20}, &b, message, sizeof message), STW_OK);
    free(file);
    for (int i = 0; i <= BLOCKS; i++) /* a usual step: the arena is committed */
        p[i] = get(a, i < BLOCKS ? 2 : 4);
    for (int i = 0; i <= BLOCKS; i++)
        CHECK_EQ(stw_free(a, p[i]), 0);
    return a;
}

/* A planned request that is too large for its place, from idle space of the arena. Who comes for that place meanwhile is
 * displaced, and finds it again afterwards. */
static void test_arena(void)
{
    unsigned char *block[BLOCKS], *p;
    stw_allocator *a = begin_blocks(0);
    for (int step = 0; step < 4; step++) {
        uint64_t reserved = 0;
        long calls = gpu->calls(NULL);
        for (int i = 0; i < BLOCKS; i++) {
            block[i] = stw_malloc(a, BLOCK, 0);
            CHECK((char *)block[i] == (char *)stw_arena(a) + i * BLOCK);
            memset(block[i], i, BLOCK);
        }
        for (int i = 1; i < BLOCKS - 1; i += 2)
            CHECK_EQ(stw_free(a, block[i]), 0); /* earlier than the plan thinks */
        reserved = look(a).reserved_bytes;
        p = get(a, 7); /* its own place, the largest hole, and what lacks of the first ones */
        for (int g = 0; g < 7; g++)
            CHECK(gpu->same(p + g * GRANULE, g < 3 ? block[1 + g / 2 * 2] + g % 2 * GRANULE : block[15] + BLOCK + (g - 3) * GRANULE));
        memset(p, 99, 7 * GRANULE);
                CHECK_EQ(look(a).stitched, step + 1);
        CHECK_EQ(look(a).reserved_bytes, reserved);
        for (int i = 0; i < BLOCKS; i += 2)
            CHECK(block[i][0] == i && block[i][BLOCK - 1] == i);
        CHECK(block[15][0] == 15 && block[15][BLOCK - 1] == 15);
        if (step == 2) { /* the next step begins while it lives */
            for (int i = 0; i < BLOCKS; i += 2)
                CHECK_EQ(stw_free(a, block[i]), 0);
            CHECK_EQ(stw_free(a, block[15]), 0);
            for (int i = 0; i < BLOCKS; i++) {
                block[i] = stw_malloc(a, BLOCK, 0);
                memset(block[i], 7, BLOCK);
            }
            CHECK_EQ(look(a).conflicts, 2); /* blocks 1 and 3 */
            for (int i = 0; i < 7 * GRANULE; i += 512)
                CHECK_EQ(p[i], 99);
            for (int i = 1; i < BLOCKS - 1; i += 2)
                CHECK_EQ(stw_free(a, block[i]), 0);
        }
        CHECK_EQ(stw_free(a, p), 0);
        for (int i = 0; i < BLOCKS; i += 2)
            CHECK_EQ(stw_free(a, block[i]), 0);
        CHECK_EQ(stw_free(a, block[15]), 0);
        if (step == 1)
            CHECK_EQ(gpu->calls(NULL), calls); /* it was there already */
    }
    CHECK_EQ(look(a).stitches, 1);
    CHECK_EQ(look(a).too_large, 4);
    finish(a);
}

/* Where the plan's first place begins in the middle of a granule, that granule is its own. */
static void test_arena_begins_late(void)
{
    unsigned char *block[BLOCKS], *p;
    stw_allocator *a = begin_blocks(GRANULE / 2 / 512);
    for (int i = 0; i < BLOCKS; i++) {
        block[i] = stw_malloc(a, BLOCK, 0);
        CHECK((char *)block[i] == (char *)stw_arena(a) + GRANULE / 2 + i * BLOCK);
        memset(block[i], i, BLOCK);
    }
    CHECK_EQ(stw_free(a, block[1]) + stw_free(a, block[3]), 0);
    p = get(a, 5); /* three granules of its own place, and one in each hole */
    CHECK_EQ(look(a).stitched, 1);
    memset(p, 99, 5 * GRANULE);
    for (int i = 0; i < BLOCKS; i++)
        for (int k = 0; k < BLOCK && i != 1 && i != 3; k += 512)
            CHECK_EQ(block[i][k], i);
    CHECK_EQ(stw_free(a, p), 0);
    for (int i = 0; i < BLOCKS; i++)
        CHECK_EQ(i == 1 || i == 3 ? 0 : stw_free(a, block[i]), 0);
    finish(a);
}

/* Programs that diverge from their plan, with many large requests among them: nobody shares a piece, the structures
 * agree at every step, and work that comes late finds its memory as it should be. */
static void test_programs(void)
{
    uint64_t stitched = 0, ranges = 0;
    for (uint64_t seed = 1; seed <= (CHECK_THREADS_ONLY ? 1 : CHECK_SANITIZED ? 8 : 24); seed++) {
        bool shared = seed & 1, late = seed & 2;
        stw_allocator *a = begin(seed % 4 != 0, shared, late, (stw_options){.stitch_bytes = seed & 4 ? 4 << 20 : 64 << 20, .capacity_bytes = seed & 8 ? 20 << 20 : 0});
        uint64_t streams[2] = {0, gpu->stream()}, random = seed;
        held_block held[24] = {0};
        for (int i = 0; i < 1500; i++) {
            uint64_t r = check_random(&random);
            held_block *h = &held[r % 24];
            if (h->p) {
                gpu->launch(h->stream, h->p, h->bytes, h->value, true);
                CHECK_EQ(stw_free(a, h->p), 0);
                h->p = NULL;
            }
            size_t bytes = r >> 60 == 0 ? 1 + (r >> 20) % 4000 : r >> 62 == 3 ? 1 + (r >> 20) % 1500000 : (200 + 7 * ((r >> 20) % (ENTRIES / 2))) * 512;
            *h = (held_block){stw_malloc(a, bytes, streams[r >> 10 & 1]), bytes, streams[r >> 10 & 1], (uint8_t)(r >> 11)};
            if (!h->p)
                continue;
            gpu->launch(h->stream, h->p, bytes, h->value, false);
            if ((r >> 12 & 7) == 0) {
                void *written = b.event_record(b.ctx, h->stream);
                CHECK(written && b.event_wait(b.ctx, streams[~r >> 10 & 1], written) == 0);
                b.event_drop(b.ctx, written);
                gpu->launch(streams[~r >> 10 & 1], h->p, bytes, h->value, true);
                CHECK_EQ(stw_record_stream(a, h->p, streams[~r >> 10 & 1]), 0);
            }
            if ((r >> 15 & 63) == 0)
                stw_trim(a);
            if ((r >> 21 & 15) == 0)
                gpu->progress(&random);
            if (i % 10 == 0)
                look(a);
        }
        for (int i = 0; i < 24; i++)
            if (held[i].p) {
                gpu->launch(held[i].stream, held[i].p, held[i].bytes, held[i].value, true);
                CHECK_EQ(stw_free(a, held[i].p), 0);
            }
        stitched += look(a).stitched;
        ranges += look(a).stitches;
        finish(a);
    }
    printf("test_stitch: random programs, %llu stitched requests, %llu ranges made\n", (unsigned long long)stitched, (unsigned long long)ranges);
    CHECK(stitched > 1000 || CHECK_THREADS_ONLY);
}

/* A program that repeats itself asks the driver for nothing once it has been through: an iteration of random requests,
 * again and again, with and without stitching. */
static void test_steady(void)
{
    enum { HELD_NOW = 40, OPERATIONS = 400, ITERATIONS = 10 };
    for (int on = 0; on < 2; on++) {
        stw_allocator *a = begin(false, false, false, (stw_options){.stitch_bytes = on ? 1 << 30 : 0});
        long calls[ITERATIONS];
        for (int it = 0; it < ITERATIONS; it++) {
            void *p[HELD_NOW] = {0};
            uint64_t seed = 11;
            calls[it] = gpu->calls(NULL);
            for (int i = 0; i < OPERATIONS; i++) {
                uint64_t r = check_random(&seed);
                void **k = &p[r % HELD_NOW];
                stw_free(a, *k);
                *k = stw_malloc(a, 1 + (r >> 20) % (r >> 61 ? 300000 : 3000000), 0);
                CHECK(*k != NULL);
            }
            for (int i = 0; i < HELD_NOW; i++)
                CHECK_EQ(stw_free(a, p[i]), 0);
            calls[it] = gpu->calls(NULL) - calls[it];
        }
        stw_stats s = look(a);
        printf("test_stitch: %d requests an iteration, stitching %s: driver calls in iterations 1 to 4: %ld %ld %ld %ld, then none; %llu of %llu "
               "requests stitched, %llu ranges; reserved %.1f MiB for %.1f\n",
               OPERATIONS, on ? "on" : "off", calls[0], calls[1], calls[2], calls[3], (unsigned long long)s.stitched, (unsigned long long)s.requests,
               (unsigned long long)s.stitches, (double)s.peak_reserved_bytes / (1 << 20), (double)s.peak_live_bytes / (1 << 20));
        CHECK_EQ(s.stitched > 0, on);
        for (int it = 4; it < ITERATIONS; it++)
            CHECK_EQ(calls[it], 0);
        finish(a);
    }
}

int main(void)
{
    if (!gpu_load())
        return 1;
    test_holes();
    test_off();
    test_bounds();
    test_trim();
    test_many_holes();
    test_arena();
    test_arena_begins_late();
    test_steady();
    test_programs();
    return check_end("test_stitch");
}
