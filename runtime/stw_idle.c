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
 * for nearly every free, and the promise is kept. A search that finds less in a word than its room
 * lowers it to the largest run that touches the word. So what is too small is looked at once for each time that something came or went there; a
 * search costs atoms / 2048 looks, the runs that are large enough, as many as it wants, their words, and a few words for each range. Ranges that
 * share a word are looked at together.
 *
 * A run that is long is not read from end to end: `busy` says of each word whether an atom of it may be taken, 64 words at once. Whoever takes
 * atoms says so, for the hot path whoever ends a run of steps (stw_step.c), one by one if they are few, else it may be anywhere. A search
 * that reads words and finds nothing there says so, too.
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
    const uint32_t busy = i->words / 64 + 1;
    i->mapped_bytes = busy * sizeof *i->busy + (i->words + (size_t)STW_CLASS_PAD) * sizeof *i->room;
    if ((i->busy = stwi_map(i->mapped_bytes)) == NULL)
        return false;
    i->room = (uint16_t *)(i->busy + busy);
    stwi_idle_forget(i);
    return true;
}

void stwi_idle_drop(stw_idle *i)
{
    stwi_unmap(i->busy, i->mapped_bytes);
}

void stwi_idle_forget(stw_idle *i)
{
    for (uint32_t w = 0; w < i->words; w++)
        stwi_idle_more(i, w);
}

void stwi_idle_unknown(stw_idle *i)
{
    stwi_bits_set(i->busy, 0, i->words, true);
}

/* A run has `units`: it is kept if it is the smallest so far. What is too small wraps to no less than over is at first. No branch: one
 * run is as good as random after the other. */
static inline void note(stw_search *s, uint32_t from, uint32_t units)
{
    uint32_t over;
    s->fits -= !__builtin_sub_overflow(units, s->units, &over);
    const bool better = over < s->over;
    s->from = better ? from : s->from;
    s->over = better ? over : s->over;
}

/* It need not find anything better. */
static inline bool over(const stw_search *s)
{
    return s->fits == 0 || s->over <= s->units / STW_NEAR;
}

/* The runs that begin and end in the word of atom `at`, whose bounds are at b. */
static inline void note_runs(stw_search *s, const uint32_t *b, uint32_t at, uint64_t begins, uint64_t ends, uint64_t *steps)
{
    for (; ends != 0 && !over(s); begins &= begins - 1, ends &= ends - 1) {
        const uint64_t from = (uint64_t)__builtin_ctzll(begins), to = (uint64_t)__builtin_ctzll(ends);
        note(s, at + (uint32_t)from, b[to] - b[from]);
        ++*steps;
    }
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

/* The first word from w on that may have a busy atom, or `last`, which is not below w. */
static inline uint32_t next_busy(const stw_idle *i, uint32_t w, uint32_t last)
{
    const uint64_t near = i->busy[w >> 6] >> (w & 63);
    if (near == 0)
        return (uint32_t)stwi_bits_next(i->busy, w, last, true);
    w += (uint32_t)__builtin_ctzll(near);
    return w < last ? w : last;
}

/* The same that has one. Not inline: the search has no registers to spare. */
static __attribute__((noinline)) uint32_t skip_idle(stw_idle *i, const uint64_t *occupied, uint32_t w, uint32_t last)
{
    for (w = next_busy(i, w, last); w < last && occupied[w] == 0; w = next_busy(i, w, last)) {
        const uint32_t from = w;
        while (w < last && occupied[w] == 0) {
            w++;
            for (; w % 8 == 0 && w + 8 <= last; w += 8) {
                const two any = pair(occupied + w) | pair(occupied + w + 2) | pair(occupied + w + 4) | pair(occupied + w + 6);
                if ((any[0] | any[1]) != 0)
                    break;
            }
        }
        stwi_bits_set(i->busy, from, w, false);
    }
    return w;
}

/* Looks at the parts of runs in the atoms [from, to), the lowest first; returns the words and runs it looked at. */
static __attribute__((noinline)) uint64_t search_range(stw_idle *i, const uint32_t *bounds, const uint64_t *occupied, uint32_t from, uint32_t to, uint16_t class,
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
        note_runs(&s, bounds + at, at, begins, ends, &steps);
        if (over(&s))
            break;
        const bool seen = s.fits == fits && w >= whole && w < part && i->room[w] >= class; /* and nothing found that fits, so far */
        open = idle >> 63;
        if (open && begins != 0) {
            begin = at + 63 - (uint32_t)__builtin_clzll(begins);
            vain = seen ? w : STW_NOWHERE;
        } else if (seen && !open) {
            lower(i, bounds, occupied, w);
        }
        w++;
        if (open && w < last)
            w = skip_idle(i, occupied, w, last);
    }
    if (open && !over(&s))
        note(&s, begin, bounds[to] - bounds[begin]);
    *search = s;
    return steps;
}

/* The same for atoms of one word, of one range or several. */
static inline uint64_t search_word(stw_idle *i, const uint32_t *bounds, const uint64_t *occupied, uint32_t w, uint64_t lent, uint16_t class,
                                   stw_search *search)
{
    stw_search s = *search;
    const uint32_t at = w << 6;
    const uint64_t idle = lent & ~occupied[w], before = idle << 1;
    uint64_t steps = 1;
    if (i->room[w] < class || idle == 0)
        return steps;
    note_runs(&s, bounds + at, at, idle & ~before, before & ~idle, &steps);
    if (idle >> 63 && !over(&s)) {
        const uint32_t begin = at + 64 - (idle == ~UINT64_C(0) ? 64 : (uint32_t)__builtin_clzll(~idle));
        note(&s, begin, bounds[at + 64] - bounds[begin]);
    }
    if (s.fits == search->fits && i->room[w] == STW_ROOMY)
        lower(i, bounds, occupied, w);
    *search = s;
    return steps;
}

static inline bool in_word(stw_atoms r, uint32_t w)
{
    return r.begin >> 6 == w && (r.end - 1) >> 6 == w;
}

bool stwi_idle_search(stw_idle *i, const uint32_t *bounds, const uint64_t *occupied, const stw_atoms *ranges, uint32_t n, stw_search *search)
{
    const uint16_t class = stwi_class(search->units);
    uint64_t steps = 0;
    for (uint32_t k = 0; k < n && !over(search);) {
        const uint32_t w = ranges[k].begin >> 6;
        uint64_t lent = 0;
        for (; k < n && in_word(ranges[k], w); k++)
            lent |= stwi_mask(ranges[k].begin & 63, (ranges[k].begin & 63) + (ranges[k].end - ranges[k].begin));
        if (lent != 0) {
            steps += search_word(i, bounds, occupied, w, lent, class, search);
        } else {
            steps += search_range(i, bounds, occupied, ranges[k].begin, ranges[k].end, class, search);
            k++;
        }
    }
    i->steps += steps;
    return over(search);
}

const char *stwi_idle_check(const stw_idle *i, const uint32_t *bounds, const uint64_t *occupied)
{
    for (uint32_t w = 0; w < i->words; w++)
        if (occupied[w] != 0 && !has(i->busy, w))
            return "a word of the occupancy has atoms that are taken, and nobody was told";
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
