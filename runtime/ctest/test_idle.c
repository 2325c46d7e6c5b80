/* test_idle.c: what is known of free runs, and the search among them, against the bitmap itself. Ranges are taken and
 * given back at random, many or few between two questions; then every tag must be right, and every search must end with what
 * reading the bitmap ends with. What a search costs is counted in steps, and bounded where it is meant to be.
 */
#include "check.h"
#include "../stw_bits.h"
#include "../stw_idle.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 40000, ROUNDS = CHECK_SANITIZED ? 300 : 3000 };

static uint64_t seed;
static uint32_t n_atoms;
static uint32_t bounds[MOST + 1];
static uint64_t occupied[MOST / 64 + 1];
static struct {
    uint32_t begin, end; /* atoms */
} live[MOST];
static uint32_t n_live;
static stw_idle idle;

static uint32_t draw(uint32_t n)
{
    return (uint32_t)(check_random(&seed) % n);
}

static bool busy(uint32_t atom)
{
    return occupied[atom >> 6] >> (atom & 63) & 1;
}

static void take(uint32_t begin, uint32_t end)
{
    stwi_bits_set(occupied, begin, end, true);
    if (draw(100))
        stwi_idle_taken(&idle, begin, end);
    else
        stwi_idle_unknown(&idle);
    live[n_live].begin = begin;
    live[n_live++].end = end;
}

static void give(uint32_t k)
{
    stwi_bits_set(occupied, live[k].begin, live[k].end, false);
    stwi_idle_freed(&idle, live[k].begin, live[k].end);
    live[k] = live[--n_live];
}

static void change(bool ebb)
{
    if (draw(10) < (ebb ? 7 : 3)) {
        if (n_live > 0)
            give(draw(4) ? draw(n_live) : n_live - 1);
        return;
    }
    uint32_t begin = draw(n_atoms), most = 1 + draw(1u << draw(11)), end = begin;
    while (end < n_atoms && end < begin + most && !busy(end))
        end++;
    if (begin < end)
        take(begin, end);
}

/* The rule of MATCHER.md, an atom at a time. */
static uint32_t plain_search(const stw_atoms *ranges, uint32_t n, uint32_t units)
{
    uint32_t best = STW_NOWHERE, least = UINT32_MAX, fits = 7;
    for (; n > 0; ranges++, n--)
        for (uint32_t i = ranges->begin; i < ranges->end && fits > 0; i++) {
            uint32_t run = i;
            while (i < ranges->end && !busy(i))
                i++;
            uint32_t room = bounds[i] - bounds[run];
            fits = room >= units && room - units <= units / 8 ? 0 : fits - (room >= units);
            if (room >= units && room < least) {
                best = run;
                least = room;
            }
        }
    return best;
}

static void compare(uint32_t units)
{
    stw_atoms ranges[8];
    uint32_t n = 0;
    for (uint32_t from = draw(2) ? draw(n_atoms) : 0; from < n_atoms && n < 8; from = ranges[n++].end + 1 + draw(100))
        ranges[n] = (stw_atoms){from, draw(3) ? from + 1 + draw(n_atoms - from) : n_atoms};
    stw_search s = stwi_search_for(units);
    uint32_t part = draw(n + 1);
    if (!stwi_idle_search(&idle, bounds, occupied, ranges, part, &s))
        stwi_idle_search(&idle, bounds, occupied, ranges + part, n - part, &s);
    CHECK_EQ(s.from, plain_search(ranges, n, units));
}

/* n atoms of at most `step` units; or a few that are much larger. */
static void begin(uint32_t n, uint32_t step, bool uneven)
{
    n_atoms = n;
    n_live = 0;
    memset(occupied, 0, sizeof occupied);
    for (uint32_t i = 0; i < n; i++)
        bounds[i + 1] = bounds[i] + 1 + draw(!uneven || draw(50) ? step : 100 * step);
    CHECK(stwi_idle_make(&idle, n));
}

