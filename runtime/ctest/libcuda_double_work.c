/* libcuda_double_work.c: the double's streams, their work, events and captures (libcuda_double.c). */
#define _GNU_SOURCE
#include "libcuda_double_internal.h"

#include <stdlib.h>
#include <string.h>

typedef struct event {
    struct event *next;
    context *of;
    long recorded, reached; /* the last recording asked for, and done */
    bool dead;
} event;

typedef struct {
    enum { FILL, LOOK, EVENT, WAIT } kind;
    char *p;
    size_t n;
    uint8_t value;
    event *e;
    long recording;
} work;

typedef struct stream {
    struct stream *next;
    context *of;
    work *queue;
    size_t begin, end, room;
    bool capturing, broken, dead;
} stream;

static stream *streams, legacy;
static event *events; /* the dead ones, too */
static unsigned long wrongs;
static __thread int thread_mode; /* 0: the mode that forbids most */

cu_result double_need_no_capture(const char *call, bool always)
{
    cu_result r = CU_OK;
    for (stream *s = streams; s; s = s->next)
        if (s->capturing && (always || thread_mode != CU_RELAXED)) {
            s->broken = true;
            r = double_misuse(call, "breaks a capture", CAPTURE_UNSUPPORTED);
        }
    return r;
}

/* Runs the first piece of work of s; false: it must wait. */
static bool run_one(stream *s)
{
    if (s->begin == s->end)
        return false;
    const work *w = &s->queue[s->begin];
    if (w->kind == WAIT && w->e->reached < w->recording)
        return false;
    s->begin++;
    if (w->kind == EVENT && w->e->reached < w->recording)
        w->e->reached = w->recording;
    if (w->kind != FILL && w->kind != LOOK)
        return true;
    if (!double_usable(w->p, w->n, s->of ? s->of->device : 0)) {
        double_misuse("a kernel", "touches memory that is not mapped for its device", INVALID);
        return true;
    }
    if (w->kind == FILL)
        memset(w->p, w->value, w->n);
    for (size_t i = 0; w->kind == LOOK && i < w->n; i++)
        if ((uint8_t)w->p[i] != w->value) {
            wrongs++;
            break;
        }
    return true;
}

void double_run_all(void)
{
    for (bool any = true; any;) {
        any = false;
        for (stream *s = streams; s; s = s->next)
            while (run_one(s))
                any = true;
        while (run_one(&legacy))
            any = true;
    }
}

static void queue(stream *s, work w)
{
    if (s->end == s->room) {
        s->room = s->room ? 2 * s->room : 64;
        s->queue = realloc(s->queue, s->room * sizeof *s->queue);
        if (!s->queue)
            abort();
    }
    s->queue[s->end++] = w;
    if (!double_is.late)
        double_run_all();
}

static stream *stream_of(cu_stream h)
{
    return h ? h : &legacy;
}

STW_API cu_result cuCtxSynchronize(void)
{
    BEGIN(synchronize);
    TRY(double_need_context("cuCtxSynchronize"));
    TRY(double_need_no_capture("cuCtxSynchronize", true));
    double_run_all();
    return CU_OK;
}

STW_API cu_result cuThreadExchangeStreamCaptureMode(int *mode)
{
    BEGIN(capture_mode);
    NEED(*mode >= 0 && *mode <= CU_RELAXED, "cuThreadExchangeStreamCaptureMode", "no mode");
    int old = thread_mode;
    thread_mode = *mode;
    *mode = old;
    return CU_OK;
}

STW_API cu_result cuStreamIsCapturing(cu_stream h, int *status)
{
    BEGIN(is_capturing);
    if (stream_of(h)->dead)
        return INVALID_HANDLE;
    if (!h)
        for (stream *s = streams; s; s = s->next)
            if (s->capturing)
                return CAPTURE_IMPLICIT;
    *status = !stream_of(h)->capturing ? CU_CAPTURE_NONE : stream_of(h)->broken ? 2 : 1;
    return CU_OK;
}

STW_API cu_result cuEventCreate(cu_event *out, unsigned flags)
{
    BEGIN(event_create);
    TRY(double_need_context("cuEventCreate"));
    NEED(flags == CU_NO_TIMING, "cuEventCreate", "with a time stamp");
    event *e = calloc(1, sizeof *e);
    if (!e)
        abort();
    e->of = double_top();
    e->next = events;
    events = e;
    double_now.events++;
    *out = e;
    return CU_OK;
}

