/* test_plan.c: planned addresses that collide with reality: late frees, extra, missing, swapped and
 * resized requests, streams, marks, a program that is elsewhere.
 */
#include "scene.h"

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

/* Addresses of the arena at which nothing lives: within an allocation, in the one that begins at one of its atoms, in a gap, behind the
 * last, and where something has been. */
static void test_bad_free(void)
{
    builder b = {0};
    builder_stream(&b, 0, 0, 40);
    builder_entry(&b, builder_planned(&b, 0, 0, 20), 1);
    builder_entry(&b, builder_planned(&b, 0, 10, 5), 1);
    builder_entry(&b, builder_planned(&b, 0, 30, 10), 1);
    stw_allocator *a = make(&b, NULL);
    char *p = get(a, 20);
    CHECK_EQ(place(a, p), 0);
    static const uint32_t wrong[] = {1, 10, 15, 20, 30, 40, 41}; /* units */
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        CHECK_EQ(stw_free(a, p + wrong[i] * 512), -1);
        CHECK_EQ(stw_record_stream(a, p + wrong[i] * 512, 1), -1);
        CHECK_EQ(stw_size(a, p + wrong[i] * 512), 0);
    }
    CHECK_EQ(stw_free(a, p + 1), -1);
    CHECK_EQ(stw_size(a, p), 20 * 512);
    CHECK_EQ(stw_free(a, p), 0);
    CHECK_EQ(stw_free(a, p), -1);
    CHECK_EQ(stats(a).bad_free, sizeof wrong / sizeof *wrong + 2);
    CHECK_EQ(place(a, get(a, 5)), 10); /* nothing was freed by mistake, and nothing is held */
    end(a);
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
    CHECK_EQ(pass(a, 0, 0, -1, 50), STEP - 1);
    CHECK_EQ(pass(a, 0, 0, -1, -9), STEP); /* and then all is well again */
    stw_stats s = stats(a);
    CHECK_EQ(s.restarts, 0);
    CHECK(s.slow > 0 && s.slow < 60); /* back on the fast path a few requests later */
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

    builder few = {0}; /* smaller sits in the slot once two others were, by the same factor; larger never does */
    builder_stream(&few, 0, 0, 800);
    for (uint32_t i = 0; i < 4; i++)
        builder_entry(&few, builder_planned(&few, 0, i * 200, i % 2 ? 160 : 200), 1);
    a = make(&few, NULL);
    void *p = get(a, 100);
    CHECK_EQ(place(a, p), 0); /* it passes for the entry: a guest, for as long as that lives */
    stw_free(a, p);
    p = get(a, 80);
    stw_free(a, p);
    CHECK_EQ(stats(a).unknown, 2);
    p = get(a, 100);
    CHECK_EQ(place(a, p), 400);
    stw_free(a, p);
    p = get(a, 70); /* not in proportion */
    CHECK_EQ(stats(a).unknown, 3);
    CHECK_EQ(stats(a).guests, 3);
    stw_free(a, p);
    p = get(a, 100);
    CHECK_EQ(place(a, p), 0);
    CHECK_EQ(stats(a).live_bytes, 100 * 512);
    CHECK_EQ(stats(a).hits, 2);
    stw_free(a, p);
    void *q = get(a, 80);
    CHECK_EQ(place(a, q), 200);
    p = get(a, 601);
    CHECK(place(a, p) >= 800 || place(a, p) < 0);
    CHECK_EQ(stats(a).too_large, 1);
    CHECK_EQ(stats(a).static_fallback_bytes, 601 * 512);
    stw_free(a, q);
    stw_free(a, p);
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

