/* bench_plan.c: requests that a plan knows, in step and nearly so, on one stream and on several. */
#include "bench.h"

static void plan_row(const char *what, load *l)
{
    stw_stats s;
    double ns = measure_load(l, &s);
    row(what, ns);
    printf("%.1f %% hits, %.1f %% slow, %.1f %% heap\n", share(s.hits, s.requests), share(s.slow, s.requests),
           share(s.unknown + s.conflicts + s.too_large, s.requests));
}

/* ---- planned requests ---- */

/* An arena with `holes` one-unit holes between live blocks, made by the prologue, and a step of
 * STEP entries: every other goes into a hole, the others above them. Their sizes go to `sizes`. */
static stw_allocator *holes_plan(uint32_t holes)
{
    builder b = {0};
    builder_stream(&b, 0, 0, 2 * holes + WINDOW * 40 + 2);
    uint32_t i;
    for (i = 0; i < 2 * holes; i++)
        builder_entry(&b, builder_planned(&b, 0, i, 1), STW_ENTRY_LIFE_MAX);
    b.loop_start = 2 * holes;
    for (i = 0; i < STEP; i++) {
        bool in_hole = i % 2 && i / 2 % WINDOW < holes;
        uint32_t units = in_hole ? 1 : 8 + i % 33;
        uint32_t offset = in_hole ? 2 * (uint32_t)((uint64_t)(i / 2 % WINDOW) * holes / WINDOW) + 1 : 2 * holes + i % WINDOW * 40;
        builder_entry(&b, builder_planned(&b, 0, offset, units), 1);
        sizes[i] = units * 512;
    }
    stw_allocator *a = make(&b, BIG_GRANULE);
    void **live = calloc(2 * holes + 1, sizeof *live);
    for (i = 0; live && i < 2 * holes; i++)
        live[i] = stw_malloc(a, 512, 0);
    for (i = 1; live && i < 2 * holes; i += 2)
        stw_free(a, live[i]);
    free(live);
    return a;
}

/* LAPS steps of holes_plan with one request in `every` too many or missing; returns their number. */
static size_t diverge(uint64_t every)
{
    static size_t step[STEP];
    uint64_t seed = 3;
    size_t n = 0;
    memcpy(step, sizes, sizeof step);
    for (size_t lap = 0; lap < LAPS; lap++)
        for (size_t i = 0; i < STEP; i++) {
            uint64_t r = check_random(&seed);
            if (r % every == 0 && r >> 63)
                continue;
            sizes[n++] = step[i];
            if (r % every == 0)
                sizes[n++] = (1000 + (r >> 32) % 100) * 512;
        }
    return n;
}

void plan_rows(void)
{
    static const uint32_t holes[] = {10, 10000, 100000};
    char what[100];
    group("planned requests, in order");
    stw_allocator *a = holes_plan(0);
    plan_row("in sync", &(load){.a = a, .sizes = sizes, .n = STEP, .window = 1});
    stw_destroy(a);
    a = holes_plan(0);
    plan_row("in sync, freed 40 requests later", &(load){.a = a, .sizes = sizes, .n = STEP, .window = 40});
    stw_destroy(a);
    for (int i = 0; i < 3; i++) {
        a = holes_plan(holes[i]);
        snprintf(what, sizeof what, "in sync, %u holes in the arena", holes[i]);
        plan_row(what, &(load){.a = a, .sizes = sizes, .n = STEP, .window = 1});
        stw_destroy(a);
    }
    group("planned requests, some too many or missing");
    for (uint64_t every = 1000; every >= 100; every /= 10)
        for (size_t window = 1; window <= 40; window += 39) {
            a = holes_plan(0);
            size_t n = diverge(every);
            snprintf(what, sizeof what, "%g %%%s", 100.0 / (double)every, window == 1 ? "" : ", freed 40 requests later");
            plan_row(what, &(load){.a = a, .sizes = sizes, .n = n, .window = window});
            stw_destroy(a);
        }
}

