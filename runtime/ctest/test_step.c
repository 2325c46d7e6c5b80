/* test_step.c: in step with the plan nothing is counted, and whatever is asked for in between says what has been
 * served: against a count of every call. And what is in step: small, large and wide slots, two streams in turns, requests of other
 * streams and of no size in between, frees of all kinds; every address is the plan's.
 */
#include "../stw_internal.h"
#include "scene.h"

enum { PLACES = 12, ENTRIES = 96, LAPS = 150 };

typedef struct {
    uint32_t stream, offset, units;
} expected;

/* PLACES of 40 to 150 units one after the other in each stream's half, all of single-unit atoms: what is longer than 64 is wide. */
static void make_plan(builder *b, expected *e, uint64_t *seed)
{
    const uint32_t half = PLACES * 150;
    builder_stream(b, 0, 0, half);
    builder_stream(b, 7, half, 2 * half);
    for (uint32_t i = 0; i < 2 * half; i++)
        builder_planned(b, i / half, i, 1);
    for (uint32_t i = 0; i < ENTRIES; i++) {
        uint32_t s = check_random(seed) % 3 == 0, units = i % 3 == 0 ? 1 + i % 8 : 10 + (uint32_t)(check_random(seed) % 140);
        e[i] = (expected){s, s * half + i % PLACES * 150, units};
        builder_entry_nf(b, builder_planned(b, s, e[i].offset, units), PLACES | (i % 2 ? STW_ENTRY_FIRM : 0), 0, 3);
    }
}

static void test_counts(uint64_t seed)
{
    builder b = {0};
    expected e[ENTRIES];
    make_plan(&b, e, &seed);
    stw_allocator *a = make(&b, NULL);
    void *live[PLACES] = {NULL}, *other = NULL;
    uint64_t bytes[PLACES] = {0}, now = 0, peak = 0, hits = 0, frees = 0, zero = 0, unknown = 0, bad = 0;
    for (uint32_t k = 0; k < LAPS * ENTRIES; k++) {
        const expected *x = &e[k % ENTRIES];
        const uint32_t at = k % ENTRIES % PLACES;
        for (uint32_t i = 0; i < PLACES; i++) /* what is in the way, and of what has no firm life some more */
            if (live[i] && (i == at || (i % 2 == 0 && check_random(&seed) % 16 == 0))) {
                CHECK_EQ(stw_free(a, live[i]), 0);
                live[i] = NULL;
                now -= bytes[i];
                frees++;
            }
        switch (check_random(&seed) % 24) {
        case 0:
            CHECK(stw_malloc(a, 0, check_random(&seed) % 2 * 7) == NULL);
            zero++;
            break;
        case 1:
            if (other) {
                CHECK_EQ(stw_free(a, other), 0);
                now -= 5 * 512;
                frees++;
                other = NULL;
            } else if (k > ENTRIES) { /* stream 7 has the plan's by now */
                other = stw_malloc(a, 5 * 512, 9); /* a stream of no plan */
                CHECK(other != NULL);
                now += 5 * 512;
                unknown++;
            }
            break;
        case 2:
            CHECK_EQ(stw_free(a, NULL), 0);
            CHECK_EQ(stw_free(a, (char *)stw_arena(a) + x->offset * 512), -1);
            CHECK_EQ(stw_free(a, (char *)stw_arena(a) + x->offset * 512 + 512), -1);
            bad += 2;
            break;
        }
        peak = now > peak ? now : peak;
        live[at] = stw_malloc(a, x->units * 512 - check_random(&seed) % 512, x->stream * 7);
        CHECK_EQ(place(a, live[at]), x->offset);
        now += bytes[at] = x->units * 512;
        peak = now > peak ? now : peak;
        hits++;
        if (check_random(&seed) % 40 != 0)
            continue;
        stw_stats s = stats(a);
        CHECK_EQ(s.hits, hits);
        CHECK_EQ(s.frees, frees);
        CHECK_EQ(s.live_bytes, now);
        CHECK_EQ(s.peak_live_bytes, peak);
        CHECK_EQ(s.zero_size, zero);
        CHECK_EQ(s.unknown, unknown);
        CHECK_EQ(s.bad_free, bad);
        CHECK_EQ(s.requests, hits + zero + unknown);
        CHECK_EQ(s.position, (k + 1) % ENTRIES);
        if (check_random(&seed) % 8 == 0) {
            stw_reset_peaks(a);
            peak = now;
        }
    }
    CHECK_EQ(stats(a).conflicts + stats(a).resyncs, 0);
    end(a);
}

/* Requests that only a step that must not be taken could fit: of nothing, and of all that 32 bits of units hold. */
static void test_nothing_fits(void)
{
    builder b = {0};
    builder_stream(&b, 0, 0, 10);
    builder_entry(&b, builder_dynamic(&b, 0, 1, 5), 1);
    builder_entry(&b, builder_planned(&b, 0, 0, 10), 1);
    stw_allocator *a = make(&b, NULL);
    for (int i = 0; i < 3; i++) {
        CHECK(stw_malloc(a, 0, 0) == NULL);
        CHECK(stw_malloc(a, (size_t)UINT32_MAX * 512, 0) == NULL);
        CHECK(stw_malloc(a, SIZE_MAX, 0) == NULL);
        CHECK(stw_malloc(a, SIZE_MAX - 600, 0) == NULL);
    }
    CHECK_EQ(stats(a).zero_size, 3);
    CHECK_EQ(stats(a).failed, 9);
    end(a);
}

/* Where 1,500 requests go, some of them more or fewer than the plan's, when so many frees were before them. */
static void wander(uint64_t frees, uintptr_t at[1500])
{
    builder b = {0};
    builder_stream(&b, 0, 0, 600); /* of common sizes, so that the number of frees is heard */
    for (uint32_t i = 0; i < 60; i++)
        builder_entry_nf(&b, builder_planned(&b, 0, 10 * i, 1 + i % 8), 30, 1, 2);
    stw_allocator *a = make(&b, NULL);
    a->match.frees = a->told_frees = frees;
    a->match.heard = (uint32_t)frees;
    void *live[60] = {NULL};
    uint64_t seed = 11;
    for (uint32_t i = 0, e = 0; i < 1500; i++, e = (e + 1) % 60) {
        uint64_t r = check_random(&seed);
        e = r % 31 == 0 ? (e + 1) % 60 : e;
        for (uint32_t k = 0; k < 1 + r / 64 % 3; k++) {
            void **old = &live[(r / 512 + k) % 60];
            CHECK_EQ(stw_free(a, *old), 0);
            *old = NULL;
        }
        CHECK_EQ(stw_free(a, live[e]), 0);
        live[e] = get(a, r % 37 == 0 ? 1 + r / 64 % 90 : 1 + e % 8);
        at[i] = (uintptr_t)live[e];
    }
    CHECK(frees == 0 || (uint32_t)a->match.frees < frees);
    a->match.frees -= frees; /* so that the counters add up */
    a->told_frees -= frees;
    end(a);
}

/* Frees are compared by their low 32 bits: nothing happens where these begin again. */
static void test_many_frees(void)
{
    static uintptr_t few[1500], many[1500];
    wander(0, few);
    wander((UINT64_C(1) << 32) - 700, many);
    CHECK(memcmp(few, many, sizeof few) == 0);
}

int main(void)
{
    for (uint64_t seed = 1; seed <= (CHECK_SANITIZED ? 3 : 12); seed++)
        test_counts(seed);
    test_nothing_fits();
    test_many_frees();
    return check_end("test_step");
}
