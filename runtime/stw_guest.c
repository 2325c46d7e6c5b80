/* stw_guest.c: a dynamic request has no address in the plan, but the plan knows its usual death, and
 * which parts of the arena planned requests start to use before it (NEEDS). The rest is lent (stw_lent.c): what is
 * free of it now is idle for as long as the request lives:
 *
 *     atoms      |  |    |  |     |   |  |      |
 *     occupied    ##                   ##
 *     needed              ##
 *     runs           |----|  |--------|  |------|     the smallest that is large enough, but for an eighth, lowest first
 *
 * A guest covers whole atoms, so that occupancy stays one bit for each: a planned request that comes
 * earlier than usual finds its range occupied and goes to the heap. The search (stw_idle.c) ends with a run that is at most an eighth too large, or the seventh
 * that is large enough, and looks into 12 ranges at most: what it costs does not depend on how many runs there are. (A sweep, below, has read the
 * plan, and looks into all.)
 *
 * A planned request whose place is taken, or too small, has a known life, too: what the entries of that life start to use is read off the
 * plan. It becomes a guest before the heap looks for a place, if what idles is committed, and where the heap would have to commit
 * memory in any case. The heap's holes are left to what fits nowhere in the arena, which is the large: two late buffers that hold the places
 * of two large ones need a heap of two, not one of all that came meanwhile. A stranger, which may only pass for its entry, goes to the heap
 * first: nothing says that it dies when the entry does.
 *
 * One that no entry of the loop explains becomes a guest only where the heap would have to commit memory. Its life is not known: a whole step
 * is tried, then half of it, down to a 16th, so that it lies where it is in nobody's way for longest; while the position is lost, the program
 * does something else, and any free place will do. But it gets only what is committed: it may stay for ever, and memory where the plan has
 * not been yet is no cheaper than the heap's. Reading the plan takes a step per entry, and is done only as long as the requests so far have
 * paid for it.
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

/* Searches the ranges of atoms within the stream's that are not in the bitmap, the first `most` of those that are large enough. */
static void search_bits(stw_allocator *a, stw_atoms within, const uint64_t *needed, uint32_t most, stw_search *q)
{
    const uint32_t *bounds = a->plan.bounds;
    stw_atoms lent[STW_LENT_RANGES];
    uint64_t begin = within.begin, end = begin;
    while (begin < within.end && most > 0) {
        uint32_t n = 0;
        while (n < STW_LENT_RANGES && n < most && (begin = stwi_bits_next(needed, end, within.end, false)) < within.end) {
            end = stwi_bits_next(needed, begin, within.end, true);
            lent[n] = (stw_atoms){(uint32_t)begin, (uint32_t)end};
            n += bounds[end] - bounds[begin] >= q->units;
        }
        most -= n;
        if (stwi_idle_search(&a->idle, bounds, a->occupied, lent, n, q))
            return;
    }
}

/* The same of those that the list leaves. */
static void search_list(stw_allocator *a, stw_atoms within, uint32_t list, stw_search *q)
{
    const stw_parts *l = &a->plan.lent;
    const uint32_t *bounds = a->plan.bounds, end = l->first[list + 1];
    const uint16_t class = stwi_class(q->units);
    uint32_t k = l->first[list], left = STW_LENT_RANGES;
    for (uint32_t rest = end - k; rest > 0 && l->range[k].end <= within.begin;) { /* the first one that reaches into the stream's range */
        const uint32_t half = (rest + 1) / 2;
        k += l->range[k + half - 1].end <= within.begin ? half : 0;
        rest -= half;
    }
    while (left > 0 && (k = stwi_class_next(l->classes, k, end, class)) < end && l->range[k].begin < within.end) {
        stw_atoms lent[STW_LENT_BATCH];
        uint32_t n = 0;
        for (const uint32_t stop = end - k > STW_LENT_BATCH ? k + STW_LENT_BATCH : end; k < stop && n < left; k++) { /* without branches */
            const stw_atoms r = l->range[k];
            lent[n].begin = r.begin > within.begin ? r.begin : within.begin;
            lent[n].end = r.end < within.end ? r.end : within.end;
            n += (lent[n].begin < lent[n].end) & (bounds[lent[n].end] - bounds[lent[n].begin] >= q->units);
        }
        left -= n;
        if (stwi_idle_search(&a->idle, bounds, a->occupied, lent, n, q))
            return;
    }
}