/* ---- streams ---- */

static void *no_event(void *ctx, uint64_t stream)
{
    (void)stream;
    return ctx;
}

static int no_wait(void *ctx, uint64_t stream, void *event)
{
    (void)stream;
    return ctx == event ? 0 : -1;
}

static int always_done(void *ctx, void *event)
{
    return ctx == event;
}

static void no_drop(void *ctx, void *event)
{
    (void)ctx;
    (void)event;
}

typedef struct {
    stw_allocator *a;
    size_t n, at;
    uint64_t streams[2 * STEP];
    void *live[WINDOW];
} stream_load;

static void stream_pairs(void *ctx, size_t n)
{
    stream_load *l = ctx;
    for (size_t i = 0; i < n; i++) {
        stw_free(l->a, l->live[l->at % WINDOW]);
        l->live[l->at % WINDOW] = stw_malloc(l->a, sizes[l->at], l->streams[l->at]);
        l->at = l->at + 1 == l->n ? 0 : l->at + 1;
    }
}

/* A step in which `places` addresses go round; where streams share, each goes from one to the next. Where fine, an atom
 * is a unit. */
static void stream_row(uint32_t streams, bool shared, uint32_t places, bool fine)
{
    static stream_load l;
    builder b = {.shared_age = shared ? 501 : 0};
    char what[100], message[300];
    size_t bytes;
    l = (stream_load){.n = 2 * STEP - 2 * STEP % (places * streams)};
    for (uint32_t s = 0; s < streams; s++)
        builder_stream(&b, s, shared ? 0 : s * places * 40, (shared ? 1 : s + 1) * places * 40);
    for (uint32_t i = 0; fine && i < places * 40 * (shared ? 1 : streams); i++)
        builder_planned(&b, shared ? 0 : i / (places * 40), i, 1);
    for (uint32_t i = 0; i < l.n; i++) {
        uint32_t s = (i % places + i / places) % streams, units = 8 + i % 33;
        l.streams[i] = s;
        sizes[i] = units * 512;
        builder_entry(&b, builder_planned(&b, s, ((shared ? 0 : s) * places + i % places) * 40, units), WINDOW);
    }
    uint8_t *file = builder_finish(&b, &bytes);
    stw_backend backend = test_backend_make(&memory, true, BIG_GRANULE);
    backend.event_record = no_event;
    backend.event_wait = no_wait;
    backend.event_done = always_done;
    backend.event_drop = no_drop;
    if (stw_create(&l.a, file, bytes, &(stw_options){.heap_bytes = UINT64_C(1) << 40}, &backend, message, sizeof message) != STW_OK)
        exit(1);
    free(file);
    stream_pairs(&l, l.n);
    stw_stats s0, s;
    stw_get_stats(l.a, &s0);
    double ns = measure(stream_pairs, &l);
    stw_get_stats(l.a, &s);
    snprintf(what, sizeof what, "%u streams %s%s%s", streams, shared ? "share" : "apart", !shared ? "" : places > 500 ? ", AGE kept" : ", reused at once",
             fine ? ", 8 to 40 atoms" : "");
    row(what, ns);
    double kilo = (double)(s.requests - s0.requests) / 1000;
    printf("%.1f %% hits; of 1000 requests %.1f record, %.1f wait\n", share(s.hits - s0.hits, s.requests - s0.requests),
           (double)(s.event_records - s0.event_records) / kilo, (double)(s.event_waits - s0.event_waits) / kilo);
    for (size_t i = 0; i < WINDOW; i++)
        stw_free(l.a, l.live[i]);
    stw_destroy(l.a);
}

void stream_rows(void)
{
    group("planned requests on several streams, freed 64 later");
    for (int fine = 0; fine < 2; fine++)
        for (uint32_t streams = 2; streams <= 3; streams++) {
            stream_row(streams, false, 640, fine);
            stream_row(streams, true, 640, fine);
            stream_row(streams, true, 80, fine);
        }
}
