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
 * life start to use is read off the plan. One that no entry of the loop explains has none: a whole step is tried, then
 * half of it, down to a 16th, so that it lies where it is in nobody's way for longest; while the position
 * is lost, the program does something else, and any free place will do. But it gets only what is committed: it may stay
 * for ever, and memory where the plan has not been yet is no cheaper than the heap's. Reading the plan
 * takes a step per entry, and is done only as long as the requests so far have paid for it.
 */
#include "stw_internal.h"

#include <string.h>

/* First index of b[0 .. n) whose value is not below unit; n if there is none. Without branches: where it
 * goes is as good as random. */
static uint32_t first_not_below(const uint32_t *b, uint32_t n, uint64_t unit)
{
    const uint32_t *at = b;
    if (n == 0)
        return 0;
    while (n > 1) {
        uint32_t half = n / 2;
        at += at[half - 1] < unit ? half : 0;
        n -= half;
    }
    return (uint32_t)(at - b) + (*at < unit);
}

uint32_t stwi_atom_at(const stw_plan *p, uint64_t unit)
{
    if (unit <= p->bounds[0]) /* bounds has n_atoms + 1 of them */
        return 0;
    if (unit > p->bounds[p->n_atoms])
        return p->n_atoms + 1;
    return first_not_below(p->bounds, p->n_atoms + 1, unit);
}

uint32_t stwi_atom_after(const stw_plan *p, uint32_t atom, uint64_t unit)
{
    uint32_t step = 1; /* it is near */
    for (; step <= p->n_atoms - atom && p->bounds[atom + step] < unit; step *= 2)
        atom += step;
    uint32_t rest = p->n_atoms - atom;
    return atom + 1 + first_not_below(p->bounds + atom + 1, step < rest ? step : rest, unit);
}

typedef uint64_t two __attribute__((vector_size(16)));

/* Where words w and w + 1 of the two bitmaps together are not `busy`. */
static inline two differ(const uint64_t *occupied, const uint64_t *needed, uint32_t w, two busy)
{
    two o, n;
    memcpy(&o, occupied + w, sizeof o);
    memcpy(&n, needed + w, sizeof n);
    return (o | n) ^ busy;
}

/* Skips the words from w on, eight at a time and before `last`, in which no atom changes: all idle, or none. */
static uint32_t skip_uniform(const uint64_t *occupied, const uint64_t *needed, uint32_t w, uint32_t last, bool idle)
{
    const uint64_t v = idle ? 0 : ~UINT64_C(0);
    const two busy = {v, v};
    for (; last - w >= 8; w += 8) {
        two d = differ(occupied, needed, w, busy) | differ(occupied, needed, w + 2, busy) |
                differ(occupied, needed, w + 4, busy) | differ(occupied, needed, w + 6, busy);
        if (d[0] | d[1])
            break;
    }
    return w;
}

/* The best run so far: where it begins, and what it has too much. */
typedef struct {
    uint32_t from, over;
} best;

/* Takes note of the run [from, to) if it is large enough and smaller than those before it: over begins at -units, and
 * what is too small wraps to no less than that. */
static inline void keep_smallest(const uint32_t *bounds, uint32_t from, uint32_t to, uint32_t units, best *b)
{
    uint32_t over = bounds[to] - bounds[from] - units;
    if (__builtin_expect(over < b->over, 0))
        *b = (best){from, over};
}

/* The best place for `units` in the range of s, apart from what is occupied or needed. Goes from run to run, and pairs
 * the bits of a word where one begins with those where one ends. */
static uint32_t best_run(const stw_allocator *a, const stw_plan_stream *s, const uint64_t *needed, uint64_t units, uint32_t *end)
{
    const stw_plan *p = &a->plan;
    uint32_t begin = stwi_atom_at(p, s->begin >> STW_UNIT_SHIFT), stop = stwi_atom_at(p, (s->end >> STW_UNIT_SHIFT) + 1);
    if (stop < begin + 2 || units > UINT32_MAX) /* the last bound at or below the stream's end is the one before it */
        return STW_NO_ENTRY;
    stop--;
    const uint32_t first = begin >> 6, last = (stop - 1) >> 6, z = (uint32_t)units;
    best b = {STW_NO_ENTRY, 0 - z};
    uint32_t from = 0, w = first;
    uint64_t open = 0; /* 1: the atom before is idle, the run begins at from */
    while (w <= last && b.over > 0) {
        uint64_t idle = ~(a->occupied[w] | needed[w]);
        if (w == first)
            idle &= ~UINT64_C(0) << (begin & 63);
        if (w == last)
            idle &= ~UINT64_C(0) >> (63 - ((stop - 1) & 63));
        const uint64_t before = idle << 1 | open;
        const uint32_t at = w++ << 6;
        if (idle == before) { /* no run begins or ends */
            if (w % 8 == 0 && w < last)
                w = skip_uniform(a->occupied, needed, w, last, open);
            continue;
        }
        uint64_t begins = idle & ~before, ends = before & ~idle;
        if (open) { /* what changes first is its end */
            keep_smallest(p->bounds, from, at + (uint32_t)__builtin_ctzll(ends), z, &b);
            ends &= ends - 1;
        }
        for (; ends != 0; begins &= begins - 1, ends &= ends - 1)
            keep_smallest(p->bounds, at + (uint32_t)__builtin_ctzll(begins), at + (uint32_t)__builtin_ctzll(ends), z, &b);
        if (begins != 0)
            from = at + (uint32_t)__builtin_ctzll(begins);
        open = idle >> 63;
    }
    if (open)
        keep_smallest(p->bounds, from, stop, z, &b);
    if (b.from != STW_NO_ENTRY)
        *end = stwi_atom_after(p, b.from, p->bounds[b.from] + units);
    return b.from;
}

