/* test_record.c: what the recorder writes comes back: every kind of event, in the order in which the allocator
 * can have seen it, whatever the threads do.
 */
#define _GNU_SOURCE
#include "record_file.h"
#include "support.h"

#include <pthread.h>

enum { THREADS = 8, TURNS = CHECK_SANITIZED ? 4000 : 40000, HELD = 64 };

/* ---- one thread: every kind of event comes back ---- */

typedef struct {
    const event *want;
    size_t n, at;
} expected;

static void compare(void *ctx, const event *e)
{
    expected *x = ctx;
    if (!CHECK(x->at < x->n))
        return;
    const event *w = &x->want[x->at++];
    CHECK_EQ(e->kind, w->kind);
    CHECK_EQ(e->device, w->device);
    CHECK_EQ(e->size, w->size);
    CHECK_EQ(e->v, w->v);
    CHECK_EQ(e->stream, w->stream);
    CHECK(strcmp(e->name, w->name) == 0);
}

static void kinds(void)
{
    char longest[STW_RECORD_NAME_BYTES + 10];
    memset(longest, 'x', sizeof longest);
    memcpy(longest + STW_RECORD_NAME_BYTES - 1, "\xc3\xa9", 3); /* a character across the limit */
    stw_recorder *r = open_or_die(&(stw_record_options){.ring_slots = 64, .allocator = "a name that is longer than its place in the header"});
    stw_recorder_mark(r, STW_RECORD_ITERATION, -1, NULL);
    stw_recorder_malloc(r, at(512), 1, 0, 0);
    stw_recorder_malloc(r, at(0xffffffffffffffff), (UINT64_C(1) << 40) - 1, 255, UINT64_MAX);
    stw_recorder_malloc(r, at(1024), UINT64_C(1) << 40, 3, 7);
    stw_recorder_malloc(r, NULL, UINT64_C(1) << 60, 3, 7);
    stw_recorder_record_stream(r, at(1024), 3, 8);
    stw_recorder_mark(r, STW_RECORD_PHASE, 5, "forward");
    stw_recorder_mark(r, STW_RECORD_ENTER, 0, longest);
    stw_recorder_mark(r, STW_RECORD_LEAVE, 0, "forward");
    stw_recorder_mark(r, 0, 0, "no kind");
    stw_recorder_mark(r, 5, 0, "no kind");
    stw_recorder_free(r, at(1024), 3);
    stw_recorder_free(r, NULL, 3);
    stw_recorder_record_stream(r, NULL, 3, 1);
    stw_recorder_held(r, 3, 99);
    char err[300];
    CHECK_EQ(stw_recorder_close(r, err, sizeof err), 0);
    CHECK(err[0] == 0);
    static event want[] = {
        {.kind = STW_RECORD_MARK, .device = STW_RECORD_ITERATION, .v = UINT64_MAX},
        {.kind = STW_RECORD_MALLOC, .size = 1, .v = 512},
        {.kind = STW_RECORD_MALLOC, .device = 255, .size = (UINT64_C(1) << 40) - 1, .stream = UINT64_MAX, .v = UINT64_MAX},
        {.kind = STW_RECORD_MALLOC, .device = 3, .size = UINT64_C(1) << 40, .stream = 7, .v = 1024},
        {.kind = STW_RECORD_MALLOC, .device = 3, .size = UINT64_C(1) << 60, .stream = 7},
        {.kind = STW_RECORD_USE, .device = 3, .stream = 8, .v = 1024},
        {.kind = STW_RECORD_MARK, .device = STW_RECORD_PHASE, .v = 5, .name = "forward"},
        {.kind = STW_RECORD_MARK, .device = STW_RECORD_ENTER},
        {.kind = STW_RECORD_MARK, .device = STW_RECORD_LEAVE, .name = "forward"},
        {.kind = STW_RECORD_FREE, .device = 3, .v = 1024},
        {.kind = STW_RECORD_HELD, .device = 3, .v = 99},
    };
    memset(want[7].name, 'x', STW_RECORD_NAME_BYTES - 1);
    expected x = {want, sizeof want / sizeof *want, 0};
    file f;
    each(&f, path, compare, &x);
    CHECK_EQ(x.at, x.n);
    CHECK(f.whole && f.end.reason == STW_RECORD_CLOSED && f.end.lost == 0);
    drop(&f);
}

