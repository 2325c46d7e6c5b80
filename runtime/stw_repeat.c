/* stw_repeat.c: what a plan repeats, a program may do once more or once less.
 *
 *     plan       | F B | F B | F B | F B | optimizer |
 *                       ^ over             ^ again
 *
 * Micro-batches, or tokens that are generated: a stretch of the plan that is alike itself one period later. Where each of its
 * periods ends the program may as well be done with it (a short batch), and where the last one ends, do one more. The frees say that such a
 * point has been reached, for they name the entry that would follow; the size says which way it goes. No alignment is
 * needed, and none would get there: to skip the rest of a stretch, entry by entry, costs more than to be lost.
 *
 * Where lives vary frees name nothing. Then the sizes of three requests in a row that fit behind the point, the trail, say as much; they are
 * waited for, too, where the request may have been one too many and what it begins looks like what was expected. Where it does not, a turn
 * that was none is taken back with the next request.
 *
 * Stretches are found when the plan is loaded. Eight entries in a row that have been seen before suggest the distance to where that
 * was; the distances suggested most often are tried on all entries, the longest first.
 */
#include "stw_internal.h"

#define WINDOW 8u            /* entries in a row that suggest a period, and the shortest one */
#define PERIODS 8u           /* that are tried */
#define KEPT (STW_STRETCHES / 2) /* stretches of a part of the plan */
#define SOON 4u              /* entries that a request may be early by */
#define TRAIL 3u             /* requests in a row whose sizes show where the program is */
#define LONGEST (1u << 20)   /* entries; longer parts of a plan are not looked at */

/* What alike entries have in common: the stream, and the size if it is planned and does not vary. */
static uint64_t kind(const stw_plan *p, uint32_t i)
{
    const stw_slot *s = &p->slots[p->entries[i].slot];
    const uint64_t k = (uint64_t)s->stream << 33;
    if (!(s->flags & STW_SLOT_PLANNED))
        return k;
    return s->varies ? k | 1 : k | UINT64_C(1) << 32 | s->hi;
}

static uint64_t window_hash(const stw_plan *p, uint32_t at)
{
    uint64_t h = 0;
    for (uint32_t k = 0; k < WINDOW; k++) {
        h = (h ^ kind(p, at + k)) * UINT64_C(0x9e3779b97f4a7c15);
        h ^= h >> 32;
    }
    return h;
}

static bool windows_alike(const stw_plan *p, uint32_t a, uint32_t b)
{
    for (uint32_t k = 0; k < WINDOW; k++)
        if (kind(p, a + k) != kind(p, b + k))
            return false;
    return true;
}

/* Counts in votes[d] the windows of [from, to) whose latest like is d entries before them. last: 1 + where a window was last, in
 * mask + 1 cells, by hash; all 0. */
static void suggest(const stw_plan *p, uint32_t from, uint32_t to, uint32_t *votes, uint32_t *last, uint32_t mask)
{
    for (uint32_t at = from; at + WINDOW <= to; at++) {
        uint32_t cell = (uint32_t)window_hash(p, at) & mask;
        while (last[cell] != 0 && !windows_alike(p, last[cell] - 1, at))
            cell = (cell + 1) & mask;
        uint32_t apart = last[cell] != 0 ? at - (last[cell] - 1) : 0;
        if (apart >= WINDOW)
            votes[apart]++;
        last[cell] = at + 1;
    }
}

/* The stretches of [from, to) with that period, as long as there are fewer than `most` in all. */
static void keep_stretches(stw_matcher *m, const stw_plan *p, uint32_t from, uint32_t to, uint32_t period, uint32_t most)
{
    uint32_t run = 0;
    for (uint32_t at = from; at + period <= to; at++) {
        if (at + period < to && kind(p, at) == kind(p, at + period)) {
            run++;
            continue;
        }
        if (run >= period && m->n_stretches < most)
            m->stretches[m->n_stretches++] = (stw_stretch){at - run, at + period, period};
        run = 0;
    }
}