/* The same for a stream of the plan; first where it need not wait for the young work of another stream. */
static uint32_t best_place(stw_allocator *a, const stw_stream *s, const uint64_t *needed, uint64_t units, uint32_t *end)
{
    const stw_plan_stream *range = &a->plan.streams[s->plan];
    const uint64_t *dear = a->order ? stwi_order_dear_locked(a, s, needed) : NULL;
    uint32_t found = dear ? best_run(a, range, dear, units, end) : STW_NO_ENTRY;
    return found != STW_NO_ENTRY ? found : best_run(a, range, needed, units, end);
}

uint32_t stwi_guest_find_locked(stw_allocator *a, const stw_stream *s, uint32_t list, uint64_t units, uint32_t *end)
{
    if (a->plan.n_atoms == 0)
        return STW_NO_ENTRY;
    return best_place(a, s, a->plan.needs + (size_t)list * a->plan.words, units, end);
}

/* Marks what is kept, and what the `count` entries from position `at` on start to use. */
static void read_needs(stw_allocator *a, uint32_t at, uint64_t count)
{
    memcpy(a->needed, a->plan.kept, a->occupied_bytes);
    for (; count > 0; count--, at = stwi_succ(&a->match, at)) {
        const stw_slot *s = &a->slots[a->entries[at].slot];
        if (!(s->flags & STW_SLOT_PLANNED))
            continue;
        stwi_set_bits(a->needed, s->atom_begin, s->atom_end);
    }
}

/* Adds the atoms that are not committed, all of them. */
static void add_lacking(stw_allocator *a)
{
    const uint64_t end = a->arena.bytes / a->backend.granularity;
    if (a->arena.solid == a->arena.bytes >> STW_UNIT_SHIFT)
        return;
    for (uint64_t g = stwi_bits_next(a->arena.pages, 0, end, false); g < end;) {
        uint64_t stop = stwi_bits_next(a->arena.pages, g, end, true);
        uint32_t from = stwi_atom_at(&a->plan, (g << a->granule_shift) + 1), to = stwi_atom_at(&a->plan, stop << a->granule_shift);
        from -= from > 0; /* the one that begins at the granule, or before it */
        stwi_bits_set(a->needed, from, to < a->plan.n_atoms ? to : a->plan.n_atoms, true);
        g = stwi_bits_next(a->arena.pages, stop, end, false);
    }
}

/* Whether a request of that entry has a life that is known. The prologue's are asked for once, and beside them who knows what:
 * a job that is resumed loads its weights. */
static bool knows(const stw_matcher *m, uint32_t entry)
{
    return entry != STW_NO_ENTRY && entry >= m->wrap;
}

/* The entries that come while a request is alive: from *at on, *most of them or, where its life is not known, down to *least.
 * False: it outlives what the plan knows, or reading is not paid for. */
static bool horizon(const stw_allocator *a, uint32_t entry, uint32_t *at, uint64_t *most, uint64_t *least)
{
    const stw_matcher *m = &a->match;
    uint64_t paid = STW_SWEEP_WORK * (stwi_requests(&a->stats) + 1) + 4 * (uint64_t)m->n;
    *most = m->n - m->wrap;
    *least = *most / STW_SWEEP_PART;
    if (a->plan.n_atoms == 0 || a->swept > paid)
        return false;
    if (knows(m, entry)) {
        uint64_t life = a->entries[entry].life_nf & STW_ENTRY_LIFE_MAX;
        if (life > *most)
            return false;
        *at = stwi_succ(m, entry);
        *most = *least = life > 0 ? life - 1 : 0;
    } else {
        if (m->last == STW_NO_ENTRY) /* the loop is to come: what would lie in its way is not known to die before */
            return false;
        *at = stwi_match_position(m);
        if (*at >= m->n || *at < m->wrap) /* the loop is not being executed: nothing is known to be needed */
            *most = *least = 0;
    }
    return true;
}

const uint64_t *stwi_guest_needs_locked(stw_allocator *a, uint32_t entry)
{
    uint32_t at, list = 0;
    uint64_t step, least;
    if (entry != STW_NO_ENTRY)
        list = stwi_list(&a->slots[a->entries[entry].slot]);
    if (list != 0)
        return a->plan.needs + (size_t)(list - 1) * a->plan.words;
    if (!horizon(a, entry, &at, &step, &least))
        return NULL;
    read_needs(a, at, step);
    a->swept += step;
    return a->needed;
}

uint32_t stwi_guest_sweep_locked(stw_allocator *a, const stw_stream *s, uint32_t entry, uint64_t units, uint32_t *end)
{
    uint32_t at;
    uint64_t step, least;
    if (!horizon(a, entry, &at, &step, &least))
        return STW_NO_ENTRY;
    a->stats.sweeps++;
    for (;; step /= 2) {
        read_needs(a, at, step);
        a->swept += step;
        if (!knows(&a->match, entry))
            add_lacking(a);
        uint32_t found = best_place(a, s, a->needed, units, end);
        if (found != STW_NO_ENTRY || step / 2 < least || step / 2 == 0)
            return found;
    }
}
