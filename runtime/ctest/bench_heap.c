/* bench_heap.c: the heap alone. */
#include "bench.h"

/* Sizes in units: from `least` on, `many` of them. */
typedef struct {
    const char *name;
    uint32_t least, many;
} range;

static const range small = {"0.5 KiB to 1 MiB", 1, 2000}, middle = {"1 to 6 MiB", 2048, 10000}, large = {"8 to 48 MiB", 16384, 81920};

/* A heap with `holes` holes between live blocks of 1 unit. */
static stw_allocator *holes_heap(uint32_t holes, const range *sized, size_t granule)
{
    stw_allocator *a = make(NULL, granule);
    uint64_t seed = 1;
    void **live = calloc(2 * holes, sizeof *live);
    for (uint32_t i = 0; live && i < 2 * holes; i++) {
        uint64_t r = check_random(&seed);
        live[i] = stw_malloc(a, i % 2 == 0 ? 512 : (sized->least + r % sized->many) * 512, 0);
    }
    for (uint32_t i = 1; live && i < 2 * holes; i += 2)
        stw_free(a, live[i]);
    free(live);
    for (int i = 0; i < STEP; i++)
        sizes[i] = (sized->least + check_random(&seed) % sized->many) * 512;
    return a;
}

/* How many blocks a search passes on its way to a free one. */
static void print_depth(const stw_heap *h)
{
    uint64_t n = 0, sum = 0, most = 0;
    for (uint32_t b = h->last; b; b = h->blocks[b].prev) {
        uint64_t depth = 1;
        if (h->blocks[b].used || h->blocks[b].units < STW_LARGE_UNITS)
            continue;
        for (uint32_t t = b; (t = h->blocks[t].up) != 0;)
            depth++;
        n++;
        sum += depth;
        most = depth > most ? depth : most;
    }
    if (n)
        printf("%.2f blocks to a hole, at most %llu  ", (double)sum / (double)n, (unsigned long long)most);
}

static void heap_row(const char *what, stw_allocator *a, size_t n, size_t window)
{
    stw_stats s;
    load l = {.a = a, .sizes = sizes, .n = n, .window = window};
    const double ns = measure_load(&l, &s);
    row(what, ns);
    print_depth(a->streams[0].heap);
    load_apart(ns, &l);
}

static void holes_row(const range *sized, uint32_t holes)
{
    char what[100];
    stw_allocator *a = holes_heap(holes, sized, BIG_GRANULE);
    snprintf(what, sizeof what, "%s, %u holes", sized->name, holes);
    heap_row(what, a, STEP, 1);
    stw_destroy(a);
}

typedef struct {
    stw_allocator *a;
    void **live;
    uint64_t n, seed;
    size_t bytes;
    void *next[WINDOW];
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

static void scattered_mallocs(void *ctx, size_t n)
{
    scattered *s = ctx;
    for (size_t i = 0; i < n; i++)
        s->next[i] = stw_malloc(s->a, s->bytes, 0);
}

static void scattered_frees(void *ctx, size_t n)
{
    scattered *s = ctx;
    for (size_t i = 0; i < n; i++) {
        void **p = &s->live[check_random(&s->seed) % s->n];
        stw_free(s->a, *p);
        *p = s->next[i];
    }
}

/* As many live blocks of one size as holes, those in one list or one tree; freed is any, so that hardly a record is in the cache. */
static void scattered_row(const char *size, size_t bytes, uint64_t holes)
{
    scattered s = {make(NULL, BIG_GRANULE), calloc(holes, sizeof *s.live), holes, 7, bytes, {NULL}};
    char what[100];
    for (uint64_t i = 0; s.live && i < 2 * holes; i++) {
        s.live[i / 2] = stw_malloc(s.a, bytes, 0);
        stw_malloc(s.a, 512, 0);
    }
    for (uint64_t i = 0; s.live && i < holes; i++) /* the even ones lie before those that are remembered */
        stw_free(s.a, (char *)s.live[i] - bytes - 512);
    snprintf(what, sizeof what, "%s each, freed anywhere, %llu holes", size, (unsigned long long)holes);
    const double ns = measure(scattered_pairs, &s);
    row(what, ns);
    apart(ns, scattered_mallocs, scattered_frees, &s);
    free(s.live);
    stw_destroy(s.a);
}

void heap_rows(void)
{
    static const uint32_t holes[] = {10, 10000, 100000};
    static const range *const ranges[] = {&small, &middle};
    char what[100];
    stw_allocator *a = make(NULL, BIG_GRANULE);
    group("the heap alone");
    sizes[0] = 64;
    heap_row("64 bytes", a, 1, 1);
    heap_row("64 bytes, freed 64 requests later", a, 1, WINDOW);
    stw_destroy(a);
    for (int k = 0; k < 6; k++)
        holes_row(ranges[k / 3], holes[k % 3]);
    holes_row(&large, 5000);
    static const uint32_t many[] = {10000, 36000, 100000}; /* with what lies between them 36,000 of 2 MiB take 141 GiB, as 12,000 of 6 and 9,000 of 8; 100,000 more than a device has */
    for (int i = 0; i < 3; i++)
        scattered_row("512 KiB", 512 << 10, many[i]);
    for (int i = 0; i < 3; i++)
        scattered_row("2 MiB", 2 << 20, many[i]);
    scattered_row("6 MiB", 6 << 20, 12000);
    scattered_row("8 MiB", 8 << 20, 9000);
    group("the heap after a trim: 10,000 holes, granules of 64 KiB");
    for (int k = 0; k < 2; k++) {
        a = holes_heap(10000, ranges[k], GRANULE);
        stw_stats s;
        stw_get_stats(a, &s);
        uint64_t reserved = s.reserved_bytes;
        double t = cpu();
        uint64_t bytes = stw_trim(a);
        t = cpu() - t;
        row(ranges[k]->name, measure_load(&(load){.a = a, .sizes = sizes, .n = STEP, .window = 1}, &s));
        printf("%.1f %% given back, in %.2f ms\n", share(bytes, reserved), t / 1e6);
        snprintf(what, sizeof what, "%s, and one before every 1,000 pairs", ranges[k]->name);
        row(what, measure_load(&(load){.a = a, .sizes = sizes, .n = STEP, .window = 1, .trim = true}, &s));
        printf("%.0f granules a trim\n", s.trims ? (double)s.returned_bytes / (double)s.trims / GRANULE : 0);
        stw_destroy(a);
    }
}
