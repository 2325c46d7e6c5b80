/* stw_wait.c: events of streams, and waiting for them (why: stw_order.c).
 *
 * Which event? An event costs its recording, a wait costs overlap unless it is for something long past.
 * So an event is recorded on a stream some time after its first free that none covers (`every`, an eighth of
 * AGE), not for each, and B waits for the youngest event that is old (AGE - every requests: what was freed AGE
 * ago is covered by such a one), if that covers what it needs: it will cover the next reuses as well; else for the oldest that
 * does; else for one recorded now. STW_EVENTS of each stream are kept: that is two AGEs.
 *
 * Waits are transitive. An event carries what its stream knew when it was recorded, a vector clock
 * (Fidge 1988, Mattern 1989): B waiting for A after A has waited for C needs no wait for C. Of several
 * streams the one with the latest free comes first, so that this is seen.
 */
#include "stw_order.h"

#include <string.h>

static uint64_t *clock_of(const stw_order *o, uint32_t x, uint32_t place)
{
    return o->clocks + ((size_t)x * STW_EVENTS + place) * STW_ORDERED;
}

static uint32_t n_ordered(const stw_allocator *a)
{
    return a->n_streams < STW_ORDERED ? a->n_streams : STW_ORDERED;
}

/* An event of x that covers everything so far. */
static bool record(stw_allocator *a, uint32_t x)
{
    stw_order *o = a->order;
    stw_line *l = &o->line[x];
    void *event = a->backend.event_record(a->backend.ctx, a->streams[x].handle);
    if (!event) {
        a->stats.event_failures++;
        l->since = stwi_requests(a); /* to be tried again */
        return false;
    }
    if (l->n == STW_EVENTS) {
        a->backend.event_drop(a->backend.ctx, l->events[l->first].event);
        l->first = (l->first + 1) % STW_EVENTS;
        l->n--;
    }
    uint32_t place = (l->first + l->n++) % STW_EVENTS;
    l->events[place] = (stw_event){event, o->frees, stwi_requests(a)};
    l->covered = o->frees;
    memcpy(clock_of(o, x, place), stwi_known(o, x), n_ordered(a) * sizeof(uint64_t));
    clock_of(o, x, place)[x] = o->frees;
    a->stats.event_records++;
    return true;
}

void stwi_order_due_now(stw_allocator *a)
{
    stw_order *o = a->order;
    const uint64_t now = stwi_requests(a);
    o->due = UINT64_MAX;
    for (uint32_t i = 0; i < o->n; i++) {
        stw_line *l = &o->line[o->lines[i]];
        if (l->last <= l->covered || (l->since + o->every <= now && record(a, o->lines[i])))
            continue;
        if (l->since + o->every < o->due)
            o->due = l->since + o->every;
    }
}

/* The place in x's ring of the oldest event that covers number t; UINT32_MAX: there is none. */
static uint32_t covering(const stw_line *l, uint64_t t)
{
    for (uint32_t i = 0; i < l->n; i++)
        if (l->events[(l->first + i) % STW_EVENTS].covers >= t)
            return i;
    return UINT32_MAX;
}

bool stwi_line_wait(stw_allocator *a, uint32_t b, uint32_t x, uint64_t t)
{
    stw_order *o = a->order;
    stw_line *l = &o->line[x];
    uint64_t now = stwi_requests(a);
    uint32_t i = covering(l, t);
    if (i == UINT32_MAX) {
        if (!record(a, x))
            return false;
        i = l->n - 1;
    }
    while (i + 1 < l->n && now - l->events[(l->first + i + 1) % STW_EVENTS].asked >= o->age)
        i++;
    const uint32_t at = (l->first + i) % STW_EVENTS;
    const stw_event *e = &l->events[at];
    if (a->backend.event_wait(a->backend.ctx, a->streams[b].handle, e->event) != 0) {
        a->stats.event_failures++;
        return false;
    }
    uint64_t *mine = stwi_known(o, b), *its = clock_of(o, x, at);
    for (uint32_t k = 0; k < n_ordered(a); k++)
        mine[k] = its[k] > mine[k] ? its[k] : mine[k];
    a->stats.event_waits++;
    a->stats.young_waits += now - e->asked < o->age;
    a->stats.waited_age += now - e->asked;
    return true;
}

bool stwi_line_reached(stw_allocator *a, uint32_t x, uint64_t t)
{
    stw_line *l = &a->order->line[x];
    if (l->reached >= t)
        return true;
    uint32_t i = covering(l, t);
    if (i == UINT32_MAX) {
        if (!record(a, x))
            return false;
        i = l->n - 1;
    }
    const stw_event *e = &l->events[(l->first + i) % STW_EVENTS];
    int done = a->backend.event_done(a->backend.ctx, e->event);
    if (done > 0)
        l->reached = e->covers;
    a->stats.event_failures += done < 0;
    return done > 0;
}

uint64_t stwi_line_cheap(const stw_allocator *a, uint32_t b, uint32_t x)
{
    const stw_order *o = a->order;
    const stw_line *l = &o->line[x];
    uint64_t t = stwi_known(o, b)[x], now = stwi_requests(a);
    t = l->reached > t ? l->reached : t;
    for (uint32_t i = l->n; i-- > 0;) {
        const stw_event *e = &l->events[(l->first + i) % STW_EVENTS];
        if (now - e->asked >= o->age)
            return e->covers > t ? e->covers : t;
    }
    return t;
}
