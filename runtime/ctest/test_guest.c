/* test_guest.c: the search for idle arena space against the plainest one there is: one atom at a time.
 * A random script of planned and dynamic requests and frees, long stretches and short ones, over
 * thousands of atoms and two streams, is played on a table of atoms; what it asked for, in that order, is
 * the plan. Played again on the allocator in sync with it, every block must lie where the table says.
 */
#include "scene.h"

enum { ATOMS = 6000, LISTS = 8, MANY = 600, STEPS = CHECK_SANITIZED ? 3000 : 30000 };

typedef struct {
    uint32_t begin, end; /* atoms; begin == end: it went to the heap */
    void *p;
} block;

/* One step of the script: a request, or the free of block `block`. */
typedef struct {
    uint32_t block, units, stream;
    bool free;
} step;

static uint64_t seed;
static uint32_t split; /* where the second stream begins */
static uint32_t bounds[ATOMS + 1];
static bool busy[ATOMS], needed[LISTS][ATOMS];
static uint32_t needs[2 + LISTS + 1 + 2 * (LISTS * LISTS + MANY)];
static block blocks[STEPS];
static step steps[STEPS];
static uint32_t live[STEPS], n_blocks, n_live; /* live: of the table, indexes in blocks */

static uint32_t draw(uint32_t n)
{
    return (uint32_t)(check_random(&seed) % n);
}

static uint32_t draw_length(void) /* mostly short, of all magnitudes */
{
    return 1 + draw(1u << draw(11));
}

/* Lists of needs, the first one empty, the last one of very many ranges; returns the bytes. */
static size_t make_needs(void)
{
    uint32_t n = 0, *starts = needs + 1, *range = starts + LISTS + 1;
    needs[0] = LISTS;
    for (uint32_t l = 0; l < LISTS; l++) {
        starts[l] = n;
        uint32_t at = draw(600);
        const bool many = l + 1 == LISTS;
        for (uint32_t k = 0; k < (many ? MANY : l) && at < ATOMS; k++) {
            uint32_t end = at + (many ? 1 + draw(8) : draw_length());
            end = end < ATOMS ? end : ATOMS;
            range[2 * n] = bounds[at];
            range[2 * n++ + 1] = bounds[end];
            for (; at < end; at++)
                needed[l][at] = true;
            at += 1 + (many ? draw(12) : draw_length());
        }
    }
    starts[LISTS] = n;
    return (size_t)(2 + LISTS + 2 * n) * sizeof *needs;
}

/* The rule of MATCHER.md, word by word, an atom at a time. */
static block find(uint32_t from, uint32_t to, const bool *without, uint32_t units)
{
    block best = {0};
    uint32_t least = UINT32_MAX, ranges = 12, fits = 7;
    for (uint32_t i = from, end; i < to && ranges > 0; i = end + 1) {
        for (end = i; end < to && !without[end];)
            end++;
        if (bounds[end] - bounds[i] < units)
            continue;
        ranges--;
        for (uint32_t run; i < end && fits > 0; i++) {
            for (run = i; i < end && !busy[i];)
                i++;
            uint32_t room = bounds[i] - bounds[run];
            fits = room >= units && room - units <= units / 8 ? 0 : fits - (room >= units);
            if (room >= units && room < least) {
                least = room;
                best.begin = run;
            }
        }
    }
    if (least == UINT32_MAX)
        return best;
    /* It covers whole atoms. */
    for (best.end = best.begin; bounds[best.end] < bounds[best.begin] + units;)
        best.end++;
    return best;
}

static void set(const block *b, bool value)
{
    for (uint32_t i = b->begin; i < b->end; i++)
        busy[i] = value;
}

/* Draws one step and notes it in the table and in the plan; false: nothing was possible. Frees are more
 * often drawn than requests, or less: the arena is nearly full at times and nearly empty at others. */
static bool draw_step(builder *b, step *s, bool ebb)
{
    *s = (step){n_blocks, 0, draw(3) == 0, draw(10) < (ebb ? 7 : 3)};
    uint32_t from = s->stream ? split : 0, to = s->stream ? ATOMS : split;
    if (s->free) {
        if (n_live == 0)
            return false;
        uint32_t i = draw(n_live);
        s->block = live[i];
        live[i] = live[--n_live];
        set(&blocks[s->block], false);
        return true;
    }
    block *k = &blocks[n_blocks];
    if (draw(2)) { /* planned: a stretch that is free */
        k->begin = k->end = from + draw(to - from);
        for (uint32_t most = k->begin + draw_length(); k->end < to && k->end < most && !busy[k->end];)
            k->end++;
        if (k->begin == k->end)
            return false;
        s->units = bounds[k->end] - bounds[k->begin];
        builder_entry(b, builder_planned(b, s->stream, bounds[k->begin], s->units), 1);
    } else {
        uint32_t list = draw(LISTS), d = builder_dynamic(b, s->stream, 1, 1 << 20);
        s->units = draw_length() * (1 + draw(100));
        *k = find(from, to, needed[list], s->units);
        b->slots[d].aux = (uint16_t)(1 + list);
        builder_entry(b, d, 1);
    }
    set(k, true);
    live[n_live++] = n_blocks++;
    return true;
}

