/* stw_order.c: the order of work between streams.
 *
 * Memory is handed out and taken back in the order of the host's calls, but work queued on different
 * streams is done in any order. On one stream that is no matter: the next owner's work is queued after
 * the last one's. Where the next owner is on another stream, its stream has to wait.
 *
 * The host frees a block after it has queued all work that uses it. So an event recorded on the
 * block's stream at any time after the free will do; a later one makes the other stream wait for more
 * than it must, which costs overlap, never correctness. Frees are numbered, all streams together:
 *
 *     stream A     use p     free p        free q
 *                              41            44
 *     events of A         e1           e2            e3
 *     covers              38           43            45
 *
 *     stream B                                                malloc -> p       wait e2, now known[B][A] = 43
 *                                                             malloc -> q       wait e3, now known[B][A] = 45
 *
 * For each stream there is the number of its last free of every atom, so the rule holds by address, whatever
 * the plan said and whatever happened since: planned, displaced, guest. A request of B asks, for each other
 * stream A, for the largest number of its atoms; what known[B][A] covers needs no wait.
 *
 * Which event is waited for: stw_wait.c. Guests, which may choose, are first looked a place for that needs no wait for
 * anything young.
 *
 * Numbers of a range cost as little as its occupancy: words of 64 atoms have the largest number in them
 * (`most`) and one that all their atoms have at least (`all`). Numbers only grow, so both are plain stores:
 *
 *     free of [40, 200), number 7:   atom[40 .. 63] = 7, most[0] = 7    all[1] = all[2] = most[1] = most[2] = 7    …
 *     the largest in [a, b):         most[w] of its whole words; of the others only where most[w] may matter at all
 *
 * Where an event cannot be recorded or waited for, or a stream has no line, the range is not handed out and
 * the request goes to the heap, where its own stream's order is enough. A backend refuses both while
 * a stream is captured into a graph: an event of a capture means nothing outside.
 *
 * Nothing of this is there (a->order is NULL) for a backend without events, and before the first
 * stw_record_stream where streams lie apart.
 */
#include "stw_order.h"

#include <string.h>

#define DEFAULT_AGE 500u /* requests: two to three layers */
#define LEAST_AGE 128u   /* what is younger is taken to be still going on, also where the plan has a smaller AGE */
#define MOST_EVERY 256u

bool stwi_order_make(stw_allocator *a, bool shared)
{
    const size_t row = STW_ORDERED * sizeof(uint64_t);
    stw_order *o = stwi_map(sizeof *o);
    if (!o)
        return false;
    o->cap_nodes = 1024;
    o->known = stwi_map(STW_ORDERED * row);
    o->clocks = stwi_map(STW_ORDERED * STW_EVENTS * row);
    o->nodes = stwi_map(o->cap_nodes * sizeof *o->nodes);
    o->dear = stwi_map(a->occupied_bytes);
    a->order = o;
    if (!stwi_table_init(&o->marked, 6) || !o->dear || !o->known || !o->clocks || !o->nodes) {
        stwi_order_drop(a);
        return false;
    }
    o->n_nodes = 1;
    a->shared = shared;
    o->age = shared ? a->plan.shared_age - 1 : DEFAULT_AGE;
    o->age = o->age < LEAST_AGE ? LEAST_AGE : o->age;
    o->every = o->age / 8 < MOST_EVERY ? o->age / 8 : MOST_EVERY;
    o->age -= o->every;
    o->due = UINT64_MAX;
    return true;
}

void stwi_order_drop(stw_allocator *a)
{
    const size_t row = STW_ORDERED * sizeof(uint64_t);
    stw_order *o = a->order;
    if (!o)
        return;
    for (uint32_t i = 0; i < o->n; i++) {
        stw_line *l = &o->line[o->lines[i]];
        for (; l->n > 0; l->n--, l->first = (l->first + 1) % STW_EVENTS)
            a->backend.event_drop(a->backend.ctx, l->events[l->first].event);
        stwi_unmap(l->atom, (a->plan.n_atoms + 2 * (a->plan.n_atoms / 64 + 1)) * sizeof *l->atom);
    }
    stwi_unmap(o->known, STW_ORDERED * row);
    stwi_unmap(o->clocks, STW_ORDERED * STW_EVENTS * row);
    stwi_unmap(o->nodes, o->cap_nodes * sizeof *o->nodes);
    stwi_unmap(o->dear, a->occupied_bytes);
    stwi_table_drop(&o->marked);
    stwi_unmap(o, sizeof *o);
    a->order = NULL;
}

