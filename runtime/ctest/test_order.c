/* test_order.c: programs on several streams over a device that does its work late and in the worst order
 * (late.h). With events no use of memory is ever caught; with events that do nothing, or with uses that
 * are not announced, some are: the judges see what there is to see.
 */
#include "check.h"
#include "late.h"
#include "support.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 300, HELD = 4096, THREADS = 3, UNITS = 4000 };

typedef enum { NO_PLAN, APART, SHARED } plan_kind;

typedef struct {
    const char *name;
    plan_kind plan;
    uint32_t streams, threads; /* each thread uses all streams */
    uint32_t age;
    uint32_t marked, dynamic, diverge; /* per cent of the requests */
    bool tight;     /* capacity: little more than the arena */
    bool moves;     /* idle memory moves, and waits for the device: elsewhere the queues are to grow long */
    bool forgetful; /* uses on other streams are not announced */
    late_faults faults;
} scenario;

typedef struct {
    uint32_t stream, units, life, offset, also; /* also: stream that uses it, too; LATE_STREAMS: none */
    bool dynamic;
} step;

typedef struct {
    char *p;
    size_t bytes;
    uint64_t owner, due; /* due: request before which it is freed */
    uint32_t stream, also;
    bool joined; /* `also` uses are over for the own stream, too */
} held;

static step steps[STEPS];
static stw_allocator *a;
static late_device *device;
static uint64_t owners;

static uint32_t below(uint64_t *seed, uint32_t n)
{
    return (uint32_t)(check_random(seed) >> 33) % n;
}

/* Requests of one iteration, placed lowest first, streams together or apart; returns the arena's units. */
static uint32_t make_steps(const scenario *c, uint64_t *seed, uint32_t ranges[LATE_STREAMS + 1])
{
    uint32_t names[LATE_STREAMS] = {0}, known = 1; /* streams other than 0 are named as they first appear */
    memset(ranges, 0, (LATE_STREAMS + 1) * sizeof *ranges);
    for (uint32_t k = 0; k < STEPS; k++) {
        step *t = &steps[k];
        *t = (step){.stream = below(seed, 100) < 50 ? 0 : below(seed, c->streams), .units = 1 + below(seed, below(seed, 4) ? 12 : 60),
                    .life = 1 + below(seed, below(seed, 4) ? 8 : STEPS - k), .also = LATE_STREAMS,
                    .dynamic = below(seed, 100) < c->dynamic};
        t->life = t->life > STEPS - k ? STEPS - k : t->life;
        if (t->stream != 0 && names[t->stream] == 0)
            names[t->stream] = known++;
        t->stream = names[t->stream];
        uint32_t also = below(seed, c->streams);
        if (below(seed, 100) < c->marked && also != t->stream)
            t->also = also;
    }
    for (uint32_t s = 0; s < c->streams; s++) {
        const uint32_t base = c->plan == APART ? ranges[s] : 0;
        uint32_t top = base;
        for (uint32_t k = 0; k < STEPS; k++) {
            step *t = &steps[k];
            if (t->stream != s || t->dynamic)
                continue;
            t->offset = base;
            for (uint32_t j = 0; j < STEPS; j++) { /* until it meets nobody */
                const step *u = &steps[j];
                uint32_t far = u->stream == s && u->also == LATE_STREAMS && t->also == LATE_STREAMS ? 0 : c->age;
                bool placed = !u->dynamic && (u->stream < s || (u->stream == s && j < k)) && (c->plan == SHARED || u->stream == s);
                if (placed && j < k + t->life + far && k < j + u->life + far && t->offset < u->offset + u->units &&
                    u->offset < t->offset + t->units) {
                    t->offset = u->offset + u->units;
                    j = UINT32_MAX; /* from the beginning */
                }
            }
            top = t->offset + t->units > top ? t->offset + t->units : top;
        }
        ranges[s + 1] = top > ranges[s] ? top : ranges[s];
    }
    return ranges[c->streams];
}

