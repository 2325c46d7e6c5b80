/* bench.c: the price of a malloc + free pair on every path, beside glibc's and mimalloc's pair of 64
 * bytes in the same run. A row is the median of short rounds of thread CPU time (of all threads
 * together where there are several), so that what else runs on the machine counts little. Times say
 * something about one machine; the ratios, the growth down a group of rows and the counts are what
 * to look at. Memory is bare addresses: no row pays for pages.
 */
#define _GNU_SOURCE
#include "../stw_internal.h"
#include "check.h"
#include "support.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUNDS = 15, ROUND_NS = 2000000, MOST = 100000, STEP = 1000, LAPS = 20, WINDOW = 64, THREADS = 4,
       BIG_GRANULE = 2 << 20, GRANULE = 64 << 10 };

static test_backend memory;
static double glibc_ns, mimalloc_ns; /* 0: not installed */

static double clock_ns(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static double cpu(void)
{
    return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

static void group(const char *what)
{
    printf("\n%-50s %10s %10s %10s   %s\n", what, "ns a pair", "x glibc", "x mimalloc", "counts");
}

static void ratio(double ns, double of)
{
    if (of > 0)
        printf(" %10.2f", ns / of);
    else
        printf(" %10s", "-");
}

/* One line of the table; the caller ends it, with counts. */
static void row(const char *what, double ns)
{
    printf("  %-48s %10.1f", what, ns);
    ratio(ns, glibc_ns);
    ratio(ns, mimalloc_ns);
    printf("   ");
}

static void bare_row(const char *what, double ns)
{
    row(what, ns);
    puts("");
}

/* ---- rounds ---- */

typedef void pairs_fn(void *ctx, size_t n);

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v, size_t n)
{
    qsort(v, n, sizeof *v, by_value);
    return v[n / 2];
}

/* Median ns of one of n pairs; a first round warms up and says how many fill a round. */
static double measure(pairs_fn *pairs, void *ctx)
{
    double t = cpu(), times[ROUNDS];
    pairs(ctx, STEP);
    t = (cpu() - t) / STEP;
    size_t n = t * MOST < ROUND_NS ? MOST : (size_t)(ROUND_NS / t) + 1;
    for (int r = 0; r < ROUNDS; r++) {
        t = cpu();
        pairs(ctx, n);
        times[r] = (cpu() - t) / (double)n;
    }
    return median(times, ROUNDS);
}

/* ---- glibc and mimalloc ---- */

typedef struct {
    void *(*get)(size_t);
    void (*put)(void *);
    void *live[WINDOW];
} plain;

static plain glibc = {malloc, free, {0}}, mimalloc;

/* Looked for, never needed: local symbols, so nothing of this process is replaced. */
static void find_mimalloc(void)
{
    void *lib = dlopen("libmimalloc.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!lib)
        lib = dlopen("libmimalloc.so", RTLD_NOW | RTLD_LOCAL);
    void *get = lib ? dlsym(lib, "mi_malloc") : NULL, *put = lib ? dlsym(lib, "mi_free") : NULL;
    if (get && put) { /* ISO C has no cast from an object's address to a function's */
        memcpy(&mimalloc.get, &get, sizeof get);
        memcpy(&mimalloc.put, &put, sizeof put);
    }
}

static void plain_pairs(void *ctx, size_t n)
{
    const plain *p = ctx;
    for (size_t i = 0; i < n; i++) {
        void *volatile q = p->get(64);
        p->put(q);
    }
}

static void plain_window(void *ctx, size_t n)
{
    plain *p = ctx;
    for (size_t i = 0; i < n; i++) {
        p->put(p->live[i % WINDOW]);
        p->live[i % WINDOW] = p->get(64);
    }
}

static void plain_rows(void)
{
    find_mimalloc();
    glibc_ns = measure(plain_pairs, &glibc);
    mimalloc_ns = mimalloc.get ? measure(plain_pairs, &mimalloc) : 0;
    group("other allocators, 64 bytes");
    bare_row("glibc", glibc_ns);
    bare_row("glibc, freed 64 requests later", measure(plain_window, &glibc));
    if (!mimalloc.get) {
        printf("  %-48s %10s %10s %10s   not installed\n", "mimalloc", "-", "-", "-");
        return;
    }
    bare_row("mimalloc", mimalloc_ns);
    bare_row("mimalloc, freed 64 requests later", measure(plain_window, &mimalloc));
}

/* ---- requests to us: a round trip of sizes, each freed `window` requests later ---- */

typedef struct {
    stw_allocator *a;
    const size_t *sizes;
    size_t n, at, window;
    bool trim; /* the heap, before each round trip */
    void *live[WINDOW];
} load;

static void load_pairs(void *ctx, size_t n)
{
    load *l = ctx;
    size_t at = l->at;
    if (l->window == 1)
        for (size_t i = 0; i < n; i++) {
            if (l->trim && at == 0)
                stw_trim(l->a);
            stw_free(l->a, stw_malloc(l->a, l->sizes[at], 0));
            at = at + 1 == l->n ? 0 : at + 1;
        }
    else
        for (size_t i = 0, w = 0; i < n; i++) {
            stw_free(l->a, l->live[w]);
            l->live[w] = stw_malloc(l->a, l->sizes[at], 0);
            at = at + 1 == l->n ? 0 : at + 1;
            w = w + 1 == l->window ? 0 : w + 1;
        }
    l->at = at;
}

static stw_allocator *make(builder *b, size_t granule)
{
    char message[300];
    size_t n = 0;
    uint8_t *file = b ? builder_finish(b, &n) : NULL;
    stw_backend backend = test_backend_make(&memory, true, granule);
    stw_options o = {.heap_bytes = UINT64_C(1) << 40};
    stw_allocator *a;
    if (stw_create(&a, file, n, &o, &backend, message, sizeof message) != STW_OK) {
        puts(message);
        exit(1);
    }
    free(file);
    return a;
}

static double share(uint64_t part, uint64_t whole)
{
    return whole ? 100 * (double)part / (double)whole : 0;
}

/* Measures a load; *s: what was counted meanwhile. What is still held is freed. */
static double measure_load(load *l, stw_stats *s)
{
    stw_stats s0;
    stw_get_stats(l->a, &s0);
    double ns = measure(load_pairs, l);
    stw_get_stats(l->a, s);
    s->requests -= s0.requests;
    s->hits -= s0.hits;
    s->slow -= s0.slow;
    s->unknown -= s0.unknown;
    s->guests -= s0.guests;
    s->conflicts -= s0.conflicts;
    s->too_large -= s0.too_large;
    s->trims -= s0.trims;
    s->returned_bytes -= s0.returned_bytes;
    for (size_t i = 0; i < WINDOW; i++)
        stw_free(l->a, l->live[i]);
    return ns;
}

static void plan_row(const char *what, load *l)
{
    stw_stats s;
    double ns = measure_load(l, &s);
    row(what, ns);
    printf("%.1f %% hits, %.1f %% slow, %.1f %% heap\n", share(s.hits, s.requests), share(s.slow, s.requests),
           share(s.unknown + s.conflicts + s.too_large, s.requests));
}

/* ---- planned requests ---- */

static size_t sizes[STEP * LAPS * 2];

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

static void plan_rows(void)
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

static void stream_rows(void)
{
    group("planned requests on several streams, freed 64 later");
    for (int fine = 0; fine < 2; fine++)
        for (uint32_t streams = 2; streams <= 3; streams++) {
            stream_row(streams, false, 640, fine);
            stream_row(streams, true, 640, fine);
            stream_row(streams, true, 80, fine);
        }
}

/* ---- dynamic requests ---- */

/* What is searched: an arena of `atoms` atoms of 4 to 40 units, an even number, of which `guests`, evenly, lie under a guest. */
typedef struct {
    uint32_t atoms, guests, smallest; /* requests are of `smallest` to smallest + 38 units, an odd number: no run is what one would like best */
    uint32_t need;  /* the list of needs names every need-th atom; 0: none */
    bool mixed;     /* every other request is planned, above all that */
    size_t window;
} guests_load;

/* One list of needs; returns its bytes. */
static size_t guests_needs(uint32_t *needs, const uint32_t *units, const guests_load *g)
{
    uint32_t n = 0;
    needs[0] = 1;
    for (uint32_t i = 0, at = 0; g->need > 0 && i < g->atoms; at += units[i++])
        if (i % g->need == 0) {
            needs[3 + 2 * n] = at;
            needs[3 + 2 * n++ + 1] = at + units[i];
        }
    for (uint32_t i = 0, *above = &needs[3 + 2 * n]; g->mixed && i < g->atoms; i++) {
        above[0] = i == 0 ? units[i] : above[0] + units[i];
        above[1] = above[0] + WINDOW * 40;
    }
    n += g->mixed;
    needs[1] = 0;
    needs[2] = n;
    return (3 + 2 * (size_t)n) * sizeof *needs;
}

/* A prologue puts a guest on every atom, all but `guests` of them are freed, and a loop of dynamic requests begins. */
static stw_allocator *guests_plan(const guests_load *g)
{
    static uint32_t needs[2][3 + 2 * MOST] = {{2}};
    builder b = {.extra_kind = STW_SECTION_NEEDS, .extra_flags = STW_SECTION_OPTIONAL, .extra_text = needs[1]};
    uint64_t seed = 5;
    uint32_t *units = calloc(g->atoms, sizeof *units), end = 0;
    void **live = calloc(g->atoms, sizeof *live);
    if (!units || !live)
        exit(1);
    for (uint32_t i = 0; i < g->atoms; i++)
        end += units[i] = 4 + 2 * (uint32_t)(check_random(&seed) % 19);
    size_t bytes = guests_needs(needs[0], units, g);
    needs[1][0] = 2; /* an empty one before it, for the prologue */
    needs[1][1] = needs[1][2] = 0;
    memcpy(&needs[1][3], &needs[0][2], bytes - 2 * sizeof **needs);
    b.extra_bytes = bytes + sizeof **needs;
    builder_stream(&b, 0, 0, end + WINDOW * 40);
    uint32_t first = builder_dynamic(&b, 0, 1, 40), d = builder_dynamic(&b, 0, 1, 80);
    b.slots[first].aux = 1;
    b.slots[d].aux = 2;
    for (uint32_t i = 0, at = 0; i < g->atoms; at += units[i++]) {
        builder_planned(&b, 0, at, units[i]);
        builder_entry(&b, first, STW_ENTRY_LIFE_MAX);
    }
    b.loop_start = g->atoms;
    for (uint32_t i = 0; i < STEP; i++) {
        bool planned = g->mixed && i % 2 == 0;
        uint32_t n = planned ? 8 + i % 33 : g->smallest + 2 * (uint32_t)(check_random(&seed) % 20);
        builder_entry(&b, planned ? builder_planned(&b, 0, end + i % WINDOW * 40, n) : d, 1);
        sizes[i] = n * 512;
    }
    stw_allocator *a = make(&b, BIG_GRANULE);
    for (uint32_t i = 0; i < g->atoms; i++)
        live[i] = stw_malloc(a, units[i] * 512, 0);
    for (uint64_t i = 0; i < g->atoms; i++)
        if (i * g->guests / g->atoms == (i + 1) * g->guests / g->atoms)
            stw_free(a, live[i]);
    free(units);
    free(live);
    return a;
}

static void guests_row(const char *more, guests_load g)
{
    char what[100];
    stw_allocator *a = guests_plan(&g);
    stw_stats s;
    uint64_t steps = a->idle.steps;
    double ns = measure_load(&(load){.a = a, .sizes = sizes, .n = STEP, .window = g.window}, &s);
    snprintf(what, sizeof what, "%u of %u atoms taken%s", g.guests, g.atoms, more);
    row(what, ns);
    printf("%.1f %% guests, %.1f steps a request\n", share(s.guests, s.requests), (double)(a->idle.steps - steps) / (double)s.requests);
    stw_destroy(a);
}

static void dynamic_rows(void)
{
    static const uint32_t half[] = {10, 1000, 10000, 30000};
    group("dynamic requests in idle space of the arena");
    for (int i = 0; i < 4; i++)
        guests_row("", (guests_load){2 * half[i], half[i], 1, 0, false, 1});
    for (int i = 1; i < 4; i++)
        guests_row(", the rest idle", (guests_load){half[i] + 10, half[i], 1, 0, false, 1});
    guests_row(", the rest idle", (guests_load){30000, 10, 1, 0, false, 1});
    guests_row(", freed 40 requests later", (guests_load){2000, 1000, 1, 0, false, 40});
    guests_row(", freed 40 requests later", (guests_load){30000, 10, 1, 0, false, 40});
    guests_row(", half are planned", (guests_load){2000, 1000, 1, 0, true, 40});
    guests_row(", half are planned", (guests_load){30000, 10, 1, 0, true, 40});
    guests_row(", all needed", (guests_load){20000, 10, 1, 1, false, 1});
    guests_row(", none fits", (guests_load){2000, 1000, 41, 0, false, 1});
    guests_row(", none fits", (guests_load){60000, 30000, 41, 0, false, 1});
    guests_row(", 10,000 needs", (guests_load){20000, 10, 1, 2, false, 1});
    guests_row(", 5,000 needs, none fits", (guests_load){20000, 10000, 41, 4, false, 1});
}

/* ---- the heap alone ---- */

/* A heap with `holes` holes between live blocks of 1 unit; small: all below 1 MiB. */
static stw_allocator *holes_heap(uint32_t holes, bool small, size_t granule)
{
    stw_allocator *a = make(NULL, granule);
    uint64_t seed = 1;
    void **live = calloc(2 * holes, sizeof *live);
    for (uint32_t i = 0; live && i < 2 * holes; i++) {
        uint64_t r = check_random(&seed);
        live[i] = stw_malloc(a, i % 2 == 0 ? 512 : small ? (1 + r % 2000) * 512 : (2048 + r % 10000) * 512, 0);
    }
    for (uint32_t i = 1; live && i < 2 * holes; i += 2)
        stw_free(a, live[i]);
    free(live);
    for (int i = 0; i < STEP; i++) {
        uint64_t r = check_random(&seed);
        sizes[i] = small ? (1 + r % 2000) * 512 : (2048 + r % 10000) * 512;
    }
    return a;
}

/* How many blocks a search passes on its way to a free one. */
static void print_depth(const stw_heap *h)
{
    uint64_t n = 0, sum = 0, most = 0;
    for (uint32_t b = h->last; b; b = h->blocks[b].prev) {
        uint64_t depth = 1;
        if (h->blocks[b].used || h->blocks[b].units < STW_SMALL_UNITS)
            continue;
        for (uint32_t t = b; (t = h->blocks[t].up) != 0;)
            depth++;
        n++;
        sum += depth;
        most = depth > most ? depth : most;
    }
    if (n)
        printf("%.2f blocks to a hole, at most %llu", (double)sum / (double)n, (unsigned long long)most);
    puts("");
}

static void heap_row(const char *what, stw_allocator *a, size_t n, size_t window)
{
    stw_stats s;
    row(what, measure_load(&(load){.a = a, .sizes = sizes, .n = n, .window = window}, &s));
    print_depth(a->streams[0].heap);
}

typedef struct {
    stw_allocator *a;
    void **live;
    uint64_t n, seed;
    size_t bytes;
} scattered;

static void scattered_pairs(void *ctx, size_t n)
{
    scattered *s = ctx;
    for (size_t i = 0; i < n; i++) {
        void **p = &s->live[check_random(&s->seed) % s->n];
        stw_free(s->a, *p);
        *p = stw_malloc(s->a, s->bytes, 0);
    }
}

/* As many live blocks of one size as holes, those in one list or one tree; freed is any, so that hardly a record is in the cache. */
static void scattered_row(const char *size, size_t bytes, uint64_t holes)
{
    scattered s = {make(NULL, BIG_GRANULE), calloc(holes, sizeof *s.live), holes, 7, bytes};
    char what[100];
    for (uint64_t i = 0; s.live && i < 2 * holes; i++) {
        s.live[i / 2] = stw_malloc(s.a, bytes, 0);
        stw_malloc(s.a, 512, 0);
    }
    for (uint64_t i = 0; s.live && i < holes; i++) /* the even ones lie before those that are remembered */
        stw_free(s.a, (char *)s.live[i] - bytes - 512);
    snprintf(what, sizeof what, "%s each, freed anywhere, %llu holes", size, (unsigned long long)holes);
    bare_row(what, measure(scattered_pairs, &s));
    free(s.live);
    stw_destroy(s.a);
}

static void heap_rows(void)
{
    static const uint32_t holes[] = {10, 10000, 100000};
    static const char *const range[] = {"1 to 6 MiB", "0.5 KiB to 1 MiB"};
    char what[100];
    stw_allocator *a = make(NULL, BIG_GRANULE);
    group("the heap alone");
    sizes[0] = 64;
    heap_row("64 bytes", a, 1, 1);
    heap_row("64 bytes, freed 64 requests later", a, 1, WINDOW);
    stw_destroy(a);
    for (int small = 1; small >= 0; small--)
        for (int i = 0; i < 3; i++) {
            a = holes_heap(holes[i], small, BIG_GRANULE);
            snprintf(what, sizeof what, "%s, %u holes", range[small], holes[i]);
            heap_row(what, a, STEP, 1);
            stw_destroy(a);
        }
    for (uint64_t n = 10000; n <= 100000; n *= 10)
        scattered_row("512 KiB", 512 << 10, n);
    for (uint64_t n = 10000; n <= 100000; n *= 10)
        scattered_row("2 MiB", 2 << 20, n);
    group("the heap after a trim: 10,000 holes, granules of 64 KiB");
    for (int small = 1; small >= 0; small--) {
        a = holes_heap(10000, small, GRANULE);
        stw_stats s;
        stw_get_stats(a, &s);
        uint64_t reserved = s.reserved_bytes;
        double t = cpu();
        uint64_t bytes = stw_trim(a);
        t = cpu() - t;
        row(range[small], measure_load(&(load){.a = a, .sizes = sizes, .n = STEP, .window = 1}, &s));
        printf("%.1f %% given back, in %.2f ms\n", share(bytes, reserved), t / 1e6);
        snprintf(what, sizeof what, "%s, and one before every 1,000 pairs", range[small]);
        row(what, measure_load(&(load){.a = a, .sizes = sizes, .n = STEP, .window = 1, .trim = true}, &s));
        printf("%.0f granules a trim\n", s.trims ? (double)s.returned_bytes / (double)s.trims / GRANULE : 0);
        stw_destroy(a);
    }
}

/* ---- threads ---- */

typedef struct {
    stw_allocator *a; /* NULL: `other` */
    const plain *other;
    uint64_t stream;
    pthread_t thread;
    pthread_barrier_t *start; /* NULL: at once */
    size_t pairs;
    double ns; /* of its CPU time */
} worker;

static void *work(void *arg)
{
    worker *w = arg;
    if (w->start)
        pthread_barrier_wait(w->start);
    double t = cpu();
    for (size_t i = 0; i < w->pairs; i++) {
        void *volatile p = w->a ? stw_malloc(w->a, 4096, w->stream) : w->other->get(64);
        if (w->a)
            stw_free(w->a, p);
        else
            w->other->put(p);
    }
    w->ns = cpu() - t;
    return NULL;
}

/* What any allocator with one lock costs. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void *locked_malloc(size_t bytes)
{
    pthread_mutex_lock(&mutex);
    void *p = malloc(bytes);
    pthread_mutex_unlock(&mutex);
    return p;
}

static void locked_free(void *p)
{
    pthread_mutex_lock(&mutex);
    free(p);
    pthread_mutex_unlock(&mutex);
}

/* n threads at once on one allocator: on a stream each, or all on one. CPU time of a pair, and how
 * long it took on the clock, all threads together. */
static void threads_row(const char *what, stw_allocator *a, const plain *other, size_t n, bool apart)
{
    enum { RUNS = 9, PAIRS = 4 * MOST };
    double runs[RUNS], wall[RUNS];
    for (int r = 0; r < RUNS; r++) {
        worker w[THREADS];
        pthread_barrier_t start;
        pthread_barrier_init(&start, NULL, (unsigned)n);
        double t = clock_ns(CLOCK_MONOTONIC);
        for (size_t i = 0; i < n; i++) {
            w[i] = (worker){a, other, apart ? i : 0, 0, &start, PAIRS / n, 0};
            if (pthread_create(&w[i].thread, NULL, work, &w[i]) != 0)
                exit(1);
        }
        runs[r] = 0;
        for (size_t i = 0; i < n; i++) {
            pthread_join(w[i].thread, NULL);
            runs[r] += w[i].ns / PAIRS;
        }
        pthread_barrier_destroy(&start);
        wall[r] = (clock_ns(CLOCK_MONOTONIC) - t) / PAIRS;
    }
    row(what, median(runs, RUNS));
    printf("%.1f to %.1f; on the clock %.1f\n", runs[0], runs[RUNS - 1], median(wall, RUNS));
}

/* Main and another thread in turns of 10,000 pairs, as forward and backward passes are. */
static double turns(stw_allocator *a)
{
    enum { RUNS = 5, TURNS = 20, TURN = 10000 };
    double runs[RUNS];
    for (int r = 0; r < RUNS; r++) {
        runs[r] = 0;
        for (int i = 0; i < TURNS; i++) {
            worker w = {a, NULL, 0, 0, NULL, TURN, 0};
            if (i % 2)
                work(&w);
            else if (pthread_create(&w.thread, NULL, work, &w) == 0)
                pthread_join(w.thread, NULL);
            runs[r] += w.ns / (TURNS * TURN);
        }
    }
    return median(runs, RUNS);
}

static void thread_rows(void)
{
    stw_allocator *a = make(NULL, BIG_GRANULE);
    group("threads on one allocator; 4,096 bytes, others 64");
    threads_row("glibc, 1 thread beside the main one", NULL, &glibc, 1, false);
    threads_row("heap, 1 thread beside the main one", a, NULL, 1, false);
    bare_row("heap, 2 threads in turns of 10,000 pairs", turns(a));
    threads_row("glibc, 4 threads", NULL, &glibc, THREADS, false);
    if (mimalloc.get)
        threads_row("mimalloc, 4 threads", NULL, &mimalloc, THREADS, false);
    threads_row("glibc under one mutex, 4 threads", NULL, &(plain){.get = locked_malloc, .put = locked_free}, THREADS, false);
    threads_row("heap, 4 threads, a stream each", a, NULL, THREADS, true);
    threads_row("heap, 4 threads, one stream", a, NULL, THREADS, false);
    stw_destroy(a);
}

int main(void)
{
    printf("ns for malloc + free: thread CPU time, median of %d rounds\n", ROUNDS);
    plain_rows();
    plan_rows();
    stream_rows();
    dynamic_rows();
    heap_rows();
    thread_rows();
    return 0;
}