stw_line *stwi_line(stw_allocator *a, uint32_t stream, bool atoms)
{
    stw_order *o = a->order;
    if (stream >= STW_ORDERED)
        return NULL;
    stw_line *l = &o->line[stream];
    if (atoms && !l->atom) {
        size_t n = a->plan.n_atoms, words = n / 64 + 1;
        if ((l->atom = stwi_map((n + 2 * words) * sizeof *l->atom)) == NULL)
            return NULL;
        l->most = l->atom + n;
        l->all = l->most + words;
    }
    if (!l->listed)
        o->lines[o->n++] = stream;
    l->listed = true;
    return l;
}

typedef uint64_t two __attribute__((vector_size(16)));

/* Whether a number in the atoms [begin, end) is above `known`: their difference is then negative. Numbers are below 2^63. */
static bool any_above(const uint64_t *atom, uint32_t begin, uint32_t end, uint64_t known)
{
    const two k = {known, known};
    two below = {0, 0}, v, u;
    for (; begin + 4 <= end; begin += 4) {
        memcpy(&v, atom + begin, sizeof v);
        memcpy(&u, atom + begin + 2, sizeof u);
        below |= (k - v) | (k - u);
    }
    for (; begin < end; begin++)
        below[0] |= known - atom[begin];
    return (below[0] | below[1]) >> 63;
}

/* The largest number in the atoms [begin, end) of one word, where it is above `known`; else 0. */
static uint64_t latest_in_word(const stw_line *l, uint32_t begin, uint32_t end, uint64_t known)
{
    const uint32_t w = begin >> 6;
    uint64_t t = l->all[w];
    if (l->most[w] <= known || (t <= known && !any_above(l->atom, begin, end, known)))
        return 0;
    for (uint32_t i = begin; i < end; i++)
        t = l->atom[i] > t ? l->atom[i] : t;
    return t;
}

/* The same of any range. */
static uint64_t latest(const stw_line *l, uint32_t begin, uint32_t end, uint64_t known)
{
    if (l->last <= known)
        return 0;
    uint32_t w0 = begin >> 6, w1 = (end - 1) >> 6;
    if (w0 == w1)
        return latest_in_word(l, begin, end, known);
    uint64_t t = latest_in_word(l, begin, (w0 + 1) << 6, known), u = latest_in_word(l, w1 << 6, end, known);
    t = u > t ? u : t;
    for (uint32_t w = w0 + 1; w < w1; w++)
        t = l->most[w] > known && l->most[w] > t ? l->most[w] : t;
    return t;
}

const uint64_t *stwi_order_dear_locked(stw_allocator *a, const stw_stream *s, const uint64_t *needed)
{
    stw_order *o = a->order;
    const uint32_t b = s->index;
    bool any = false;
    for (uint32_t i = 0; b < STW_ORDERED && i < o->n; i++) {
        const stw_line *l = &o->line[o->lines[i]];
        const uint64_t t = stwi_line_cheap(a, b, o->lines[i]);
        for (uint32_t w = 0; o->lines[i] != b && l->atom && w <= (a->plan.n_atoms - 1) >> 6; w++) {
            if (l->most[w] <= t)
                continue;
            if (!any)
                memcpy(o->dear, needed, a->occupied_bytes);
            any = true;
            for (uint32_t k = w << 6; k < a->plan.n_atoms && k >> 6 == w; k++)
                if (l->atom[k] > t || l->all[w] > t)
                    o->dear[w] |= UINT64_C(1) << (k & 63);
        }
    }
    return any ? o->dear : NULL;
}

static void fill(uint64_t *v, uint32_t begin, uint32_t end, uint64_t number)
{
    const two n = {number, number};
    for (; begin + 2 <= end; begin += 2)
        memcpy(v + begin, &n, sizeof n);
    if (begin < end)
        v[begin] = number;
}