static bool find(stw_matcher *m, const stw_plan *p, uint32_t from, uint32_t to)
{
    const uint32_t n = to - from;
    if (n <= WINDOW || n > LONGEST)
        return true;
    uint32_t cells = 2 * WINDOW;
    while (cells < 2 * n)
        cells *= 2;
    const size_t votes_bytes = n * sizeof(uint32_t), last_bytes = cells * sizeof(uint32_t);
    uint32_t *votes = stwi_map(votes_bytes), *last = stwi_map(last_bytes);
    const bool made = votes && last;
    if (made) {
        suggest(p, from, to, votes, last, cells - 1);
        uint32_t periods[PERIODS], n_periods = 0;
        for (; n_periods < PERIODS; n_periods++) {
            uint32_t most = 0; /* votes[0] is 0 */
            for (uint32_t d = WINDOW; d < n; d++)
                if (votes[d] > votes[most])
                    most = d;
            if (most == 0)
                break;
            votes[most] = 0;
            uint32_t k = n_periods;
            for (; k > 0 && periods[k - 1] < most; k--)
                periods[k] = periods[k - 1];
            periods[k] = most;
        }
        const uint32_t kept = m->n_stretches + KEPT;
        for (uint32_t k = 0; k < n_periods; k++)
            keep_stretches(m, p, from, to, periods[k], kept);
    }
    stwi_unmap(votes, votes_bytes);
    stwi_unmap(last, last_bytes);
    return made;
}

bool stwi_repeat_init(stw_matcher *m, const stw_plan *p)
{
    m->n_stretches = 0;
    return find(m, p, 0, m->wrap) && find(m, p, m->wrap, m->wrap + m->copy);
}

static bool sized(const stw_allocator *a, uint32_t p, uint64_t units)
{
    return stwi_sized(&a->slots[a->entries[p].slot], units);
}

/* Whether entry p is planned for just such a request. */
static bool takes(const stw_allocator *a, uint32_t p, uint64_t units, uint16_t stream)
{
    return sized(a, p, units) && a->slots[a->entries[p].slot].stream == stream;
}

/* Whether one of the entries right behind p takes it: it may have come too early, or others not at all. */
static bool soon(const stw_allocator *a, uint32_t p, uint64_t units, uint16_t stream)
{
    for (uint32_t i = 0; i < SOON; i++)
        if (takes(a, p = stwi_succ(&a->match, p), units, stream))
            return true;
    return false;
}

uint32_t stwi_match_turn(const stw_matcher *m, uint32_t here, uint32_t *next)
{
    const uint32_t base = here >= m->wrap ? (here - m->wrap) / m->copy * m->copy : 0, at = here - base;
    while (*next < m->n_stretches) {
        const stw_stretch *s = &m->stretches[(*next)++];
        const uint32_t over = stwi_wrapped(m, s->end + base);
        if (s->begin <= at && at < s->end && (s->end - at) % s->period == 0)
            return over;
        if (over == here)
            return s->end - s->period + base;
    }
    return STW_NO_ENTRY;
}

/* Whether the trail leads on to this request; if it has led far enough, *to is where. */
static bool follow(stw_allocator *a, uint64_t units, uint16_t stream, uint32_t *to)
{
    stw_matcher *m = &a->match;
    const uint64_t asked = stwi_requests(a);
    if (m->trail_seen == 0 || asked != m->trail_asked + 1 || !takes(a, m->trail_next, units, stream)) {
        m->trail_seen = 0;
        return false;
    }
    m->trail_asked = asked;
    if (++m->trail_seen == TRAIL) {
        m->trail_seen = 0;
        *to = m->trail_next;
    }
    m->trail_next = stwi_succ(m, m->trail_next);
    return true;
}

uint32_t stwi_match_repeat(stw_allocator *a, uint64_t units, uint16_t stream)
{
    stw_matcher *m = &a->match;
    const uint32_t here = m->first;
    uint32_t to = STW_NO_ENTRY;
    if (m->mode != STW_SYNC || follow(a, units, stream, &to))
        return to;
    if (m->len != 1 || sized(a, here, units))
        return STW_NO_ENTRY;
    for (uint32_t i = 0; i < m->n_votes; i++)
        if (m->votes[i] != here)
            return STW_NO_ENTRY;
    uint32_t next = 0;
    do
        to = stwi_match_turn(m, here, &next);
    while (to != STW_NO_ENTRY && !takes(a, to, units, stream));
    if (to == STW_NO_ENTRY)
        return to;
    const bool sure = m->n_votes > 0 && kind(&a->plan, stwi_succ(m, to)) != kind(&a->plan, here) && !soon(a, here, units, stream);
    m->trail_next = sure ? here : stwi_succ(m, to); /* if it was one too many, the next one is what was expected here */
    m->trail_seen = sure ? TRAIL - 1 : 1;
    m->trail_asked = stwi_requests(a);
    return sure ? to : STW_NO_ENTRY;
}
