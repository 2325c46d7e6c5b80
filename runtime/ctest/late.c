/* late.c: see late.h. */
#include "late.h"
#include "check.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define UNIT 512u
#define MOST_QUEUED 3000u /* then the oldest item must be done */
#define RANGES 16u

typedef struct {
    uint64_t at[LATE_STREAMS]; /* by stream: items that are known to come before */
} stamp;

typedef struct {
    stamp when;
    uint32_t users; /* items in queues, and whoever recorded it */
    bool reached;
} event;

typedef struct {
    enum { USE, RECORD, WAIT } what;
    event *e;
    char *p;
    size_t bytes;
    uint64_t owner, turn; /* turn: number of the host's call that queued it */
    bool first, writes;
} item;

typedef struct {
    item *items; /* queued ones: [head, tail), modulo room */
    uint64_t head, tail, room;
    stamp now;
} queue;

typedef struct {
    uint64_t at[LATE_STREAMS], owner[LATE_STREAMS]; /* last use by each stream */
} cell;

struct late_device {
    pthread_mutex_t lock;
    stw_backend host;
    late_faults faults;
    uint64_t seed, turn;
    uint32_t n_queued;
    uint32_t favourite; /* of the adversary */
    uint32_t manner;
    stamp seen; /* by the host */
    queue queues[LATE_STREAMS];
    struct {
        char *base;
        size_t bytes;
        cell *cells;
    } ranges[RANGES];
    int64_t reserved, committed, events;
    late_counts counts;
};

static void join(stamp *to, const stamp *from)
{
    for (uint32_t i = 0; i < LATE_STREAMS; i++)
        if (from->at[i] > to->at[i])
            to->at[i] = from->at[i];
}

static void let_go(late_device *d, event *e)
{
    if (--e->users == 0) {
        free(e);
        d->events--;
    }
}

static item *push(late_device *d, uint32_t stream, item it)
{
    queue *q = &d->queues[stream];
    if (q->tail - q->head == q->room) {
        uint64_t room = q->room ? 2 * q->room : 64;
        item *more = malloc(room * sizeof *more);
        if (!more)
            abort();
        for (uint64_t i = q->head; i < q->tail; i++)
            more[i % room] = q->items[i % q->room];
        free(q->items);
        q->items = more;
        q->room = room;
    }
    it.turn = d->turn++;
    q->now.at[stream] = q->tail + 1;
    join(&q->now, &d->seen);
    if (it.what == WAIT)
        join(&q->now, &it.e->when);
    if (++d->n_queued > d->counts.longest)
        d->counts.longest = d->n_queued;
    item *place = &q->items[q->tail++ % q->room];
    *place = it;
    return place;
}

/* ---- doing the work ---- */

static uint64_t word(uint64_t owner, size_t unit)
{
    return (owner + unit * 7919) * UINT64_C(0x9e3779b97f4a7c15);
}

static void work(late_device *d, uint32_t stream)
{
    queue *q = &d->queues[stream];
    item it = q->items[q->head++ % q->room];
    bool wrong = false;
    d->n_queued--;
    if (it.what == RECORD)
        it.e->reached = true;
    if (it.what != USE) {
        let_go(d, it.e);
        return;
    }
    for (size_t at = 0; at < it.bytes; at += UNIT) {
        uint64_t v, want = word(it.owner, at);
        memcpy(&v, it.p + at, sizeof v);
        wrong |= !it.first && v != want;
        if (it.writes)
            memcpy(it.p + at, &want, sizeof want);
    }
    d->counts.by_memory += wrong;
}

static bool can_go(const queue *q)
{
    if (q->head == q->tail)
        return false;
    const item *it = &q->items[q->head % q->room];
    return it->what != WAIT || it->e->reached;
}

