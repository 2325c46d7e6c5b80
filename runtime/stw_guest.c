/* stw_guest.c: a dynamic request has no address in the plan, but the plan knows its usual death, and
 * which parts of the arena planned requests start to use before it (NEEDS). What is free now and not
 * among those is idle for as long as the request lives:
 *
 *     atoms      |  |    |  |     |   |  |      |
 *     occupied    ##                   ##
 *     needed              ##
 *     runs           |----|  |--------|  |------|     the smallest that is large enough, lowest first
 *
 * A guest covers whole atoms, so that occupancy stays one bit for each: a planned request that comes
 * earlier than usual finds its range occupied and goes to the heap. O(atoms / 64 + runs).
 *
 * Other requests that end in the heap become guests only where the heap would have to commit memory
 * for them. A planned one whose place is taken, or too small, has a known life: what the entries of that
 * life start to use is read off the plan. One that no entry explains has none: a whole step is tried, then
 * half of it, down to a 32nd, so that it lies where it is in nobody's way for longest. Reading the plan
 * takes a step per entry, and is done only as long as the requests so far have paid for it.
 */
#include "stw_internal.h"

#include <string.h>

uint32_t stwi_atom_at(const stw_plan *p, uint64_t unit)
{
    uint32_t lo = 0, hi = p->n_atoms + 1; /* bounds has n_atoms + 1 of them */
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (p->bounds[mid] < unit)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* First atom in [i, end) that is busy (or free), end if there is none. */
static uint32_t next_atom(const uint64_t *occupied, const uint64_t *needed, uint32_t i, uint32_t end, bool busy)
{
    while (i < end) {
        uint64_t w = occupied[i >> 6] | needed[i >> 6];
        w = (busy ? w : ~w) >> (i & 63);
        if (w != 0) {
            i += (uint32_t)__builtin_ctzll(w);
            return i < end ? i : end;
        }
        i = (i | 63) + 1;
    }
    return end;
}

/* The best place for `units` in the range of s, apart from what is occupied or needed. */
static uint32_t best_run(const stw_allocator *a, const stw_plan_stream *s, const uint64_t *needed, uint64_t units, uint32_t *end)
{
    const stw_plan *p = &a->plan;
    uint32_t begin = stwi_atom_at(p, s->begin >> STW_UNIT_SHIFT), stop = stwi_atom_at(p, (s->end >> STW_UNIT_SHIFT) + 1);
    stop = stop > 0 ? stop - 1 : 0; /* the last bound at or below the stream's end */
    uint32_t found = STW_NO_ENTRY;
    uint64_t least = UINT64_MAX;
    for (uint32_t i = begin; i < stop;) {
        uint32_t from = next_atom(a->occupied, needed, i, stop, false);
        uint32_t to = next_atom(a->occupied, needed, from, stop, true);
        uint64_t room = from < to ? p->bounds[to] - p->bounds[from] : 0;
        if (room >= units && room < least) {
            least = room;
            found = from;
        }
        i = to;
    }
    if (found != STW_NO_ENTRY)
        *end = stwi_atom_at(p, p->bounds[found] + units);
    return found;
}

uint32_t stwi_guest_find_locked(const stw_allocator *a, const stw_plan_stream *s, uint32_t list, uint64_t units, uint32_t *end)
{
    if (a->plan.n_atoms == 0)
        return STW_NO_ENTRY;
    return best_run(a, s, a->plan.needs + (size_t)list * a->plan.words, units, end);
}

/* Marks what the `count` entries from position `at` on start to use. */
static void read_needs(stw_allocator *a, uint32_t at, uint64_t count)
{
    memset(a->needed, 0, a->occupied_bytes);
    for (; count > 0; count--, at = stwi_succ(&a->match, at)) {
        const stw_slot *s = &a->slots[a->entries[at].slot];
        if (!(s->flags & STW_SLOT_PLANNED))
            continue;
        for (uint32_t i = s->atom_begin; i < s->atom_end; i = (i | 63) + 1) {
            uint32_t stop = (i | 63) + 1 < s->atom_end ? (i | 63) + 1 : s->atom_end;
            a->needed[i >> 6] |= stwi_mask(i & 63, (i & 63) + (stop - i));
        }
    }
}

uint32_t stwi_guest_sweep_locked(stw_allocator *a, const stw_plan_stream *s, uint32_t entry, uint64_t units, uint32_t *end)
{
    const stw_matcher *m = &a->match;
    uint64_t step = m->n - m->wrap, least = step / STW_SWEEP_PART, paid = STW_SWEEP_WORK * (stwi_requests(&a->stats) + 1) + 4 * (uint64_t)m->n;
    uint32_t at;
    if (a->plan.n_atoms == 0 || a->swept > paid)
        return STW_NO_ENTRY;
    if (entry != STW_NO_ENTRY) { /* its life is known */
        uint64_t life = a->entries[entry].life_nf & STW_ENTRY_LIFE_MAX;
        if (life > step)
            return STW_NO_ENTRY;
        at = stwi_succ(m, entry);
        step = least = life > 0 ? life - 1 : 0;
    } else {
        at = stwi_match_position(m);
        if (at >= m->n)
            return STW_NO_ENTRY;
    }
    a->stats.sweeps++;
    for (;; step /= 2) {
        read_needs(a, at, step);
        a->swept += step;
        uint32_t found = best_run(a, s, a->needed, units, end);
        if (found != STW_NO_ENTRY || step / 2 < least || step / 2 == 0)
            return found;
    }
}
