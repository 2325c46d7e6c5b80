/* pools.c: memory of CUDA graphs.
 *
 * A graph replays its kernels on the addresses that it saw when it was captured; whoever else has such an address
 * later finds it overwritten by the next replay. PyTorch announces a capture by the number of a pool:
 *
 *     begin(pool)   what is asked for from now on belongs to it   (a pool may be begun again, for another graph)
 *     end(pool)
 *     release(pool) one of its graphs is gone; with the last one the addresses are free
 *
 * Each pool is a heap of its own, without a plan: its requests are not part of a step, and what is freed during a capture
 * serves the rest of that capture and nobody else. It gives nothing back before it ends (stwt_make_heap), so a graph's
 * addresses stay mapped as long as it lives. And none ends while there is a capture: the device would have to be waited
 * for, which breaks it.
 *
 * All of it under one lock: nothing here is on the path of a request while there is no capture.
 */
#include "process.h"

#include <pthread.h>
#include <stdlib.h>

struct stwt_pool {
    stwt_pool *next;
    uint64_t id[2];
    uint32_t graphs; /* begun and not released */
    stw_allocator *a;
    stw_backend backend;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void stwt_pools_in_child(void)
{
    pthread_mutex_init(&lock, NULL);
}

static stwt_pool *find_locked(const stwt_device *d, uint64_t id0, uint64_t id1)
{
    stwt_pool *p = d->pools;
    while (p && (p->id[0] != id0 || p->id[1] != id1))
        p = p->next;
    return p;
}

/* Whose p is; NULL: none. */
static stwt_pool *owner_locked(const stwt_device *d, const void *p)
{
    stwt_pool *pool = d->pools;
    while (pool && stw_size(pool->a, p) == 0)
        pool = pool->next;
    return pool;
}

static stw_stats stats_of(const stwt_pool *pool)
{
    stw_stats s = {0};
    stw_get_stats(pool->a, &s);
    return s;
}

/* Bytes that all pools hold but one. */
static uint64_t held_locked(const stwt_device *d, const stwt_pool *but)
{
    uint64_t sum = 0;
    for (const stwt_pool *pool = d->pools; pool; pool = pool->next)
        sum += pool == but ? 0 : stats_of(pool).reserved_bytes;
    return sum;
}

/* The limit is the device's: a pool gets what its allocator and other pools leave, and it what pools leave. */
static uint64_t capacity_locked(stwt_device *d, const stwt_pool *pool)
{
    stw_stats s = {0};
    stw_get_stats(stwt_existing(d), &s);
    return stwt_left(d, s.reserved_bytes + held_locked(d, pool));
}

static void settle_locked(stwt_device *d)
{
    stw_allocator *a = stwt_existing(d);
    if (a && !d->open)
        stw_set_capacity(a, stwt_left(d, held_locked(d, NULL)));
}

/* A pool without graphs ends with its last tensor, or with the capture that is under way then. */
static void end_what_is_over_locked(stwt_device *d)
{
    bool any = false;
    for (stwt_pool **link = &d->pools, *pool; !d->open && (pool = *link) != NULL;) {
        if (pool->graphs > 0 || stats_of(pool).live_bytes > 0) {
            link = &pool->next;
            continue;
        }
        __atomic_store_n(link, pool->next, __ATOMIC_RELEASE);
        stw_destroy(pool->a);
        stwt_drop_backend(d, &pool->backend);
        free(pool);
        any = true;
    }
    if (any)
        settle_locked(d);
}

/* Makes a pool; NULL: it has been said why, and requests are served as if there were no capture. */
static stwt_pool *make_locked(stwt_device *d, uint64_t id0, uint64_t id1)
{
    stwt_pool *pool = calloc(1, sizeof *pool);
    if (!pool)
        return NULL;
    pool->id[0] = id0;
    pool->id[1] = id1;
    pool->a = stwt_make_heap(d, capacity_locked(d, pool), &pool->backend);
    if (!pool->a) {
        free(pool);
        return NULL;
    }
    pool->next = d->pools;
    __atomic_store_n(&d->pools, pool, __ATOMIC_RELEASE);
    return pool;
}

void stw_torch_begin_pool(int index, uint64_t id0, uint64_t id1, void *filter)
{
    (void)filter; /* which streams belong to the capture: others' requests come to no harm in the pool */
    stwt_device *d = stwt_device_of(index);
    if (!d || index < 0)
        return;
    pthread_mutex_lock(&lock);
    stwt_pool *pool = find_locked(d, id0, id1);
    if (pool)
        stw_set_capacity(pool->a, capacity_locked(d, pool));
    else
        pool = make_locked(d, id0, id1);
    if (pool)
        pool->graphs++;
    __atomic_store_n(&d->open, pool, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&lock);
}

void stw_torch_end_pool(int index, uint64_t id0, uint64_t id1)
{
    stwt_device *d = stwt_device_of(index);
    if (!d)
        return;
    pthread_mutex_lock(&lock);
    if (d->open && d->open == find_locked(d, id0, id1))
        __atomic_store_n(&d->open, NULL, __ATOMIC_RELEASE);
    settle_locked(d);
    end_what_is_over_locked(d);
    pthread_mutex_unlock(&lock);
}

void stw_torch_release_pool(int index, uint64_t id0, uint64_t id1)
{
    stwt_device *d = stwt_device_of(index);
    if (!d)
        return;
    pthread_mutex_lock(&lock);
    stwt_pool *pool = find_locked(d, id0, id1);
    if (pool && pool->graphs > 0) {
        pool->graphs--;
        if (pool->graphs == 0 && d->open == pool)
            __atomic_store_n(&d->open, NULL, __ATOMIC_RELEASE);
        end_what_is_over_locked(d);
    }
    pthread_mutex_unlock(&lock);
}

bool stwt_pool_malloc(stwt_device *d, size_t size, void *stream, void **p)
{
    pthread_mutex_lock(&lock);
    stwt_pool *pool = d->open;
    if (pool)
        *p = stw_malloc(pool->a, size, (uint64_t)(uintptr_t)stream);
    pthread_mutex_unlock(&lock);
    return pool != NULL;
}

bool stwt_pool_free(stwt_device *d, void *p)
{
    pthread_mutex_lock(&lock);
    stwt_pool *pool = owner_locked(d, p);
    if (pool) {
        if (stwt.conf.canary)
            stwt_canary_given(p, stw_size(pool->a, p));
        stw_free(pool->a, p);
        end_what_is_over_locked(d);
    }
    pthread_mutex_unlock(&lock);
    return pool != NULL;
}

size_t stwt_pool_size(stwt_device *d, const void *p)
{
    pthread_mutex_lock(&lock);
    stwt_pool *pool = owner_locked(d, p);
    size_t bytes = pool ? stw_size(pool->a, p) : 0;
    pthread_mutex_unlock(&lock);
    return bytes;
}

bool stwt_pool_record_stream(stwt_device *d, void *p, void *stream)
{
    pthread_mutex_lock(&lock);
    stwt_pool *pool = owner_locked(d, p);
    if (pool)
        stw_record_stream(pool->a, p, (uint64_t)(uintptr_t)stream);
    pthread_mutex_unlock(&lock);
    return pool != NULL;
}

void stwt_pool_bytes(const stwt_device *d, uint64_t *live, uint64_t *reserved)
{
    *live = *reserved = 0;
    pthread_mutex_lock(&lock);
    for (const stwt_pool *pool = d->pools; pool; pool = pool->next) {
        stw_stats s = stats_of(pool);
        *live += s.live_bytes;
        *reserved += s.reserved_bytes;
    }
    pthread_mutex_unlock(&lock);
}