/* One item of whichever stream hurts most; false: there is none. */
static bool go_on(late_device *d)
{
    uint32_t chosen = LATE_STREAMS;
    uint64_t best = 0, r = check_random(&d->seed);
    if (r % 200 == 0) { /* another mood */
        d->favourite = (uint32_t)(r >> 32) % LATE_STREAMS;
        d->manner = (uint32_t)(r >> 20) % 3;
    }
    for (uint32_t s = 0; s < LATE_STREAMS; s++) {
        if (!can_go(&d->queues[s]))
            continue;
        uint64_t value = 1 + check_random(&d->seed) % 100; /* any */
        if (d->manner == 0) /* the one queued last: what came before it waits */
            value = 1 + d->queues[s].items[d->queues[s].head % d->queues[s].room].turn;
        else if (d->manner == 1 && s == d->favourite)
            value = 1000;
        if (value > best) {
            best = value;
            chosen = s;
        }
    }
    if (chosen < LATE_STREAMS)
        work(d, chosen);
    return chosen < LATE_STREAMS;
}

static void some(late_device *d)
{
    for (uint64_t n = check_random(&d->seed) % 3; n > 0 && go_on(d); n--)
        ;
    while (d->n_queued > MOST_QUEUED) { /* the oldest first: it can always go on */
        uint32_t oldest = LATE_STREAMS;
        for (uint32_t s = 0; s < LATE_STREAMS; s++) {
            const queue *q = &d->queues[s];
            if (can_go(q) && (oldest == LATE_STREAMS || q->items[q->head % q->room].turn <
                                                            d->queues[oldest].items[d->queues[oldest].head % d->queues[oldest].room].turn))
                oldest = s;
        }
        if (oldest == LATE_STREAMS)
            abort();
        work(d, oldest);
    }
}

static void finish(late_device *d)
{
    while (go_on(d))
        ;
    for (uint32_t s = 0; s < LATE_STREAMS; s++)
        d->seen.at[s] = d->queues[s].tail;
}

/* ---- what the program and the allocator ask for ---- */

static cell *cell_of(late_device *d, const char *p)
{
    for (uint32_t i = 0; i < RANGES; i++)
        if (d->ranges[i].base && p >= d->ranges[i].base && p < d->ranges[i].base + d->ranges[i].bytes)
            return &d->ranges[i].cells[(size_t)(p - d->ranges[i].base) / UNIT];
    return NULL;
}

void late_use(late_device *d, uint32_t stream, void *p, size_t bytes, uint64_t owner, bool first, bool writes)
{
    pthread_mutex_lock(&d->lock);
    push(d, stream, (item){.what = USE, .p = p, .bytes = bytes, .owner = owner, .first = first, .writes = writes});
    const stamp *now = &d->queues[stream].now;
    bool caught = false;
    cell *c = cell_of(d, p);
    for (size_t at = 0; c && at < bytes; at += UNIT, c++) {
        for (uint32_t x = 0; x < LATE_STREAMS; x++)
            caught |= c->owner[x] != owner && c->at[x] > now->at[x];
        c->at[stream] = now->at[stream];
        c->owner[stream] = owner;
    }
    d->counts.uses++;
    d->counts.by_clocks += caught;
    some(d);
    pthread_mutex_unlock(&d->lock);
}

static event *record(late_device *d, uint32_t stream)
{
    event *e = calloc(1, sizeof *e);
    if (!e)
        abort();
    e->users = 2;
    d->events++;
    push(d, stream, (item){.what = RECORD, .e = e});
    e->when = d->queues[stream].now;
    return e;
}

static void wait_for(late_device *d, uint32_t stream, event *e)
{
    e->users++;
    push(d, stream, (item){.what = WAIT, .e = e});
}

void late_join(late_device *d, uint32_t before, uint32_t after)
{
    pthread_mutex_lock(&d->lock);
    event *e = record(d, before);
    wait_for(d, after, e);
    let_go(d, e);
    some(d);
    pthread_mutex_unlock(&d->lock);
}

static bool refuse(late_device *d)
{
    return d->faults.fail_one_in && check_random(&d->seed) % d->faults.fail_one_in == 0;
}

static void *event_record(void *ctx, uint64_t stream)
{
    late_device *d = ctx;
    pthread_mutex_lock(&d->lock);
    event *e = refuse(d) ? NULL : record(d, (uint32_t)stream);
    pthread_mutex_unlock(&d->lock);
    return e;
}