static uint8_t *make_plan(const scenario *c, uint64_t *seed, size_t *bytes, uint32_t *units)
{
    static const uint32_t needs[] = {1, 0, 0}; /* one list, empty: guests go anywhere */
    builder b = {.extra_kind = STW_SECTION_NEEDS, .extra_flags = STW_SECTION_OPTIONAL, .extra_text = needs, .extra_bytes = sizeof needs,
                 .shared_age = c->plan == SHARED ? c->age + 1 : 0};
    uint32_t ranges[LATE_STREAMS + 1];
    *units = make_steps(c, seed, ranges);
    for (uint32_t s = 0; s < c->streams; s++)
        builder_stream(&b, s, c->plan == SHARED ? 0 : ranges[s], c->plan == SHARED ? *units : ranges[s + 1]);
    for (uint32_t k = 0; k < STEPS; k++) {
        const step *t = &steps[k];
        uint32_t slot = t->dynamic ? builder_dynamic(&b, t->stream, t->units, t->units) : builder_planned(&b, t->stream, t->offset, t->units);
        b.slots[slot].aux = t->dynamic;
        builder_entry(&b, slot, t->life);
    }
    return builder_finish(&b, bytes);
}

/* ---- the program ---- */

typedef struct {
    const scenario *c;
    uint64_t seed;
    uint32_t laps;
    unsigned long wrong, empty;
    held live[HELD];
    uint32_t n;
    pthread_t thread;
} program;

static void use_elsewhere(program *w, held *h)
{
    if (!h->joined)
        late_use(device, h->also, h->p, h->bytes, h->owner, false, false);
    if (w->c->forgetful || check_random(&w->seed) % 4 != 0)
        return;
    late_join(device, h->also, h->stream); /* now its own stream knows, too */
}

static void request(program *w, const step *t, uint64_t now, uint32_t life)
{
    held h = {.bytes = t->units * (size_t)512 - below(&w->seed, 512), .stream = t->stream, .also = t->also, .due = now + life};
    if (w->n == HELD || (h.p = stw_malloc(a, h.bytes, h.stream)) == NULL) {
        w->empty++;
        return;
    }
    h.bytes = t->units * (size_t)512;
    h.owner = __atomic_add_fetch(&owners, 1, __ATOMIC_RELAXED);
    late_use(device, h.stream, h.p, h.bytes, h.owner, true, true);
    if (h.also < LATE_STREAMS) {
        late_join(device, h.stream, h.also);
        late_use(device, h.also, h.p, h.bytes, h.owner, false, false);
        h.joined = below(&w->seed, 5) == 0;
        if (h.joined)
            late_join(device, h.also, h.stream); /* what a program does that needs no record_stream */
        else if (!w->c->forgetful)
            w->wrong += stw_record_stream(a, h.p, h.also) != 0;
    }
    w->live[w->n++] = h;
}

static void let_go(program *w, uint32_t i)
{
    const held *h = &w->live[i];
    w->wrong += stw_free(a, h->p) != 0;
    w->live[i] = w->live[--w->n];
}

static void free_due(program *w, uint64_t now)
{
    for (uint32_t i = 0; i < w->n;)
        if (w->live[i].due <= now)
            let_go(w, i);
        else
            i++;
}

static void use_some(program *w)
{
    held *h = w->n ? &w->live[below(&w->seed, w->n)] : NULL;
    if (!h)
        return;
    if (h->also < LATE_STREAMS && below(&w->seed, 2))
        use_elsewhere(w, h);
    else
        late_use(device, h->stream, h->p, h->bytes, h->owner, false, h->also == LATE_STREAMS);
}