/* ---- ids run out and begin anew ---- */

typedef struct {
    uint64_t n, seed;
} numbered;

static uint64_t handle_of(uint64_t i)
{
    return i % 3 ? i * 7919 : 5;
}

static void name_for(char *room, size_t n, uint64_t i)
{
    int width = i % 2 ? 900 : 1; /* texts run out before ids do, and the other way round */
    snprintf(room, n, "%0*llu", width, (unsigned long long)(i % 5 ? i : 5));
}

static void compare_numbered(void *ctx, const event *e)
{
    numbered *x = ctx;
    char name[STW_RECORD_NAME_BYTES];
    uint64_t i = x->n / 3;
    switch (x->n++ % 3) {
    case 0:
        CHECK(e->kind == STW_RECORD_MALLOC && e->v == i + 1 && e->stream == handle_of(i));
        break;
    case 1:
        name_for(name, sizeof name, i);
        CHECK(e->kind == STW_RECORD_MARK && e->device == STW_RECORD_ENTER && strcmp(e->name, name) == 0);
        break;
    default:
        CHECK(e->kind == STW_RECORD_USE && e->v == i + 1 && e->stream == handle_of(i + 1));
    }
}

static void many_ids(void)
{
    enum { N = CHECK_SANITIZED ? 10000 : 40000 };
    char name[STW_RECORD_NAME_BYTES];
    stw_recorder *r = open_or_die(NULL);
    for (uint64_t i = 0; i < N; i++) {
        stw_recorder_malloc(r, at(i + 1), 512, 0, handle_of(i));
        name_for(name, sizeof name, i);
        stw_recorder_mark(r, STW_RECORD_ENTER, 0, name);
        stw_recorder_record_stream(r, at(i + 1), 0, handle_of(i + 1));
    }
    CHECK_EQ(stw_recorder_close(r, NULL, 0), 0);
    numbered x = {0};
    file f;
    each(&f, path, compare_numbered, &x);
    CHECK(f.whole);
    CHECK_EQ(x.n, 3 * N);
    drop(&f);
}

/* ---- threads: the order of the file is one that the allocator can have seen ---- */

static stw_allocator *allocator;
static stw_recorder *recorder;
static pthread_mutex_t shelf_lock = PTHREAD_MUTEX_INITIALIZER;
static void *shelf[HELD]; /* on their way to another thread */

static int let_go(void *p)
{
    stw_recorder_free(recorder, p, 0);
    return stw_free(allocator, p);
}

/* The size of a request tells whose it is, and which. */
static void *work(void *arg)
{
    uint64_t self = (uintptr_t)arg, seed = self + 1;
    void *held[HELD] = {0};
    uintptr_t wrong = 0;
    for (uint64_t i = 0; i < TURNS; i++) {
        uint64_t k = check_random(&seed), size = 1 + i * THREADS + self;
        wrong += let_go(held[k % HELD]) != 0;
        void *p = stw_malloc(allocator, size, k >> 8 & 1);
        stw_recorder_malloc(recorder, p, size, 0, k >> 8 & 1);
        if (i % 64 == 0)
            stw_recorder_mark(recorder, STW_RECORD_ENTER, (int64_t)(i * THREADS + self), "a name that takes two slots");
        if (i % 8 == 0) {
            pthread_mutex_lock(&shelf_lock);
            void *other = shelf[k >> 16 & (HELD - 1)];
            shelf[k >> 16 & (HELD - 1)] = p;
            pthread_mutex_unlock(&shelf_lock);
            p = other;
        }
        held[k % HELD] = p;
    }
    for (int i = 0; i < HELD; i++)
        wrong += let_go(held[i]) != 0;
    return (void *)wrong;
}

