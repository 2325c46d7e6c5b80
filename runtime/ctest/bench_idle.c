/* bench_idle.c: dynamic requests, in idle space of the arena. */
#include "bench.h"

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
    load l = {.a = a, .sizes = sizes, .n = STEP, .window = g.window};
    double ns = measure_load(&l, &s);
    snprintf(what, sizeof what, "%u of %u atoms taken%s", g.guests, g.atoms, more);
    row(what, ns);
    printf("%.1f %% guests, %.1f steps a request  ", share(s.guests, s.requests), (double)(a->idle.steps - steps) / (double)s.requests);
    load_apart(ns, &l);
    stw_destroy(a);
}

void dynamic_rows(void)
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