STW_API cu_result cuEventDestroy_v2(cu_event h)
{
    BEGIN(event_destroy);
    event *e = h; /* its record stays: work may wait for it, and a use of it is to be seen */
    NEED(e && !e->dead, "cuEventDestroy", "dead");
    e->dead = true;
    double_now.events--;
    return CU_OK;
}

STW_API cu_result cuEventRecord(cu_event h, cu_stream s)
{
    BEGIN(event_record);
    event *e = h;
    TRY(double_need_context("cuEventRecord"));
    NEED(!e->dead, "cuEventRecord", "dead");
    NEED(!s || e->of == stream_of(s)->of, "cuEventRecord", "event and stream are of different contexts");
    NEED(!stream_of(s)->dead, "cuEventRecord", "on a stream that is no more");
    NEED(!stream_of(s)->capturing, "cuEventRecord", "in a capture");
    queue(stream_of(s), (work){.kind = EVENT, .e = e, .recording = ++e->recorded});
    return CU_OK;
}

STW_API cu_result cuEventQuery(cu_event h)
{
    BEGIN(event_query);
    event *e = h;
    TRY(double_need_no_capture("cuEventQuery", false));
    NEED(!e->dead && e->recorded > 0, "cuEventQuery", "dead, or never recorded");
    return e->reached == e->recorded ? CU_OK : CU_NOT_READY;
}

STW_API cu_result cuStreamWaitEvent(cu_stream s, cu_event h, unsigned flags)
{
    BEGIN(stream_wait);
    event *e = h;
    TRY(double_need_context("cuStreamWaitEvent"));
    NEED(!e->dead && e->recorded > 0 && flags == 0, "cuStreamWaitEvent", "dead, or never recorded");
    NEED(!stream_of(s)->dead, "cuStreamWaitEvent", "on a stream that is no more");
    NEED(!stream_of(s)->capturing, "cuStreamWaitEvent", "in a capture");
    queue(stream_of(s), (work){.kind = WAIT, .e = e, .recording = e->recorded});
    return CU_OK;
}

uint64_t double_stream(void)
{
    stream *s = calloc(1, sizeof *s);
    if (!s)
        abort();
    double_held();
    s->of = double_top() ? double_top() : double_primary();
    s->next = streams;
    streams = s;
    double_let_go(NULL);
    return (uintptr_t)s;
}

static stream *stream_named(uint64_t s)
{
    return stream_of((cu_stream)(uintptr_t)s);
}

void double_destroy_stream(uint64_t s)
{
    double_held();
    stream_named(s)->dead = true; /* its record stays, so that its use is seen */
    stream_named(s)->capturing = false;
    double_let_go(NULL);
}

void double_launch(uint64_t s, void *p, size_t n, uint8_t value, bool look)
{
    double_held();
    queue(stream_named(s), (work){.kind = look ? LOOK : FILL, .p = p, .n = n, .value = value});
    double_let_go(NULL);
}

bool double_progress(uint64_t *seed)
{
    stream *able[64];
    size_t n = 0;
    double_held();
    for (stream *s = streams; s && n < 63; s = s->next)
        if (s->begin < s->end && !(s->queue[s->begin].kind == WAIT && s->queue[s->begin].e->reached < s->queue[s->begin].recording))
            able[n++] = s;
    if (legacy.begin < legacy.end)
        able[n++] = &legacy;
    *seed = *seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
    bool ran = n > 0 && run_one(able[(*seed >> 33) % n]);
    double_let_go(NULL);
    return ran;
}

unsigned long double_wrong(void)
{
    double_held();
    unsigned long n = wrongs;
    double_let_go(NULL);
    return n;
}

void double_capture(uint64_t s)
{
    double_held();
    stream_named(s)->capturing = true;
    stream_named(s)->broken = false;
    double_let_go(NULL);
}

bool double_capture_end(uint64_t s)
{
    double_held();
    stream_named(s)->capturing = false;
    bool good = !stream_named(s)->broken;
    double_let_go(NULL);
    return good;
}

void double_work_forgive(void)
{
    wrongs = 0;
}

void double_work_reset(void)
{
    for (stream *s = streams, *next; s; s = next) {
        next = s->next;
        free(s->queue);
        free(s);
    }
    for (event *e = events, *next; e; e = next) {
        next = e->next;
        free(e);
    }
    free(legacy.queue);
    legacy = (stream){0};
    streams = NULL;
    events = NULL;
    wrongs = 0;
    thread_mode = 0;
}
