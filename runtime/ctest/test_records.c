/* test_records.c: host memory for the runtime's own records runs out: the k-th mapping that it asks for fails, for every k, from
 * the creation of an allocator through programs that need every kind of record to its end. Once the k-th alone, then all
 * from the k-th on until memory is back. Whatever fails says so; what failed is served when it is asked for again; nothing
 * that is live overlaps, no use of memory comes too early (late.h), no rule of the driver is broken (libcuda_double.h);
 * and in the end no mapping is left.
 */
#define _GNU_SOURCE
#include "cuda_scene.h"
#include "late.h"
#include "record_file.h"
#include "records.h"

#include <pthread.h>

/* ---- a program that needs every kind of record ---- */

enum { STREAMS = 70, FLOOD = 5000, HOLES = 1050, MARKED = 1200, STEPS = 60, LIVE = STREAMS + FLOOD + STEPS, LISTS = 40, RANGES = 9, EVENTS = 600 };

typedef struct {
    char *p;
    size_t bytes;
} block;

static stw_allocator *a;
static block live[LIVE];
static uint32_t n_live;
static unsigned long refusals, retried;

static int by_address(const void *x, const void *y)
{
    const block *b = x, *c = y;
    return (b->p > c->p) - (b->p < c->p);
}

/* A request that fails is asked for once more. */
static char *ask(size_t bytes, uint64_t stream)
{
    char *p = stw_malloc(a, bytes, stream);
    if (!p) {
        refusals++;
        p = stw_malloc(a, bytes, stream);
        retried += p != NULL;
    }
    if (p && CHECK(n_live < LIVE))
        live[n_live++] = (block){p, bytes};
    return p;
}

/* Everything agrees, and nothing that is live overlaps: memory for the check is there. */
static void look(const char *when)
{
    records_pause(true);
    if (!CHECK_EQ(stw_check(a, message, sizeof message), 0))
        printf("  %s: %s\n", when, message);
    records_pause(false);
    qsort(live, n_live, sizeof *live, by_address);
    for (uint32_t i = 1; i < n_live; i++)
        CHECK(live[i - 1].p + live[i - 1].bytes <= live[i].p);
}

static void free_all(void)
{
    while (n_live > 0)
        CHECK_EQ(stw_free(a, live[--n_live].p), 0);
}

/* A step of planned and dynamic requests, kept space and needs; it repeats, so that periods are looked for. */
static uint8_t *plan(bool shared, size_t *bytes)
{
    static uint32_t needs[1 + LISTS + 1 + 2 * LISTS * RANGES] = {LISTS};
    builder b = {.extra_kind = STW_SECTION_NEEDS, .extra_flags = STW_SECTION_OPTIONAL, .extra_text = needs, .extra_bytes = sizeof needs,
                 .shared_age = shared};
    for (uint32_t i = 0; i <= LISTS; i++)
        needs[1 + i] = i * RANGES;
    for (uint32_t i = 0, *range = needs + LISTS + 2; i < LISTS * RANGES; i++) {
        range[2 * i] = i % RANGES * 26;
        range[2 * i + 1] = i % RANGES * 26 + 1 + i / RANGES % 13;
    }
    builder_stream(&b, 0, 0, 4000);
    builder_stream(&b, 1, shared ? 0 : 4000, shared ? 4000 : 4400);
    for (uint32_t i = 0; i < STEPS; i++) {
        uint32_t k = i % (STEPS / 2), slot = k % 9 == 4 ? builder_dynamic(&b, 0, 1, 90) : builder_planned(&b, k % 9 == 5, (k % 9 == 5 && !shared ? 4000 : 0) + 13 * k, 9 + k % 4);
        if (k % 9 == 4)
            b.slots[slot].aux = (uint16_t)(1 + k % LISTS);
        builder_entry(&b, slot, 20);
    }
    b.slots[builder_planned(&b, 0, 3000, 100)].flags |= STW_SLOT_KEPT;
    builder_mark(&b, 0, STW_MARK_ITERATION, 0, NULL);
    return builder_finish(&b, bytes);
}

/* The plan's step, from 0 on. */
static void step(late_device *d)
{
    static uint64_t owner;
    stw_mark(a, STW_MARK_ITERATION, 0, NULL);
    for (uint32_t i = 0; i < STEPS; i++) {
        uint32_t k = i % (STEPS / 2), stream = k % 9 == 5;
        size_t bytes = (k % 9 == 4 ? 40 + k : 9 + k % 4) * 512;
        char *p = ask(bytes, stream);
        if (p && d) {
            late_use(d, stream, p, bytes, ++owner, true, true);
            if (k % 5 == 0) {
                late_join(d, stream, !stream);
                late_use(d, !stream, p, bytes, owner, false, false);
                CHECK_EQ(stw_record_stream(a, p, !stream), 0);
            }
        }
        if (n_live > 20)
            CHECK_EQ(stw_free(a, live[--n_live].p), 0);
    }
    look("a step");
    free_all();
}