static void play(uint64_t number)
{
    seed = number;
    split = ATOMS / 2 + draw(ATOMS / 3);
    if (number % 2 == 0)
        split -= split % 64; /* a run may end with the last bit of a word, and the stream there */
    memset(busy, 0, sizeof busy);
    memset(needed, 0, sizeof needed);
    n_blocks = n_live = 0;
    for (uint32_t i = 0; i < ATOMS; i++)
        bounds[i + 1] = bounds[i] + 1 + draw(draw(50) ? 8 : 800);
    builder b = {.arena_units = bounds[ATOMS], .extra_kind = STW_SECTION_NEEDS, .extra_flags = STW_SECTION_OPTIONAL,
                 .extra_text = needs};
    b.extra_bytes = make_needs();
    builder_stream(&b, 0, 0, bounds[split]);
    builder_stream(&b, 1, bounds[split], bounds[ATOMS]);
    for (uint32_t i = 0; i < ATOMS; i++) /* nobody asks for these: they make the atoms */
        builder_planned(&b, i >= split, bounds[i], bounds[i + 1] - bounds[i]);
    for (int i = 0; i < 20; i++) { /* what is kept is needed by every list */
        uint32_t from = draw(ATOMS), stop = from < split ? split : ATOMS, to = from + draw_length();
        to = to < stop ? to : stop;
        b.slots[builder_planned(&b, from >= split, bounds[from], bounds[to] - bounds[from])].flags |= STW_SLOT_KEPT;
        for (uint32_t l = 0; l < LISTS; l++)
            memset(needed[l] + from, true, to - from);
    }
    uint32_t n = 0, placed = 0;
    for (int i = 0; i < STEPS; i++)
        n += draw_step(&b, &steps[n], i / 500 % 2);

    stw_allocator *a = make(&b, NULL);
    for (uint32_t i = 0; i < n; i++) {
        block *k = &blocks[steps[i].block];
        if (steps[i].free) {
            CHECK_EQ(stw_free(a, k->p), 0);
            continue;
        }
        k->p = stw_malloc(a, (size_t)steps[i].units * 512, steps[i].stream);
        int64_t at = place(a, k->p);
        bool inside = at >= 0 && at < bounds[ATOMS];
        CHECK_EQ(inside, k->begin < k->end);
        CHECK(!inside || at == bounds[k->begin]);
        placed += inside;
    }
    stw_stats s = stats(a);
    CHECK_EQ(s.atoms, ATOMS);
    CHECK_EQ(s.hits + s.guests, placed);
    CHECK_EQ(s.hits + s.dynamic, s.requests);
    CHECK(s.hits > 0 && s.guests > 0 && s.dynamic > s.guests);
    printf("%u blocks: %llu planned, %llu guests, %llu found no place\n", n_blocks, (unsigned long long)s.hits,
           (unsigned long long)s.guests, (unsigned long long)(s.dynamic - s.guests));
    for (uint32_t i = 0; i < n_live; i++)
        CHECK_EQ(stw_free(a, blocks[live[i]].p), 0);
    end(a);
}

/* More units than 32 bits count: the idle arena is not large enough, even where their low bits are. */
static void largest(void)
{
    builder b = {0};
    builder_stream(&b, 0, 0, 64);
    builder_entry(&b, builder_planned(&b, 0, 0, 64), 1);
    stw_allocator *a = make(&b, NULL);
    CHECK_EQ(stw_free(a, stw_malloc(a, 64 * 512, 0)), 0);
    CHECK(stw_malloc(a, ((size_t)512 << 32) + 512, 0) == NULL);
    CHECK_EQ(stats(a).sweeps, 1);
    CHECK_EQ(stats(a).guests, 0);
    end(a);
}

int main(void)
{
    largest();
    for (uint64_t i = 1; i <= (CHECK_SANITIZED ? 2 : 8); i++)
        play(i);
    return check_end("test_guest");
}