/* Small requests look alike: the frees before them are part of what is expected. */
static void test_frees_count(void)
{
    builder b = {0};
    builder_stream(&b, 0, 0, 16);
    for (uint32_t i = 0; i < 4; i++)
        builder_entry_nf(&b, builder_planned(&b, 0, i * 4, 4), 1, i ? 1 : 0, 1);
    stw_allocator *a = make(&b, NULL);
    for (uint32_t i = 0; i < 8; i++) {
        void *p = get(a, 4);
        CHECK_EQ(place(a, p), i % 4 * 4);
        stw_free(a, p);
    }
    CHECK_EQ(stats(a).slow, 0);
    void *p = get(a, 4);
    CHECK_EQ(stats(a).slow, 0);
    get(a, 4); /* nothing was freed before it */
    CHECK_EQ(stats(a).slow, 1);
    stw_free(a, p);
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
    builder_mark(&b, 20, STW_MARK_ITERATION, 1, NULL);
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
        {STW_MARK_ITERATION, 3, NULL, 10},   /* any other: the loop's nearest */
        {STW_MARK_PHASE, 0, "backward", 20}, /* ahead */
        {STW_MARK_PHASE, 0, "forward", 24},  /* 4 ahead, 6 behind */
        {STW_MARK_PHASE, 0, "forward", 24},  /* here */
        {STW_MARK_PHASE, 0, "backward", 20}, /* 4 behind; 16 ahead round the loop */
        {STW_MARK_PHASE, 0, "end", 10},      /* after the last entry: where the loop begins */
        {STW_MARK_PHASE, 0, "nowhere", 10},
        {STW_MARK_PHASE, 0, "backward", 20},
        {STW_MARK_ITERATION, 0, NULL, 20},   /* here, whatever its number */
        {STW_MARK_PHASE, 0, "forward", 24},
        {STW_MARK_ITERATION, 0, NULL, 20},   /* 4 behind; 6 ahead round the loop */
    };
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        stw_mark(a, steps[i].kind, steps[i].value, steps[i].name);
        CHECK_EQ(stats(a).position, steps[i].want);
    }
    CHECK_EQ(stats(a).resyncs, 9);
    CHECK_EQ(place(a, get(a, 16)), 20 * 16);
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

/* The program goes on elsewhere in the plan, too far for a gap, and nothing says so: entries of other
 * sizes must not pass for the right ones for ever. One request stays alive, or the next step would begin anew. */
static void test_jump(void)
{
    builder b = ladder(400);
    stw_allocator *a = make(&b, NULL);
    uint64_t before = 0;
    for (size_t i = 0; i < 1200; i++) {
        if (i == 240)
            before = stats(a).hits;
        void *p = get(a, 20 + (i < 100 ? i : i + 200) % 400);
        if (i != 1)
            stw_free(a, p);
    }
    stw_stats s = stats(a);
    CHECK_EQ(s.restarts, 1);
    CHECK_EQ(s.conflicts, 2); /* with the one that stays */
    CHECK_EQ(s.hits - before, 1200 - 240 - 2); /* as planned again after some hundred and forty requests */
    end(a);
}

/* A dynamic request goes where nothing is live and nothing planned comes before its death:
 *
 *     units   0    10    20    30    40        A [0,10) lives on, B [10,20) and C [20,40) are dead
 *             |-A--|--B--|-----C-----|         when D comes; B comes again before D dies (list 0)
 */
