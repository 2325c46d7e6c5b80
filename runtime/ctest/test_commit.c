/* test_commit.c: memory of the arena is committed by need, given back, and moved: what is asked of the backend and what is
 * left when it refuses. Granules are 4096 bytes: 8 units. Bare addresses: nobody touches them.
 */
#include "scene.h"

#define GRANULE 4096
#define ARENAS 4 /* worth of moves, as stw_internal.h has it */

/* A step of n entries of 16 units each, side by side: each on two granules of its own. */
static builder row(uint32_t n, uint32_t life)
{
    builder b = {0};
    builder_stream(&b, 0, 0, 16 * n);
    for (uint32_t i = 0; i < n; i++) /* odd ones are a unit short: sizes that tell them apart */
        builder_entry(&b, builder_planned(&b, 0, 16 * i, i % 2 ? 15 : 16), life);
    return b;
}

static void step(stw_allocator *a, uint32_t n, void **p)
{
    for (uint32_t i = 0; i < n; i++)
        p[i] = get(a, i % 2 ? 15 : 16);
    for (uint32_t i = 0; i < n; i++)
        CHECK_EQ(stw_free(a, p[i]), 0);
}

static void test_by_need(void)
{
    void *p[8];
    builder b = row(8, 8);
    stw_allocator *a = make(&b, NULL);
    CHECK_EQ(memory.committed, 0);
    for (uint32_t i = 0; i < 8; i++) {
        p[i] = get(a, i % 2 ? 15 : 16);
        CHECK_EQ(place(a, p[i]), 16 * i);
        CHECK_EQ(stats(a).arena_bytes, (i + 1) * 2 * GRANULE);
    }
    for (uint32_t i = 0; i < 8; i++)
        stw_free(a, p[i]);
    long calls = memory.calls;
    for (int k = 0; k < 5; k++)
        step(a, 8, p);
    CHECK_EQ(memory.calls, calls); /* it is whole: the backend is not asked again */
    CHECK_EQ(stats(a).hits, 48);

    p[0] = get(a, 16);
    p[1] = get(a, 15);
    p[2] = get(a, 16);
    stw_free(a, p[1]);
    CHECK_EQ(stw_trim(a), 12 * GRANULE); /* all but what lives */
    CHECK_EQ(stats(a).arena_bytes, 4 * GRANULE);
    CHECK_EQ(memory.committed, 4 * GRANULE);
    for (uint32_t i = 3; i < 8; i++)
        CHECK_EQ(place(a, p[i] = get(a, i % 2 ? 15 : 16)), 16 * i);
    CHECK_EQ(stats(a).arena_bytes, 14 * GRANULE);
    end(a);
}

/* A smaller request in a slot commits what it uses; a trim sees the rest of the slot as idle. */
static void test_smaller(void)
{
    void *p[12];
    builder b = row(12, 12);
    stw_allocator *a = make(&b, NULL);
    for (uint32_t i = 0; i < 12; i++)
        p[i] = get(a, 8); /* the first two may only pass for the entry */
    CHECK_EQ(stats(a).hits, 10);
    CHECK_EQ(place(a, p[11]), 16 * 11);
    uint64_t guests = stats(a).guests, arena = stats(a).arena_bytes;
    CHECK(arena >= 10 * GRANULE && arena <= (10 + 2 * guests) * GRANULE);
    for (uint32_t i = 0; i < 12; i++)
        stw_free(a, p[i]);
    step(a, 12, p);
    stw_trim(a);
    CHECK_EQ(stats(a).arena_bytes, 0);
    for (uint32_t i = 0; i < 12; i++)
        p[i] = get(a, i % 2 ? 15 : 16);
    CHECK_EQ(stats(a).arena_bytes, 24 * GRANULE);
    end(a);
}

/* The capacity is what the arena needs, and the heap holds some of it. */
static void test_pressure(void)
{
    void *p[8];
    builder b = row(8, 8);
    stw_options o = {.capacity_bytes = 16 * GRANULE, .still = 1};
    stw_allocator *a = make(&b, &o);
    void *q = stw_malloc(a, 6 * GRANULE, 7); /* a stream that the plan does not know */
    for (uint32_t i = 0; i < 5; i++)
        CHECK_EQ(place(a, p[i] = get(a, i % 2 ? 15 : 16)), 16 * i);
    CHECK(get(a, 15) == NULL); /* neither the arena nor the heap has memory; without a trace */
    CHECK_EQ(stats(a).failed, 1);
    CHECK_EQ(stats(a).reserved_bytes, 16 * GRANULE);
    stw_free(a, q);
    CHECK_EQ(place(a, p[6] = get(a, 16)), 16 * 6); /* the heap's went back for it: two granules and one, a sixteenth of all, */
    CHECK_EQ(stats(a).returned_bytes, 3 * GRANULE);
    CHECK_EQ(place(a, p[7] = get(a, 15)), 16 * 7); /* and one */
    CHECK_EQ(stats(a).trims, 2);
    CHECK_EQ(stats(a).returned_bytes, 4 * GRANULE);
    for (uint32_t i = 0; i < 8; i++)
        CHECK_EQ(stw_free(a, i == 5 ? NULL : p[i]), 0);
    q = stw_malloc(a, 15 * GRANULE, 7); /* and the arena's for the heap */
    CHECK(q != NULL);
    CHECK_EQ(stats(a).arena_bytes, 0);
    CHECK(stw_malloc(a, 2 * GRANULE, 7) == NULL);
    stw_free(a, q);
    step(a, 8, p);
    CHECK_EQ(stats(a).reserved_bytes, 16 * GRANULE);
    CHECK_EQ(stats(a).hits, 15);
    end(a);
}