static void *run(void *arg)
{
    program *w = arg;
    uint64_t now = 0;
    for (uint32_t lap = 0; lap < w->laps; lap++)
        for (uint32_t k = 0; k < STEPS; k++, now++) {
            step t = steps[k];
            uint32_t life = t.life, chance = below(&w->seed, 1000);
            free_due(w, now);
            if (chance < 10 * w->c->diverge) {
                switch (chance % 4) {
                case 0: /* missing */
                    continue;
                case 1: /* one more, of any size, on any stream */
                    request(w, &(step){.stream = below(&w->seed, LATE_STREAMS), .units = 1 + below(&w->seed, 100), .also = LATE_STREAMS}, now,
                            below(&w->seed, 30));
                    break;
                case 2: /* another size */
                    t.units = 1 + below(&w->seed, 2 * t.units);
                    break;
                default: /* a late free */
                    life += below(&w->seed, 100);
                }
            }
            request(w, &t, now, life);
            use_some(w);
            if (k == 0)
                w->wrong += stw_check(a, NULL, 0) != 0;
            if (chance == 999)
                stw_trim(a);
        }
    while (w->n > 0)
        let_go(w, w->n - 1);
    return NULL;
}

typedef struct {
    stw_stats s;
    late_counts c;
} outcome;

static outcome play(const scenario *c, uint64_t seed, uint32_t laps)
{
    static program programs[THREADS];
    char message[300];
    size_t n = 0;
    uint32_t units = 0;
    outcome out;
    uint8_t *file = make_plan(c, &seed, &n, &units);
    const size_t granule = 8192;
    device = late_make(check_random(&seed), granule, c->faults);
    stw_backend backend = late_backend(device);
    stw_options o = {.heap_bytes = 8 << 20, .capacity_bytes = c->tight ? (uint64_t)units * 512 + 14 * granule : 0,
                     .still = !c->moves};
    if (!CHECK_EQ(stw_create(&a, c->plan == NO_PLAN ? NULL : file, c->plan == NO_PLAN ? 0 : n, &o, &backend, message, sizeof message), STW_OK))
        exit(check_end(message));
    free(file);
    for (uint32_t t = 0; t < c->threads; t++) {
        programs[t] = (program){.c = c, .seed = check_random(&seed), .laps = laps};
        if (c->threads == 1)
            run(&programs[t]);
        else
            CHECK_EQ(pthread_create(&programs[t].thread, NULL, run, &programs[t]), 0);
    }
    for (uint32_t t = 0; t < c->threads; t++) {
        if (c->threads > 1)
            CHECK_EQ(pthread_join(programs[t].thread, NULL), 0);
        CHECK_EQ(programs[t].wrong, 0);
        CHECK(c->tight || programs[t].empty == 0);
    }
    if (!CHECK_EQ(stw_check(a, message, sizeof message), 0))
        puts(message);
    stw_get_stats(a, &out.s);
    stw_trim(a);
    stw_destroy(a);
    out.c = late_count(device);
    CHECK(late_drop(device));
    return out;
}

/* Some seeds of one scenario, as it is and with its faults. */
static void table_row(const scenario *c, const char *how, bool sound)
{
    outcome sum = {0};
    const uint32_t seeds = CHECK_SANITIZED ? 4 : 12, laps = 12;
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        outcome one = play(c, seed * 1000003, laps);
        sum.s.requests += one.s.requests;
        sum.s.hits += one.s.hits;
        sum.s.guests += one.s.guests;
        sum.s.event_records += one.s.event_records;
        sum.s.event_waits += one.s.event_waits;
        sum.s.young_waits += one.s.young_waits;
        sum.s.deferred += one.s.deferred;
        sum.s.failed += one.s.failed;
        sum.s.set_aside += one.s.set_aside;
        sum.s.event_failures += one.s.event_failures;
        sum.c.uses += one.c.uses;
        sum.c.by_clocks += one.c.by_clocks;
        sum.c.by_memory += one.c.by_memory;
        sum.c.longest = one.c.longest > sum.c.longest ? one.c.longest : sum.c.longest;
    }
    printf("%-34s %-13s %8llu %5.1f %6llu %7llu %7llu %6llu %6llu %6llu %7llu %6llu %6llu\n", c->name, how, (unsigned long long)sum.s.requests,
           100.0 * (double)sum.s.hits / (double)sum.s.requests, (unsigned long long)sum.s.guests, (unsigned long long)sum.s.event_records,
           (unsigned long long)sum.s.event_waits, (unsigned long long)sum.s.deferred, (unsigned long long)sum.s.failed,
           (unsigned long long)sum.s.event_failures, (unsigned long long)sum.c.uses, (unsigned long long)sum.c.by_clocks,
           (unsigned long long)sum.c.by_memory);
    CHECK(sum.c.longest > (c->moves ? 30 : c->tight ? 60 : 300)); /* memory that is given back waits for the device */
    CHECK((sum.s.set_aside > 0) == c->moves);
    CHECK(!c->tight || sum.s.failed > 0);
    CHECK(c->plan == NO_PLAN || c->diverge || c->dynamic || c->faults.fail_one_in || sum.s.hits == sum.s.requests);
    if (sound) {
        CHECK_EQ(sum.c.by_clocks, 0);
        CHECK_EQ(sum.c.by_memory, 0);
    } else {
        CHECK(sum.c.by_clocks > 0);
        CHECK(sum.c.by_memory > 0 || c->threads > 1); /* what the adversary makes of it, where nothing is repeatable */
    }
}