static void right(void)
{
    const char *wrong = stwi_idle_check(&idle, bounds, occupied);
    if (wrong)
        puts(wrong);
    CHECK(!wrong);
}

static void play(uint32_t n, uint32_t step)
{
    begin(n, step, true);
    for (int i = 0; i < ROUNDS; i++) {
        for (uint32_t k = draw(1u << draw(9)); k > 0; k--)
            change(i / 300 % 2);
        right();
        for (int k = 0; k < 4; k++)
            compare(1 + draw(1u << draw(24)));
    }
    stwi_idle_drop(&idle);
}

static uint64_t steps_of(uint32_t from, uint32_t to, uint32_t units, bool *found)
{
    const uint64_t before = idle.steps;
    const stw_atoms range = {from, to};
    stw_search s = stwi_search_for(units);
    stwi_idle_search(&idle, bounds, occupied, &range, 1, &s);
    *found = s.from != STW_NOWHERE;
    return idle.steps - before;
}

/* 20,000 runs, of 1 unit to 20, and requests that fit none or few: what is too small is looked at once. */
static void too_small(void)
{
    bool found;
    begin(MOST, 20, false);
    for (uint32_t i = 1; i < MOST; i += 2)
        take(i, i + 1);
    right();
    CHECK(steps_of(0, MOST, 21, &found) < 2 * MOST && !found); /* the run that was there at first went on behind each of them */
    CHECK(steps_of(0, MOST, 21, &found) < 150 && !found);
    give(n_live - 1); /* the last run is larger now */
    right();
    CHECK(steps_of(0, MOST, 21, &found) < 150);
    for (int i = 0; i < 500; i++) { /* comes and goes: a word to look at again, at most */
        give(draw(n_live));
        right();
        steps_of(0, MOST, 41, &found);
        uint64_t again = steps_of(0, MOST, 41, &found);
        CHECK(again < (found ? 7 * 34 + 150 : 150)); /* what fits may lie in a word each, behind others there */
    }
    for (uint32_t units = 1; units <= 41; units++)
        compare(units);
    stwi_idle_drop(&idle);
}

/* A change costs a step, not a look at everything. */
static void at_once(void)
{
    bool found;
    begin(MOST, 8, false);
    for (uint32_t i = 0; i < MOST; i += 4)
        take(i, i + 2);
    right();
    for (int i = 0; i < 1000; i++) {
        uint64_t before = idle.steps;
        give(draw(n_live));
        steps_of(0, MOST, 1 + draw(8), &found);
        CHECK(found && idle.steps - before < 300);
    }
    right();
    stwi_idle_drop(&idle);
}

/* Classes keep the order of sizes, and the next that is large enough is found. */
static void classes(void)
{
    uint16_t c[200 + STW_CLASS_PAD] = {0};
    for (uint32_t i = 0; i < 4000; i++) {
        uint32_t a = (1 + draw(UINT32_MAX)) >> draw(32), b = (1 + draw(UINT32_MAX)) >> draw(32);
        a = a > 0 ? a : 1;
        b = b > 0 ? b : 1;
        CHECK(a <= b ? stwi_class(a) <= stwi_class(b) : stwi_class(a) >= stwi_class(b));
        CHECK(stwi_class(a) > 0 && stwi_class(a) < 1 << 15);
        c[draw(200)] = draw(20) ? 0 : stwi_class(a);
        uint32_t least = stwi_class(b), from = draw(200), end = from + draw(200 - from), k = from;
        while (k < end && c[k] < least)
            k++;
        CHECK_EQ(stwi_class_next(c, from, end, (uint16_t)least), k);
    }
    CHECK(stwi_class(UINT32_MAX) < 1 << 15);
}

int main(void)
{
    static const uint32_t sizes[] = {1, 2, 63, 64, 65, 127, 128, 1000, 4096, 4097, MOST};
    classes();
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        seed = 1 + i;
        play(sizes[i], i % 2 ? 8 : 5000);
    }
    too_small();
    at_once();
    return check_end("test_idle");
}