/* The same as a bitmap. */
static const uint64_t *list_bits(stw_allocator *a, uint32_t list)
{
    const stw_parts *l = &a->plan.lent;
    memset(a->needed, 0xff, a->occupied_bytes);
    for (uint32_t k = l->first[list]; k < l->first[list + 1]; k++)
        stwi_bits_set(a->needed, l->range[k].begin, l->range[k].end, false);
    return a->needed;
}

/* The best place for `units` in the stream's range, apart from what is needed, which is a bitmap, or, where that is NULL, what the list
 * says; first where the stream need not wait for the young work of another one. */
static uint32_t best_place(stw_allocator *a, const stw_stream *s, uint32_t list, const uint64_t *needed, uint64_t units, uint32_t *end)
{
    const stw_plan *p = &a->plan;
    const stw_atoms within = p->within[s->plan];
    const uint32_t most = needed ? UINT32_MAX : STW_LENT_RANGES;
    if (within.begin == within.end || units > UINT32_MAX)
        return STW_NO_ENTRY;
    stw_search q = stwi_search_for((uint32_t)units);
    stwi_frees_tell_locked(a);
    if (a->order) {
        const uint64_t *dear = stwi_order_dear_locked(a, s, needed ? needed : list_bits(a, list));
        if (dear)
            search_bits(a, within, dear, most, &q);
    }
    if (q.from == STW_NOWHERE && needed)
        search_bits(a, within, needed, most, &q);
    else if (q.from == STW_NOWHERE)
        search_list(a, within, list, &q);
    if (q.from == STW_NOWHERE)
        return STW_NO_ENTRY;
    *end = stwi_atom_after(p, q.from, p->bounds[q.from] + units);
    return q.from;
}

uint32_t stwi_guest_find_locked(stw_allocator *a, const stw_stream *s, uint32_t list, uint64_t units, uint32_t *end)
{
    return best_place(a, s, list, NULL, units, end);
}

/* Marks what is kept, and what the `count` entries from position `at` on start to use. */
static void read_needs(stw_allocator *a, uint32_t at, uint64_t count)
{
    memcpy(a->needed, a->plan.kept, a->occupied_bytes);
    for (; count > 0; count--, at = stwi_succ(&a->match, at)) {
        const stw_slot *s = &a->slots[a->entries[at].slot];
        if (!(s->flags & STW_SLOT_PLANNED))
            continue;
        stwi_bits_set(a->needed, s->atom_begin, s->atom_end, true);
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

/* The entries that come while a request is alive: from *at on, *most of them or, where its life is not known, down to *least.
 * False: it outlives what the plan knows, or reading is not paid for. */
static bool horizon(const stw_allocator *a, uint32_t entry, uint32_t *at, uint64_t *most, uint64_t *least)
{
    const stw_matcher *m = &a->match;
    uint64_t paid = STW_SWEEP_WORK * (stwi_requests(a) + 1) + 4 * (uint64_t)m->n;
    *most = m->n - m->wrap;
    *least = *most / STW_SWEEP_PART;
    if (a->plan.n_atoms == 0 || a->swept > paid)
        return false;
    if (stwi_life_known(m, entry)) {
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
        return list_bits(a, list - 1);
    if (!horizon(a, entry, &at, &step, &least))
        return NULL;
    read_needs(a, at, step);
    a->swept += step;
    return a->needed;
}

uint32_t stwi_guest_sweep_locked(stw_allocator *a, const stw_stream *s, uint32_t entry, uint64_t units, bool committed,
                                 uint32_t *end)
{
    uint32_t at;
    uint64_t step, least;
    if (!horizon(a, entry, &at, &step, &least))
        return STW_NO_ENTRY;
    a->stats.sweeps++;
    for (;; step /= 2) {
        read_needs(a, at, step);
        a->swept += step;
        if (committed)
            add_lacking(a);
        uint32_t found = best_place(a, s, 0, a->needed, units, end);
        if (found != STW_NO_ENTRY || step / 2 < least || step / 2 == 0)
            return found;
    }
}