typedef struct {
    stw_table live;
    uint64_t next[THREADS], marks, mallocs, frees;
} seen;

static void order(void *ctx, const event *e)
{
    seen *s = ctx;
    if (e->kind == STW_RECORD_MARK) {
        s->marks++;
        CHECK(strcmp(e->name, "a name that takes two slots") == 0);
        return;
    }
    stw_rec *r = stwi_table_find(&s->live, e->v);
    if (e->kind == STW_RECORD_FREE) {
        s->frees++;
        if (CHECK(r->units != 0))
            stwi_table_remove(&s->live, r);
        return;
    }
    s->mallocs++;
    CHECK(r->units == 0); /* nobody has it */
    CHECK(stwi_table_ensure(&s->live));
    *stwi_table_find(&s->live, e->v) = (stw_rec){.key = e->v, .units = 1};
    s->live.count++;
    uint64_t self = (e->size - 1) % THREADS;
    CHECK_EQ(e->size, 1 + s->next[self] * THREADS + self);
    s->next[self]++;
}

static void threads(uint32_t ring_slots)
{
    test_backend memory = {.bare = true};
    stw_backend backend = test_backend_make(&memory, true, 2 << 20);
    CHECK_EQ(stw_create(&allocator, NULL, 0, NULL, &backend, NULL, 0), STW_OK);
    recorder = open_or_die(&(stw_record_options){.ring_slots = ring_slots});
    pthread_t t[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&t[i], NULL, work, (void *)i), 0);
    for (int i = 0; i < THREADS; i++) {
        void *wrong = NULL;
        pthread_join(t[i], &wrong);
        CHECK(wrong == NULL);
    }
    for (int i = 0; i < HELD; i++) {
        CHECK_EQ(let_go(shelf[i]), 0);
        shelf[i] = NULL;
    }
    CHECK_EQ(stw_recorder_close(recorder, NULL, 0), 0);
    stw_destroy(allocator);
    seen s = {0};
    CHECK(stwi_table_init(&s.live, 10));
    file f;
    each(&f, path, order, &s);
    CHECK(f.whole && f.end.lost == 0);
    CHECK_EQ(s.mallocs, (uint64_t)THREADS * TURNS);
    CHECK_EQ(s.frees, s.mallocs);
    CHECK_EQ(s.live.count, 0);
    CHECK_EQ(s.marks, (uint64_t)THREADS * ((TURNS + 63) / 64));
    CHECK(f.n <= 17 * f.events);
    stwi_table_drop(&s.live);
    drop(&f);
}

/* Threads go on while the recording is finished under them. */
static void *until_told(void *arg)
{
    for (uint64_t i = 0; !__atomic_load_n((bool *)arg, __ATOMIC_RELAXED); i++)
        stw_recorder_malloc(recorder, at(i + 1), 512, 0, 0);
    return NULL;
}

static void finish_under_way(void)
{
    bool stop = false;
    pthread_t t[2];
    recorder = open_or_die(&(stw_record_options){.ring_slots = 4096});
    for (int i = 0; i < 2; i++)
        CHECK_EQ(pthread_create(&t[i], NULL, until_told, &stop), 0);
    usleep(20000);
    CHECK_EQ(stw_recorder_finish(recorder, NULL, 0), 0);
    usleep(1000);
    __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
    for (int i = 0; i < 2; i++)
        pthread_join(t[i], NULL);
    CHECK_EQ(stw_recorder_close(recorder, NULL, 0), 0);
    file f;
    each(&f, path, NULL, NULL);
    CHECK(f.whole && f.end.lost == 0);
    drop(&f);
}

int main(void)
{
    if (!make_folder())
        return 1;
    kinds();
    many_ids();
    threads(0);
    threads(64);
    threads(1024);
    finish_under_way();
    remove_folder();
    return check_end("test_record");
}
