/* stw_idle.c: a search among the free runs of atoms of the arena, for idle space (stw_guest.c).
 *
 * Reading all of the occupancy would do, but where there are many runs, too small for what is asked. So for each word of 64 atoms its `room` says
 * what may be found there, and 32 words are asked at once. It promises this of any stretch of free atoms, be it a run or a part of one: it is
 * no larger than the largest room of the words it touches.
 *
 *     words      |        |        |        |        |
 *     free           -----------------------------
 *     room         12       40        9       3            40 units at most
 *
 * Only what comes free can make a stretch larger, and only one that has those atoms: their words are said to be roomy, one word
 * for nearly every free, and the promise is kept. Requests that take atoms have nothing to say. A search that finds less in a word than its room
 * lowers it to the largest run that touches the word. So what is too small is looked at once for each time that something came or went there; a
 * search costs atoms / 2048 looks, the runs that are large enough, as many as it wants, their words, eight at a time, and a few words for each range.
 */
#include "stw_idle.h"

#include "stw_bits.h"
#include "stw_table.h"

#include <string.h>

typedef int16_t eight __attribute__((vector_size(16)));
typedef uint64_t two __attribute__((vector_size(16)));

/* Lane k is not 0 where class k is above `below`. */
static inline two above(const uint16_t *classes, eight below)
{
    eight v;
    memcpy(&v, classes, sizeof v);
    return (two)(v > below);
}

uint32_t stwi_class_far(const uint16_t *classes, uint32_t i, uint32_t end, uint16_t least)
{
    const int16_t l = (int16_t)(least - 1);
    const eight below = {l, l, l, l, l, l, l, l};
    for (; i < end; i += 8) {
        for (; i + 32 <= end; i += 32) {
            const two any = above(classes + i, below) | above(classes + i + 8, below) | above(classes + i + 16, below) | above(classes + i + 24, below);
            if ((any[0] | any[1]) != 0)
                break;
        }
        const two v = above(classes + i, below);
        if ((v[0] | v[1]) != 0) {
            i += v[0] != 0 ? (uint32_t)__builtin_ctzll(v[0]) / 16 : 4 + (uint32_t)__builtin_ctzll(v[1]) / 16;
            break;
        }
    }
    return i < end ? i : end;
}

static bool has(const uint64_t *bits, uint32_t atom)
{
    return bits[atom >> 6] >> (atom & 63) & 1;
}

bool stwi_idle_make(stw_idle *i, uint32_t n_atoms)
{
    *i = (stw_idle){.n_atoms = n_atoms, .words = n_atoms / 64 + 1};
    i->mapped_bytes = (i->words + (size_t)STW_CLASS_PAD) * sizeof *i->room;
    if ((i->room = stwi_map(i->mapped_bytes)) == NULL)
        return false;
    stwi_idle_forget(i);
    return true;
}

void stwi_idle_drop(stw_idle *i)
{
    stwi_unmap(i->room, i->mapped_bytes);
}

void stwi_idle_forget(stw_idle *i)
{
    for (uint32_t w = 0; w < i->words; w++)
        stwi_idle_more(i, w);
}

/* A run has `units`: it is kept if it is the smallest so far. What is too small wraps to no less than over is at first. No branch: one
 * run is as good as random after the other. */
static inline void note(stw_search *s, uint32_t from, uint32_t units)
{
    const uint32_t over = units - s->units;
    const bool better = over < s->over;
    s->fits -= units >= s->units;
    s->from = better ? from : s->from;
    s->over = better ? over : s->over;
}

/* It could find nothing better. */
static inline bool over(const stw_search *s)
{
    return s->fits == 0 || s->over == 0;
}

/* Lowers the room of word w to the largest run that touches it, and of the words that its last run fills to that one. */
static __attribute__((noinline)) void lower(stw_idle *i, const uint32_t *bounds, const uint64_t *occupied, uint32_t w)
{
    const uint32_t at = w << 6, end = at + 64 < i->n_atoms ? at + 64 : i->n_atoms;
    uint32_t largest = 0, units = 0, from = (uint32_t)stwi_bits_next(occupied, at, end, false), to = from;
    if (from == at)
        from = (uint32_t)stwi_bits_last(occupied, 0, at, true);
    for (; to < end; from = to = (uint32_t)stwi_bits_next(occupied, to, end, false)) {
        to = (uint32_t)stwi_bits_next(occupied, to, i->n_atoms, true);
        units = bounds[to] - bounds[from];
        largest = units > largest ? units : largest;
    }
    i->room[w] = stwi_class(largest);
    for (uint32_t k = w + 1; k < to >> 6; k++)
        i->room[k] = stwi_class(units);
    i->steps += 1 + to / 64 - from / 64;
}

static inline two pair(const uint64_t *words)
{
    two v;
    memcpy(&v, words, sizeof v);
    return v;
}

