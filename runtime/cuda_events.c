/* cuda_events.c: the order of work between streams, by CUDA's events.
 *
 * Events are made without a time stamp, which makes recording them cheap, and used again: once a program has had as
 * many under way as it ever has, none is made any more. An event that is dropped may be recorded anew at once: a wait
 * holds for the recording that it saw.
 *
 * A stream that is capturing runs nothing: an event recorded in it is a piece of the graph, may not be asked for, and
 * pulls whoever waits for it into the capture. So on such a stream recording and waiting fail, and memory does not
 * change streams.
 */
#include "cuda_driver.h"
#include "stw_internal.h"

static cu_stream stream_of(uint64_t stream)
{
    return (cu_stream)(uintptr_t)stream;
}

/* Asked of the default stream while another one captures, the driver answers with an error: as good as yes, and so is
 * any error but one: a stream that is no more captures nothing, and would else stop all giving back for ever. */
static bool capturing(cuda *c, uint64_t stream)
{
    int status = CU_CAPTURE_NONE;
    cu_result r = c->cu.is_capturing(stream_of(stream), &status);
    return r != CU_INVALID_HANDLE && (r != CU_OK || status != CU_CAPTURE_NONE);
}

/* Whether an event may be recorded on the stream or waited for: it is there, and runs what is queued. */
static bool runs(cuda *c, uint64_t stream)
{
    int status = CU_CAPTURE_NONE;
    return c->cu.is_capturing(stream_of(stream), &status) == CU_OK && status == CU_CAPTURE_NONE;
}

/* Room to take back every event there is and one more. */
static bool room_for_one(cuda *c)
{
    size_t bytes = c->events_bytes ? 2 * c->events_bytes : 4096;
    if ((c->n_events + 1) * sizeof *c->idle <= c->events_bytes)
        return true;
    cu_event *grown = c->idle ? stwi_grow(c->idle, c->events_bytes, bytes) : stwi_map(bytes);
    if (!grown)
        return false;
    c->idle = grown;
    c->events_bytes = bytes;
    return true;
}

static cu_event take(cuda *c)
{
    cu_event e = NULL;
    if (c->n_idle > 0)
        return c->idle[--c->n_idle];
    if (!room_for_one(c) || !stwi_cuda_ok(c, c->cu.event_create(&e, CU_NO_TIMING), "cuEventCreate") || !e)
        return NULL;
    c->n_events++;
    return e;
}

static void cuda_event_drop(void *ctx, void *event)
{
    cuda *c = ctx;
    c->idle[c->n_idle++] = event;
}

static void *cuda_event_record(void *ctx, uint64_t stream)
{
    cuda *c = ctx;
    cuda_scope s;
    if (!stwi_cuda_enter(c, &s))
        return NULL;
    cu_event e = runs(c, stream) ? take(c) : NULL;
    if (e && !stwi_cuda_ok(c, c->cu.event_record(e, stream_of(stream)), "cuEventRecord")) {
        cuda_event_drop(c, e);
        e = NULL;
    }
    stwi_cuda_leave(c, &s);
    return e;
}

static int cuda_event_wait(void *ctx, uint64_t stream, void *event)
{
    cuda *c = ctx;
    cuda_scope s;
    if (!stwi_cuda_enter(c, &s))
        return -1;
    bool ok = runs(c, stream) && stwi_cuda_ok(c, c->cu.stream_wait(stream_of(stream), event, 0), "cuStreamWaitEvent");
    stwi_cuda_leave(c, &s);
    return ok ? 0 : -1;
}

static int cuda_event_done(void *ctx, void *event)
{
    cuda *c = ctx;
    cuda_scope s;
    if (!stwi_cuda_enter(c, &s))
        return -1;
    cu_result r = c->cu.event_query(event);
    int done = r == CU_NOT_READY ? 0 : stwi_cuda_ok(c, r, "cuEventQuery") ? 1 : -1;
    stwi_cuda_leave(c, &s);
    return done;
}

static int cuda_capturing(void *ctx, uint64_t stream)
{
    cuda *c = ctx;
    cuda_scope s;
    if (!stwi_cuda_enter(c, &s))
        return 1;
    bool yes = capturing(c, stream);
    stwi_cuda_leave(c, &s);
    return yes;
}

void stwi_cuda_events(stw_backend *b)
{
    b->event_record = cuda_event_record;
    b->event_wait = cuda_event_wait;
    b->event_done = cuda_event_done;
    b->event_drop = cuda_event_drop;
    b->capturing = cuda_capturing;
}

void stwi_cuda_events_drop(cuda *c, bool entered)
{
    while (entered && c->n_idle > 0 && !c->gone) {
        cu_event e = c->idle[--c->n_idle];
        if (!stwi_cuda_ok(c, c->cu.event_destroy(e), "cuEventDestroy"))
            c->cu.event_destroy(e); /* once more: nobody else will */
    }
    stwi_unmap(c->idle, c->events_bytes);
}