static void test_guests(void)
{
    const uint32_t needs[] = {1, 0, 1, 10, 20};
    builder b = {.arena_units = 40, .extra_kind = STW_SECTION_NEEDS, .extra_flags = STW_SECTION_OPTIONAL,
                 .extra_text = needs, .extra_bytes = sizeof needs};
    builder_stream(&b, 0, 0, 40);
    builder_entry(&b, builder_planned(&b, 0, 0, 10), 100);
    builder_entry(&b, builder_planned(&b, 0, 10, 10), 1);
    builder_entry(&b, builder_planned(&b, 0, 20, 20), 1);
    uint32_t d = builder_dynamic(&b, 0, 1, 20);
    b.slots[d].aux = 1;
    builder_entry(&b, d, 2);
    builder_entry(&b, builder_planned(&b, 0, 10, 10), 1);
    b.loop_start = b.n_entries;
    stw_allocator *a = make(&b, NULL);
    void *pa = get(a, 10);
    stw_free(a, get(a, 10));
    stw_free(a, get(a, 20));
    void *guest = get(a, 7);
    CHECK_EQ(place(a, guest), 20); /* not at 10: the list names it */
    stw_stats s = stats(a);
    CHECK_EQ(s.guests, 1);
    CHECK_EQ(s.dynamic, 1);
    CHECK_EQ(s.heap_live_bytes, 0);
    void *again = get(a, 10);
    CHECK_EQ(place(a, again), 10);
    stw_free(a, again);
    stw_free(a, pa);
    /* The pass again, the guest still there: C finds its range occupied. It dies before anything planned
     * begins, and the heap would have to commit memory: it is a guest, where A and B were. */
    stw_free(a, get(a, 10));
    stw_free(a, get(a, 10));
    void *c = get(a, 20);
    CHECK_EQ(place(a, c), 0);
    CHECK_EQ(stats(a).conflicts, 1);
    CHECK_EQ(stats(a).guests, 2);
    CHECK_EQ(stats(a).sweeps, 1);
    CHECK_EQ(stats(a).heap_live_bytes, 0);
    stw_free(a, c);
    stw_free(a, guest);
    end(a);
}

/* Requests that no entry explains: first what the heap has, then where they are in nobody's way for
 * longest, then more of the heap.
 *
 *     units   0    10    20         80         a step of 64 entries: A and then 63 times B
 *             |-A--|--B--|----C----|           C is only asked for before the loop
 */
static void test_unknown_guests(void)
{
    builder b = {.arena_units = 80};
    builder_stream(&b, 0, 0, 80);
    builder_entry(&b, builder_planned(&b, 0, 20, 60), 1);
    b.loop_start = b.n_entries;
    builder_entry(&b, builder_planned(&b, 0, 0, 10), 64);
    uint32_t slot = builder_planned(&b, 0, 10, 10);
    for (int i = 0; i < 63; i++)
        builder_entry(&b, slot, 1);
    stw_allocator *a = make(&b, NULL);
    stw_free(a, get(a, 60));
    stw_free(a, get(a, 10)); /* early: it votes for the next step's A */
    void *x = get(a, 50), *y;
    stw_free(a, get(a, 10));
    stw_free(a, get(a, 10));
    y = get(a, 55); /* C's place is never wanted again: room for one of them */
    CHECK_EQ(place(a, x), 20);
    CHECK(place(a, y) < 0 || place(a, y) >= 80);
    stw_stats s = stats(a);
    CHECK_EQ(s.unknown, 2);
    CHECK_EQ(s.guests, 1);
    CHECK_EQ(s.sweeps, 2);
    stw_free(a, y);
    CHECK_EQ((uintptr_t)get(a, 55), (uintptr_t)y); /* what the heap has is taken first, without a look */
    CHECK_EQ(stats(a).sweeps, 2);
    stw_free(a, x);
    end(a);
}

/* An exception: all of the iteration dies, and the next begins, with no mark to say so. */
static void test_anew(void)
{
    builder b = ladder(60);
    stw_allocator *a = make(&b, NULL);
    void *live[60];
    for (size_t step = 0; step < 6; step++) {
        size_t n = step % 2 == 0 ? 60 : 25 + step; /* every other one is abandoned */
        uint64_t hits = stats(a).hits;
        for (size_t i = 0; i < n; i++)
            live[i] = get(a, 20 + i);
        for (size_t i = n; i > 0; i--)
            stw_free(a, live[i - 1]);
        CHECK_EQ(stats(a).hits - hits, n);
    }
    CHECK_EQ(stats(a).restarts, 0);
    end(a);
}

int main(void)
{
    test_guests();
    test_unknown_guests();
    test_anew();
    test_late_free();
    test_bad_free();
    test_divergence();
    test_resized();
    test_wrap();
    test_frees_count();
    test_streams();
    test_marks();
    test_restart();
    test_jump();
    return check_end("test_plan");
}
