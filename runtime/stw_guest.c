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
 */
#include "stw_internal.h"

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

uint32_t stwi_guest_find_locked(const stw_allocator *a, const stw_plan_stream *s, uint32_t list, uint64_t units, uint32_t *end)
{
    const stw_plan *p = &a->plan;
    if (p->n_atoms == 0)
        return STW_NO_ENTRY;
    const uint64_t *needed = p->needs + (size_t)list * p->words;
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