/* The first word from w on that has a busy atom, or `last`. Not inline: the search has no registers to spare. */
static __attribute__((noinline)) uint32_t skip_idle(const uint64_t *occupied, uint32_t w, uint32_t last)
{
    while (w < last && occupied[w] == 0) {
        w++;
        for (; w % 8 == 0 && w + 8 <= last; w += 8) {
            const two any = pair(occupied + w) | pair(occupied + w + 2) | pair(occupied + w + 4) | pair(occupied + w + 6);
            if ((any[0] | any[1]) != 0)
                break;
        }
    }
    return w;
}

/* Looks at the parts of runs in the atoms [from, to), the lowest first; returns the words and runs it looked at. */
static inline uint64_t search_range(stw_idle *i, const uint32_t *bounds, const uint64_t *occupied, uint32_t from, uint32_t to, uint16_t class,
                                    stw_search *search)
{
    const uint32_t first = from >> 6, last = (to - 1) >> 6;
    stw_search s = *search;
    const uint32_t whole = (from + 63) >> 6, part = to == i->n_atoms ? last + 1 : to >> 6; /* words from `whole` on, before `part`, are seen whole */
    uint64_t open = 0, steps = 1; /* open: the atom before is free, the run begins at `begin` */
    uint32_t begin = 0, vain = STW_NOWHERE; /* vain: the word in which it begins, if nothing fits there but perhaps that run */
    for (uint32_t w = first; w <= last;) {
        if (!open && i->room[w] < class) {
            steps++;
            w = stwi_class_next(i->room, w + 1, last + 1, class);
            if (w > last)
                break;
            open = !has(occupied, (w << 6) - 1); /* w is not the first word */
            if (open)
                begin = (uint32_t)stwi_bits_last(occupied, from, w << 6, true);
        }
        const uint32_t at = w << 6, fits = s.fits;
        uint64_t idle = ~occupied[w];
        if (w == first)
            idle &= ~UINT64_C(0) << (from & 63);
        if (w == last)
            idle &= ~UINT64_C(0) >> (63 - ((to - 1) & 63));
        steps++;
        if ((idle | open) == 0) { /* nothing free */
            if (w >= whole && w < part)
                i->room[w] = 0;
            w++;
            continue;
        }
        const uint64_t before = idle << 1 | open;
        uint64_t begins = idle & ~before, ends = before & ~idle;
        if (open && ends != 0) { /* what changes first is its end */
            note(&s, begin, bounds[at + (uint32_t)__builtin_ctzll(ends)] - bounds[begin]);
            ends &= ends - 1;
            if (vain != STW_NOWHERE && s.fits == fits)
                lower(i, bounds, occupied, vain);
            vain = STW_NOWHERE;
        }
        for (; ends != 0 && !over(&s); begins &= begins - 1, ends &= ends - 1) {
            begin = at + (uint32_t)__builtin_ctzll(begins);
            note(&s, begin, bounds[at + (uint32_t)__builtin_ctzll(ends)] - bounds[begin]);
            steps++;
        }
        if (over(&s))
            break;
        const bool seen = s.fits == fits && w >= whole && w < part && i->room[w] >= class; /* and nothing found that fits, so far */
        open = idle >> 63;
        if (begins != 0) {
            begin = at + (uint32_t)__builtin_ctzll(begins);
            vain = seen ? w : STW_NOWHERE;
        } else if (seen && !open) {
            lower(i, bounds, occupied, w);
        }
        w++;
        if (open)
            w = skip_idle(occupied, w, last);
    }
    if (open && !over(&s))
        note(&s, begin, bounds[to] - bounds[begin]);
    *search = s;
    return steps;
}

bool stwi_idle_search(stw_idle *i, const uint32_t *bounds, const uint64_t *occupied, const stw_atoms *ranges, uint32_t n, stw_search *search)
{
    const uint16_t class = stwi_class(search->units);
    stw_search s = *search;
    uint64_t steps = 0;
    for (uint32_t k = 0; k < n && !over(&s); k++)
        steps += search_range(i, bounds, occupied, ranges[k].begin, ranges[k].end, class, &s);
    i->steps += steps;
    *search = s;
    return over(&s);
}

const char *stwi_idle_check(const stw_idle *i, const uint32_t *bounds, const uint64_t *occupied)
{
    for (uint32_t begin = 0, end; begin < i->n_atoms; begin = end + 1) {
        for (end = begin; end < i->n_atoms && !has(occupied, end);)
            end++;
        for (uint32_t w = begin >> 6; begin < end && w <= (end - 1) >> 6; w++) {
            uint16_t room = 0;
            for (uint32_t k = w; k <= (end - 1) >> 6 && room < STW_ROOMY; k++) {
                const uint32_t from = w << 6 > begin ? w << 6 : begin, to = (k + 1) << 6 < end ? (k + 1) << 6 : end;
                room = i->room[k] > room ? i->room[k] : room;
                if (room < stwi_class(bounds[to] - bounds[from]))
                    return "a stretch of free atoms is larger than the room of its words";
            }
        }
    }
    return NULL;
}