/* With d: its streams share, work is late, and blocks are used by other streams, too. */
static void program(late_device *d)
{
    step(d);
    for (uint32_t i = 0; i < STREAMS; i++) /* more streams than there is room for at first */
        ask(512, d ? i % LATE_STREAMS : 100 + i);
    for (uint32_t i = 0; i < FLOOD; i++) { /* and more blocks */
        char *p = ask(512 * (1 + i % 3), 2);
        if (p && d && i < MARKED)
            CHECK_EQ(stw_record_stream(a, p, 3 + i % 3), 0);
    }
    look("a flood");
    free_all();
    stw_trim(a);
    if (!d) { /* holes with a granule in each, and a request for all of them */
        for (uint32_t i = 0; i < 2 * HOLES; i++)
            ask(7680, 1);
        qsort(live, n_live, sizeof *live, by_address);
        uint32_t kept = 0;
        for (uint32_t i = 0; i < n_live; i++)
            if (i % 2)
                live[kept++] = live[i];
            else
                CHECK_EQ(stw_free(a, live[i].p), 0);
        n_live = kept;
        ask(3 * 4096, 1);
        ask((HOLES - 8) * 4096, 1);
        look("holes");
        free_all();
        stw_trim(a);
    }
    step(d);
}

/* Whether the k-th mapping was asked for at all. */
static bool finish(fault f, const char *what, long k)
{
    bool reached = records_failed() > 0;
    records_fail(NEVER, 0);
    if (a) {
        free_all();
        char *p = ask(512, 0);
        CHECK(p != NULL); /* memory is back */
        free_all();
        stw_destroy(a);
        a = NULL;
    }
    if (!CHECK(records_sound() && records_left() == 0) || !CHECK(f != ONCE || refusals == retried) || check_failed)
        printf("  %s, mapping %ld: %u mappings left, %lu requests refused, %lu served when asked again\n", what, k, records_left(), refusals, retried);
    refusals = retried = 0;
    return reached;
}

static void create(const void *plan_file, size_t n, const stw_options *o, const stw_backend *b)
{
    stw_status s = stw_create(&a, plan_file, n, o, b, message, sizeof message);
    CHECK(s == STW_OK ? a != NULL : s == STW_E_MEMORY && !a && strlen(message) > 10);
}

static long aliases;

static void *alias(void *ctx, void *const *pieces, size_t n)
{
    test_backend *t = ctx;
    (void)pieces;
    aliases++;
    t->next += n * 4096;
    return (void *)(t->next - n * 4096);
}

static void unalias(void *ctx, void *p)
{
    (void)ctx, (void)p;
    aliases--;
}

/* Without events, and with requests of several pieces. */
static bool apart(fault f, long k)
{
    test_backend memory;
    stw_backend b = test_backend_make(&memory, true, 4096);
    b.alias = alias;
    b.unalias = unalias;
    size_t n;
    uint8_t *plan_file = plan(false, &n);
    records_fail(f, k);
    create(plan_file, n, &(stw_options){.heap_bytes = 64 << 20, .stitch_bytes = 1 << 30, .still = 1}, &b);
    free(plan_file);
    if (a)
        program(NULL);
    bool reached = finish(f, "streams apart", k);
    CHECK(memory.reserved == 0 && memory.committed == 0 && aliases == 0);
    return reached;
}

static bool shared(fault f, long k)
{
    late_device *d = late_make((uint64_t)k, 4096, (late_faults){0});
    stw_backend b = late_backend(d);
    size_t n;
    uint8_t *plan_file = plan(true, &n);
    records_fail(f, k);
    create(plan_file, n, &(stw_options){.heap_bytes = 8 << 20, .still = 1}, &b);
    free(plan_file);
    if (a)
        program(d);
    bool reached = finish(f, "streams that share", k);
    late_counts c = late_count(d);
    CHECK(c.by_clocks == 0 && c.by_memory == 0);
    CHECK(late_drop(d));
    return reached;
}

