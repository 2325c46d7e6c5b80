/* replay_events.c: see replay_events.h. */
#include "replay_events.h"

#include <stdlib.h>

static int answer(stwd_events *e, uint8_t what, uint64_t stream, uint32_t event, int yes)
{
    e->asked++;
    if (e->fail_every != 0 && e->asked % e->fail_every == 0)
        yes = -1;
    if (!e->keeps)
        return yes;
    if (e->n == e->room) {
        size_t room = e->room ? 2 * e->room : 256;
        stwd_call *more = realloc(e->calls, room * sizeof *more);
        if (more == NULL)
            return yes; /* what is missing shows up as a difference */
        e->calls = more;
        e->room = room;
    }
    e->calls[e->n++] = (stwd_call){.what = what, .answer = (int8_t)yes, .event = event, .stream = stream};
    return yes;
}

static void *event_record(void *ctx, uint64_t stream)
{
    stwd_events *e = ctx;
    return answer(e, 'r', stream, e->recorded + 1, 1) < 0 ? NULL : (void *)(uintptr_t)++e->recorded;
}

static int event_wait(void *ctx, uint64_t stream, void *event)
{
    return answer(ctx, 'w', stream, (uint32_t)(uintptr_t)event, 1) < 0 ? -1 : 0;
}

static int event_done(void *ctx, void *event)
{
    stwd_events *e = ctx;
    uint32_t id = (uint32_t)(uintptr_t)event;
    return answer(e, 'd', 0, id, e->recorded >= id + e->lag);
}

static void event_drop(void *ctx, void *event)
{
    stwd_events *e = ctx;
    (void)event;
    e->dropped++;
}

static void *reserve(void *ctx, size_t bytes)
{
    stwd_events *e = ctx;
    return e->host.reserve(e->host.ctx, bytes);
}

static int commit(void *ctx, void *p, size_t bytes)
{
    stwd_events *e = ctx;
    return e->host.commit(e->host.ctx, p, bytes);
}

static void decommit(void *ctx, void *p, size_t bytes)
{
    stwd_events *e = ctx;
    e->host.decommit(e->host.ctx, p, bytes);
}

static void release(void *ctx, void *p, size_t bytes)
{
    stwd_events *e = ctx;
    e->host.release(e->host.ctx, p, bytes);
}

stw_backend stwd_events_backend(stwd_events *e)
{
    return (stw_backend){.ctx = e, .granularity = e->host.granularity, .reserve = reserve, .commit = commit, .decommit = decommit,
                         .release = release, .event_record = event_record, .event_wait = event_wait, .event_done = event_done,
                         .event_drop = event_drop};
}