static int event_wait(void *ctx, uint64_t stream, void *e)
{
    late_device *d = ctx;
    pthread_mutex_lock(&d->lock);
    int result = refuse(d) ? -1 : 0;
    if (result == 0 && !d->faults.blind)
        wait_for(d, (uint32_t)stream, e);
    pthread_mutex_unlock(&d->lock);
    return result;
}

static int event_done(void *ctx, void *p)
{
    late_device *d = ctx;
    event *e = p;
    pthread_mutex_lock(&d->lock);
    int result = refuse(d) ? -1 : e->reached;
    if (result == 1)
        join(&d->seen, &e->when);
    if (d->faults.hasty)
        result = 1;
    pthread_mutex_unlock(&d->lock);
    return result;
}

static void event_drop(void *ctx, void *e)
{
    late_device *d = ctx;
    pthread_mutex_lock(&d->lock);
    let_go(d, e);
    pthread_mutex_unlock(&d->lock);
}

static void *reserve(void *ctx, size_t bytes)
{
    late_device *d = ctx;
    void *p = NULL;
    pthread_mutex_lock(&d->lock);
    for (uint32_t i = 0; i < RANGES && !p; i++) {
        if (d->ranges[i].base)
            continue;
        if ((p = d->host.reserve(d->host.ctx, bytes)) == NULL)
            break;
        d->ranges[i].base = p;
        d->ranges[i].bytes = bytes;
        d->ranges[i].cells = calloc(bytes / UNIT, sizeof(cell));
        d->reserved += (int64_t)bytes;
        if (!d->ranges[i].cells)
            abort();
    }
    pthread_mutex_unlock(&d->lock);
    return p;
}

static int commit(void *ctx, void *p, size_t bytes)
{
    late_device *d = ctx;
    pthread_mutex_lock(&d->lock);
    d->committed += (int64_t)bytes;
    int result = d->host.commit(d->host.ctx, p, bytes);
    pthread_mutex_unlock(&d->lock);
    return result;
}

static void decommit(void *ctx, void *p, size_t bytes)
{
    late_device *d = ctx;
    pthread_mutex_lock(&d->lock);
    finish(d);
    d->committed -= (int64_t)bytes;
    d->host.decommit(d->host.ctx, p, bytes);
    pthread_mutex_unlock(&d->lock);
}

static void release(void *ctx, void *p, size_t bytes)
{
    late_device *d = ctx;
    pthread_mutex_lock(&d->lock);
    finish(d);
    for (uint32_t i = 0; i < RANGES; i++)
        if (d->ranges[i].base == p) {
            free(d->ranges[i].cells);
            d->ranges[i].base = NULL;
        }
    d->reserved -= (int64_t)bytes;
    d->host.release(d->host.ctx, p, bytes);
    pthread_mutex_unlock(&d->lock);
}

late_device *late_make(uint64_t seed, size_t granularity, late_faults faults)
{
    late_device *d = calloc(1, sizeof *d);
    if (!d)
        abort();
    pthread_mutex_init(&d->lock, NULL);
    d->host = stw_backend_host(granularity);
    d->seed = seed;
    d->faults = faults;
    return d;
}

bool late_drop(late_device *d)
{
    finish(d);
    bool clean = d->n_queued == 0 && d->events == 0 && d->reserved == 0 && d->committed == 0;
    for (uint32_t s = 0; s < LATE_STREAMS; s++)
        free(d->queues[s].items);
    pthread_mutex_destroy(&d->lock);
    free(d);
    return clean;
}

stw_backend late_backend(late_device *d)
{
    return (stw_backend){.ctx = d, .granularity = d->host.granularity, .reserve = reserve, .commit = commit, .decommit = decommit,
                         .release = release, .event_record = event_record, .event_wait = event_wait, .event_done = event_done,
                         .event_drop = event_drop};
}

late_counts late_count(late_device *d)
{
    pthread_mutex_lock(&d->lock);
    late_counts c = d->counts;
    pthread_mutex_unlock(&d->lock);
    return c;
}