/* On the double of the driver, requests of several pieces included. */
static bool device(fault f, long k)
{
    double_config c = small_device();
    c.fabric = true;
    gpu->reset(&c);
    size_t n;
    uint8_t *plan_file = cuda_plan(true, &n);
    stw_backend b;
    tally t = {0};
    records_fail(f, k);
    stw_status s = open_with(&b, (stw_cuda_options){.primary = 1});
    if (s == STW_OK) {
        create(plan_file, n, &(stw_options){.heap_bytes = 16 << 20, .stitch_bytes = 2 << 20}, &b);
        if (a)
            run_program(a, &b, (uint64_t[2]){0, gpu->stream()}, true, 4, 7, &t);
        CHECK(f != ONCE || t.failed == t.served_again);
        void *events[EVENTS];
        for (int i = 0; i < EVENTS; i++)
            events[i] = b.event_record(b.ctx, 0);
        for (int i = 0; i < EVENTS; i++)
            if (events[i])
                b.event_drop(b.ctx, events[i]);
    } else {
        CHECK(s == STW_E_MEMORY && strlen(message) > 10);
    }
    free(plan_file);
    bool reached = records_failed() > 0;
    records_fail(NEVER, 0);
    if (a)
        check_sound(a);
    stw_destroy(a);
    a = NULL;
    stw_backend_cuda_close(&b);
    if (!CHECK(records_sound() && records_left() == 0))
        printf("  device, mapping %ld\n", k);
    check_clean("device");
    return reached;
}

static bool recorder(fault f, long k)
{
    stw_recorder *r;
    records_fail(f, k);
    int opened = stw_recorder_open(&r, path, NULL, message, sizeof message);
    CHECK(opened == 0 ? r != NULL : !r && strstr(message, "memory") != NULL && access(part, F_OK) != 0);
    for (uintptr_t i = 1; i < 100; i++)
        stw_recorder_malloc(r, (void *)(i * 512), 512, 0, i % 7);
    bool reached = records_failed() > 0;
    records_fail(NEVER, 0);
    CHECK_EQ(stw_recorder_close(r, NULL, 0), 0);
    unlink(path);
    CHECK(records_sound() && records_left() == 0);
    return reached;
}

/* ---- threads ---- */

typedef struct {
    pthread_t thread;
    unsigned char mine;
    unsigned long served, wrong;
} worker;

static void *work(void *arg)
{
    worker *w = arg;
    uint64_t seed = w->mine;
    unsigned char *held[200] = {0};
    for (int i = 0; i < 4000; i++) {
        uint64_t r = check_random(&seed);
        unsigned char **h = &held[r % 200];
        if (*h)
            w->wrong += **h != w->mine || (*h)[511] != w->mine || stw_free(a, *h) != 0;
        *h = stw_malloc(a, 512 + (r >> 8) % 3000, (r >> 40) % 90);
        if (*h)
            **h = (*h)[511] = w->mine;
        w->served += *h != NULL;
    }
    for (int i = 0; i < 200; i++)
        w->wrong += stw_free(a, held[i]) != 0;
    return NULL;
}

/* Four threads, and one mapping in three fails: what that means for whom is theirs to find out. */
static void threads(void)
{
    stw_backend b = stw_backend_host(4096);
    size_t n;
    uint8_t *plan_file = plan(false, &n);
    worker workers[4];
    create(plan_file, n, &(stw_options){.heap_bytes = 64 << 20}, &b);
    free(plan_file);
    records_fail(ONE_IN_THREE, 0);
    for (unsigned char i = 0; i < 4; i++) {
        workers[i] = (worker){.mine = (unsigned char)(i + 1)};
        CHECK_EQ(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        CHECK_EQ(pthread_join(workers[i].thread, NULL), 0);
        CHECK(workers[i].served > 0 && workers[i].wrong == 0);
    }
    CHECK(records_failed() > 0);
    finish(ONE_IN_THREE, "threads", 0);
}

int main(void)
{
    static const struct {
        const char *name;
        bool (*play)(fault, long);
    } scenes[] = {{"streams apart", apart}, {"streams that share", shared}, {"device", device}, {"recorder", recorder}};
    if (!gpu_load() || !make_folder())
        return 1;
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++) {
        long k = 1, tried = 0;
        for (; scenes[i].play(ONCE, k); k += CHECK_THREADS_ONLY ? 41 : 1, tried++)
            CHECK(scenes[i].play(FROM_THEN_ON, k));
        printf("%-20s %ld mappings failed, each once, and with all that follow\n", scenes[i].name, tried);
        CHECK(tried > 4 || CHECK_THREADS_ONLY);
    }
    threads();
    remove_folder();
    return check_end("test_records");
}
