/* bench.c: the price of a malloc + free pair on every path, beside glibc's and mimalloc's pair of 64
 * bytes in the same run. A row is the median of short rounds of thread CPU time (of all threads
 * together where there are several), so that what else runs on the machine counts little. Times say
 * something about one machine; the ratios, the growth down a group of rows and the counts are what
 * to look at. Memory is bare addresses: no row pays for pages.
 *
 *     bench            every group
 *     bench heap       one of plan, streams, idle, heap, threads
 */
#define _GNU_SOURCE
#include "bench.h"

#include <dlfcn.h>
#include <time.h>

enum { ROUND_NS = 2000000, APART_NS = 100 };

test_backend memory;
size_t sizes[STEP * LAPS * 2];
static double glibc_ns, mimalloc_ns; /* 0: not installed */

double clock_ns(int clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

double cpu(void)
{
    return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

void group(const char *what)
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

void row(const char *what, double ns)
{
    printf("  %-48s %10.1f", what, ns);
    ratio(ns, glibc_ns);
    ratio(ns, mimalloc_ns);
    printf("   ");
}

void bare_row(const char *what, double ns)
{
    row(what, ns);
    puts("");
}

/* ---- rounds ---- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double median(double *v, size_t n)
{
    qsort(v, n, sizeof *v, by_value);
    return v[n / 2];
}

double measure(pairs_fn *pairs, void *ctx)
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

void apart(double pair, pairs_fn *mallocs, pairs_fn *frees, void *ctx)
{
    enum { TURNS = 501 };
    static double in[TURNS], out[TURNS];
    if (pair > APART_NS) {
        for (int i = 0; i < TURNS; i++) {
            const double t = clock_ns(CLOCK_MONOTONIC); /* which costs next to nothing; a turn that was interrupted is no median */
            mallocs(ctx, WINDOW);
            const double between = clock_ns(CLOCK_MONOTONIC);
            frees(ctx, WINDOW);
            in[i] = (between - t) / WINDOW;
            out[i] = (clock_ns(CLOCK_MONOTONIC) - between) / WINDOW;
        }
        printf("malloc %.0f, free %.0f", median(in, TURNS), median(out, TURNS));
    }
    puts("");
}

/* ---- requests to us: a round trip of sizes, each freed `window` requests later ---- */

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

stw_allocator *make(builder *b, size_t granule)
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

double share(uint64_t part, uint64_t whole)
{
    return whole ? 100 * (double)part / (double)whole : 0;
}

static void load_mallocs(void *ctx, size_t n)
{
    load *l = ctx;
    for (size_t i = 0; i < n; i++) {
        l->live[i] = stw_malloc(l->a, l->sizes[l->at], 0);
        l->at = l->at + 1 == l->n ? 0 : l->at + 1;
    }
}

static void load_frees(void *ctx, size_t n)
{
    load *l = ctx;
    for (size_t i = 0; i < n; i++)
        stw_free(l->a, l->live[i]);
}

void load_apart(double pair, load *l)
{
    apart(pair, load_mallocs, load_frees, l);
    load_frees(l, WINDOW);
}

double measure_load(load *l, stw_stats *s)
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

/* ---- glibc and mimalloc ---- */

plain glibc = {malloc, free, {0}}, mimalloc;

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

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*rows)(void);
    } groups[] = {{"plan", plan_rows}, {"streams", stream_rows}, {"idle", dynamic_rows}, {"heap", heap_rows}, {"threads", thread_rows}};
    printf("ns for malloc + free: thread CPU time, median of %d rounds; apart: on the clock\n", ROUNDS);
    plain_rows();
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        if (argc < 2 || strcmp(argv[1], groups[i].name) == 0)
            groups[i].rows();
    return 0;
}