/* The backend refuses planned memory once: the heap helps out, and the next step is as any. */
static void test_refused(void)
{
    void *p[8];
    for (long k = 1; k <= 8; k++) {
        builder b = row(8, 8);
        stw_allocator *a = make(&b, NULL);
        memory.fail_at = memory.calls + k;
        step(a, 8, p);
        stw_stats s = stats(a);
        CHECK_EQ(s.conflicts, 1);
        CHECK_EQ(s.hits, 7);
        CHECK_EQ(s.failed, 0);
        step(a, 8, p);
        CHECK_EQ(stats(a).hits, 15);
        end(a);
    }
}

/* A heap beside an idle arena takes its place, and gives it back; with still it does not; and there is so much of it
 * to be had, and no more. */
static void test_moves(void)
{
    void *p[8];
    for (int still = 0; still < 2; still++) {
        builder b = row(8, 8);
        stw_options o = {.still = still};
        stw_allocator *a = make(&b, &o);
        step(a, 8, p);
        void *q = stw_malloc(a, 10 * GRANULE, 7);
        CHECK_EQ(stats(a).reserved_bytes, (still ? 26 : 16) * GRANULE);
        CHECK_EQ(stats(a).moved_bytes, still ? 0 : 10 * GRANULE);
        stw_free(a, q);
        step(a, 8, p);
        CHECK_EQ(stats(a).hits, 16);
        CHECK_EQ(stats(a).moves > 1, !still);
        CHECK_EQ(stats(a).peak_reserved_bytes, (still ? 26 : 16) * GRANULE);
        end(a);
    }
    builder b = row(8, 8);
    stw_allocator *a = make(&b, NULL);
    uint64_t before, at_most = ARENAS * 16 * GRANULE;
    do {
        before = stats(a).moved_bytes;
        step(a, 8, p);
        stw_free(a, stw_malloc(a, 16 * GRANULE, 7));
        stw_reset_peaks(a); /* what was reserved once counts all the same */
    } while (stats(a).moved_bytes > before);
    CHECK(before > at_most / 2 && before <= at_most + at_most / 8);
    CHECK(stats(a).reserved_bytes > 16 * GRANULE && stats(a).reserved_bytes <= 32 * GRANULE);
    end(a);
}

static void hear(void *ctx, const char *text)
{
    snprintf(ctx, 400, "%s", text);
}

/* A program that does not do what the plan says: moves are used up, the plan is set aside, no address of the arena is given, and the
 * total stays. After 128 steps on plan, twice as many for the second time, the plan is back. */
static void test_set_aside(void)
{
    void *p[8];
    builder b = row(8, 8);
    char said[400] = "";
    stw_options o = {.say = hear, .say_ctx = said};
    stw_allocator *a = make(&b, &o);
    for (uint64_t time = 1; time <= 2; time++) {
        for (uint32_t i = 0; stats(a).set_aside < time; i++) {
            step(a, 8, p);
            stw_free(a, stw_malloc(a, 16 * GRANULE, 0)); /* of the plan's stream, and no entry of it */
            CHECK(i < 10 * time * ARENAS);
        }
        CHECK(strstr(said, "the plan is set aside") != NULL);
        CHECK(stats(a).reserved_bytes <= 17 * GRANULE);
        const uint64_t hits = stats(a).hits, conflicts = stats(a).conflicts;
        for (uint64_t i = 0; i <= 128 * time; i++) { /* the stray is in the first */
            for (uint32_t k = 0; k < 8; k++) {
                p[k] = get(a, k % 2 ? 15 : 16);
                CHECK((char *)p[k] < (char *)stw_arena(a) || (char *)p[k] >= (char *)stw_arena(a) + 16 * GRANULE || i == 128 * time); /* the last entry of the last lap brings it back */
            }
            for (uint32_t k = 0; k < 8; k++)
                stw_free(a, p[k]);
        }
        CHECK_EQ(stats(a).hits, hits + 1);
        CHECK_EQ(stats(a).conflicts, conflicts + 8 * (128 * time + 1) - 1);
        step(a, 8, p);
        CHECK_EQ(stats(a).hits, hits + 9);
        CHECK(stats(a).peak_reserved_bytes <= 17 * GRANULE);
    }
    end(a);
}

int main(void)
{
    test_by_need();
    test_smaller();
    test_pressure();
    test_refused();
    test_moves();
    test_set_aside();
    return check_end("test_commit");
}
