/* replay_driver.c: see replay_driver.h.
 *
 * Canary: a block of n bytes (the size rounded up to 512) gets 8 words at its beginning and 8
 * at its end, drawn from the seed, the thread and the request. Nothing between is touched, so
 * a profile of 70 GiB replays in the pages that hold the ends of its blocks. Two live blocks
 * that overlap by anything else than the middles of both show up as a fault; overlaps of
 * middles are found from the addresses (model.Overlaps).
 */
#define _POSIX_C_SOURCE 200809L

#include "replay_driver.h"
#include "stw_plan.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WORDS = 8, EDGE = WORDS * sizeof(uint64_t) };
static_assert(STW_PLAN_ALIGN >= 2 * EDGE, "the ends of the smallest block do not meet");

/* The thread's own time: a busy machine makes a long list look dear beside a short baseline. */
static uint64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t mix(uint64_t z)
{
    z += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static uint64_t key_of(const stwd_list *l, uint32_t thread, uint32_t id)
{
    return mix(l->seed ^ ((uint64_t)thread << 32 | id));
}

/* The 16 words of a block's canary: first those of its beginning. */
static void pattern(uint64_t key, uint64_t words[2 * WORDS])
{
    for (uint64_t i = 0; i < 2 * WORDS; i++)
        words[i] = key + i * UINT64_C(0xd6e8feb86659fd93);
}

static uint64_t rounded(uint64_t bytes)
{
    return (bytes + STW_PLAN_ALIGN - 1) / STW_PLAN_ALIGN * STW_PLAN_ALIGN;
}

static void canary_write(char *p, uint64_t bytes, uint64_t key)
{
    uint64_t words[2 * WORDS];
    pattern(key, words);
    memcpy(p, words, EDGE);
    memcpy(p + rounded(bytes) - EDGE, words + WORDS, EDGE);
}

static bool canary_holds(const char *p, uint64_t bytes, uint64_t key)
{
    uint64_t words[2 * WORDS];
    pattern(key, words);
    return memcmp(p, words, EDGE) == 0 &&
           memcmp(p + rounded(bytes) - EDGE, words + WORDS, EDGE) == 0;
}

typedef struct {
    stw_allocator *a;
    const stwd_list *list;
    uint32_t index;
    uintptr_t *at;   /* this thread's part */
    uint64_t *bytes; /* likewise; NULL without canaries */
    const int *go;   /* threads wait until it is set */
    uint64_t spent_ns, faults;
    pthread_t handle;
    bool started;
} worker;

static void mark(stw_allocator *a, const stwd_list *l, const stwd_op *op)
{
    const char *name = NULL;
    if (op->mark == STW_MARK_PHASE)
        name = l->names + l->name_at[op->id];
    stw_mark(a, op->mark, op->size, name);
}

static void run_plain(worker *w)
{
    const stwd_list *l = w->list;
    size_t snapshots = 0;
    for (size_t i = 0; i < l->n_ops; i++) {
        const stwd_op *op = &l->ops[i];
        switch (op->kind) {
        case STWD_ALLOC:
            w->at[op->id] = (uintptr_t)stw_malloc(w->a, (size_t)op->size, op->stream);
            break;
        case STWD_FREE:
            if (w->at[op->id] != 0) {
                if (op->stream != 0)
                    stw_record_stream(w->a, (void *)w->at[op->id], op->stream);
                stw_free(w->a, (void *)w->at[op->id]);
                w->at[op->id] |= 1;
            }
            break;
        case STWD_MARK:
            mark(w->a, l, op);
            break;
        default:
            if (w->index == 0)
                stw_get_stats(w->a, &l->snapshots[snapshots++]);
        }
    }
}

static void run_canary(worker *w)
{
    const stwd_list *l = w->list;
    size_t snapshots = 0;
    for (size_t i = 0; i < l->n_ops; i++) {
        const stwd_op *op = &l->ops[i];
        switch (op->kind) {
        case STWD_ALLOC: {
            char *p = stw_malloc(w->a, (size_t)op->size, op->stream);
            w->at[op->id] = (uintptr_t)p;
            w->bytes[op->id] = (uint64_t)op->size;
            if (p != NULL)
                canary_write(p, (uint64_t)op->size, key_of(l, w->index, op->id));
            break;
        }
        case STWD_FREE: {
            char *p = (char *)w->at[op->id];
            if (p == NULL)
                break;
            if (!canary_holds(p, w->bytes[op->id], key_of(l, w->index, op->id)))
                w->faults++;
            if (op->stream != 0)
                stw_record_stream(w->a, p, op->stream);
            stw_free(w->a, p);
            w->at[op->id] |= 1;
            break;
        }
        case STWD_MARK:
            mark(w->a, l, op);
            break;
        default:
            if (w->index == 0)
                stw_get_stats(w->a, &l->snapshots[snapshots++]);
        }
    }
}

static void *work(void *arg)
{
    worker *w = arg;
    while (__atomic_load_n(w->go, __ATOMIC_ACQUIRE) == 0)
        sched_yield();
    uint64_t begin = cpu_ns();
    if (w->list->canary)
        run_canary(w);
    else
        run_plain(w);
    w->spent_ns = cpu_ns() - begin;
    return NULL;
}

int stwd_run(stw_allocator *a, const stwd_list *list, uint32_t threads, uintptr_t *at,
             uint64_t *bytes, stwd_result *out)
{
    worker *w = calloc(threads, sizeof *w);
    if (w == NULL)
        return -1;
    int go = 0, failed = 0;
    for (uint32_t t = 0; t < threads; t++) {
        size_t first = (size_t)t * list->n_ids;
        w[t] = (worker){.a = a, .list = list, .index = t, .at = at + first,
                        .bytes = bytes == NULL ? NULL : bytes + first, .go = &go};
        if (t > 0) {
            w[t].started = pthread_create(&w[t].handle, NULL, work, &w[t]) == 0;
            failed |= !w[t].started;
        }
    }
    __atomic_store_n(&go, 1, __ATOMIC_RELEASE);
    work(&w[0]);
    *out = (stwd_result){w[0].spent_ns, w[0].faults};
    for (uint32_t t = 1; t < threads; t++) {
        if (!w[t].started)
            continue;
        pthread_join(w[t].handle, NULL);
        out->faults += w[t].faults;
        if (w[t].spent_ns > out->spent_ns)
            out->spent_ns = w[t].spent_ns;
    }
    free(w);
    return failed ? -1 : 0;
}

uint64_t stwd_release(stw_allocator *a, const stwd_list *list, uint32_t threads, uintptr_t *at,
                      const uint64_t *bytes)
{
    uint64_t faults = 0;
    for (uint32_t t = 0; t < threads; t++) {
        for (uint32_t id = 0; id < list->n_ids; id++) {
            size_t k = (size_t)t * list->n_ids + id;
            if (at[k] == 0 || (at[k] & 1) != 0)
                continue;
            if (bytes != NULL && !canary_holds((char *)at[k], bytes[k], key_of(list, t, id)))
                faults++;
            stw_free(a, (void *)at[k]);
            at[k] |= 1;
        }
    }
    return faults;
}

uint64_t stwd_baseline(uint64_t pairs)
{
    uint64_t begin = cpu_ns();
    for (uint64_t i = 0; i < pairs; i++) {
        void *p = malloc(64);
        __asm__ volatile("" : "+r"(p) : : "memory"); /* or the pair is optimised away */
        free(p);
    }
    return cpu_ns() - begin;
}

typedef struct {
    stwd_block *blocks;
    uint64_t n, room;
    bool failed;
} collector;

static void collect(void *ctx, void *p, size_t size, uint64_t stream, int planned)
{
    collector *c = ctx;
    if (c->n == c->room) {
        uint64_t room = c->room == 0 ? 64 : 2 * c->room;
        stwd_block *more = realloc(c->blocks, room * sizeof *more);
        if (more == NULL) {
            c->failed = true;
            return;
        }
        c->blocks = more;
        c->room = room;
    }
    c->blocks[c->n++] = (stwd_block){(uintptr_t)p, size, stream, planned, 0};
}

stwd_block *stwd_walk(stw_allocator *a, uint64_t *n)
{
    collector c = {0};
    stw_walk(a, collect, &c);
    *n = c.n;
    if (c.failed) {
        free(c.blocks);
        c.blocks = NULL;
        *n = UINT64_MAX;
    }
    return c.blocks;
}