int main(void)
{
    static const scenario scenarios[] = {
        {.name = "shared, 2 streams, in step", .plan = SHARED, .streams = 2, .threads = 1},
        {.name = "shared, 3 streams, in step, AGE 50", .plan = SHARED, .streams = 3, .threads = 1, .age = 50},
        {.name = "shared, 4 streams, marks", .plan = SHARED, .streams = 4, .threads = 1, .age = 20, .marked = 20},
        {.name = "shared, 3 streams, guests", .plan = SHARED, .streams = 3, .threads = 1, .marked = 10, .dynamic = 30},
        {.name = "shared, 3 streams, diverging", .plan = SHARED, .streams = 3, .threads = 1, .age = 10, .marked = 10, .dynamic = 10, .diverge = 8},
        {.name = "shared, 4 streams, little memory", .plan = SHARED, .streams = 4, .threads = 1, .marked = 20, .dynamic = 20, .diverge = 20, .tight = true},
        {.name = "shared, 4 streams, plan set aside", .plan = SHARED, .streams = 4, .threads = 1, .marked = 20, .dynamic = 20, .diverge = 20, .tight = true, .moves = true},
        {.name = "shared, 3 streams, 3 threads", .plan = SHARED, .streams = 3, .threads = THREADS, .marked = 20, .dynamic = 10, .diverge = 5},
        {.name = "apart, 3 streams, marks", .plan = APART, .streams = 3, .threads = 1, .marked = 30, .dynamic = 10, .diverge = 5},
        {.name = "no plan, 3 streams, marks", .plan = NO_PLAN, .streams = 3, .threads = 1, .marked = 30, .diverge = 5},
        {.name = "no plan, 4 streams, little memory", .plan = NO_PLAN, .streams = 4, .threads = 1, .marked = 30, .diverge = 5, .tight = true},
        {.name = "no plan, 3 streams, 3 threads", .plan = NO_PLAN, .streams = 3, .threads = THREADS, .marked = 30, .diverge = 5},
    };
    printf("%-34s %-13s %8s %5s %6s %7s %7s %6s %6s %6s %7s %6s %6s\n", "", "events", "requests", "hits%", "guests", "records", "waits",
           "limbo", "failed", "refuse", "uses", "clocks", "memory");
    for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++) {
        scenario c = scenarios[i];
        table_row(&c, "on", true);
        c.faults = (late_faults){.fail_one_in = 3};
        table_row(&c, "one in 3 fails", true);
        c.faults = (late_faults){.blind = true, .hasty = true};
        table_row(&c, "off", false);
        c.faults = (late_faults){0};
        c.forgetful = true;
        if (c.marked)
            table_row(&c, "unannounced", false);
    }
    return check_end("test_order");
}