static void note_atoms(stw_line *l, uint32_t begin, uint32_t end, uint64_t number)
{
    uint32_t w0 = begin >> 6, w1 = end >> 6; /* whole words from w0 on, before w1 */
    if (w0 == w1) { /* most of them */
        l->most[w0] = number;
        fill(l->atom, begin, end, number);
        return;
    }
    fill(l->most, w0, ((end - 1) >> 6) + 1, number);
    if (begin & 63)
        fill(l->atom, begin, ++w0 << 6, number);
    fill(l->all, w0, w1, number);
    fill(l->atom, w1 << 6, end, number);
}

/* Whether a number in the atoms [begin, end) is above `known`, which l->last is. */
static inline bool any_after(const stw_line *l, uint32_t begin, uint32_t end, uint64_t known)
{
    const uint32_t w = begin >> 6;
    if (w != (end - 1) >> 6)
        return latest(l, begin, end, known) > 0;
    return l->most[w] > known && (l->all[w] > known || any_above(l->atom, begin, end, known));
}

/* Makes b wait for all others that had the atoms, the latest first. */
static __attribute__((noinline)) bool wait_for_all(stw_allocator *a, uint32_t b, uint32_t begin, uint32_t end)
{
    stw_order *o = a->order;
    const uint64_t *known = stwi_known(o, b);
    for (;;) {
        uint32_t which = 0;
        uint64_t t = 0;
        for (uint32_t i = 0; i < o->n; i++) {
            const uint32_t x = o->lines[i];
            const stw_line *l = &o->line[x];
            if (x == b || !l->atom)
                continue;
            uint64_t u = latest(l, begin, end, l->reached > known[x] ? l->reached : known[x]);
            if (u > t) {
                t = u;
                which = x;
            }
        }
        if (t == 0)
            return true;
        if (!stwi_line_wait(a, b, which, t))
            return false;
    }
}

bool stwi_order_take_locked(stw_allocator *a, const stw_stream *s, uint32_t begin, uint32_t end)
{
    stw_order *o = a->order;
    const uint32_t b = s->index;
    stwi_order_due(a);
    if (b >= STW_ORDERED || (a->shared && !o->line[b].atom && !stwi_line(a, b, true))) /* its own free could not be noted */
        return false;
    const uint64_t *known = stwi_known(o, b);
    for (uint32_t i = 0; i < o->n; i++) {
        const uint32_t x = o->lines[i];
        const stw_line *l = &o->line[x];
        const uint64_t up_to = l->reached > known[x] ? l->reached : known[x];
        if (l->last > up_to && x != b && l->atom && any_after(l, begin, end, up_to))
            return wait_for_all(a, b, begin, end);
    }
    return true;
}

void stwi_order_freed_locked(stw_allocator *a, const stw_rec *r, uint32_t begin, uint32_t end)
{
    stw_order *o = a->order;
    o->frees++;
    if (a->shared) {
        stwi_line_note(a, r->stream);
        note_atoms(&o->line[r->stream], begin, end, o->frees);
    }
    for (uint32_t m = r->marked ? stwi_marks_take(a, r->key) : 0; m; m = stwi_mark_drop(o, m)) {
        stwi_line_note(a, o->nodes[m].stream);
        note_atoms(&o->line[o->nodes[m].stream], begin, end, o->frees);
    }
}

/* The events of a line and its numbers against each other. */
static const char *check_line(const stw_allocator *a, const stw_line *l)
{
    uint64_t covers = 0;
    for (uint32_t i = 0; i < l->n; i++) {
        const stw_event *e = &l->events[(l->first + i) % STW_EVENTS];
        if (!e->event || e->covers < covers || e->covers > a->order->frees)
            return "a stream's events are out of order";
        covers = e->covers;
    }
    if (l->last > a->order->frees || l->reached > covers || l->covered != covers)
        return "a stream's last free has a number that was never given";
    for (uint32_t i = 0; l->atom && i < a->plan.n_atoms; i++) {
        uint32_t w = i >> 6;
        if (l->atom[i] > l->most[w] || l->all[w] > l->most[w] || l->most[w] > l->last)
            return "the numbers of a stream's frees are wrong";
    }
    return NULL;
}

const char *stwi_order_check(const stw_allocator *a)
{
    const stw_order *o = a->order;
    for (uint32_t i = 0; o && i < o->n; i++) {
        const char *wrong = check_line(a, &o->line[o->lines[i]]);
        if (wrong)
            return wrong;
    }
    return NULL;
}
