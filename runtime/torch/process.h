/* process.h: the state of one process: devices.c makes it, plug.c and pools.c work on it. */
#ifndef STW_TORCH_PROCESS_H
#define STW_TORCH_PROCESS_H

#include "conf.h"

#include "../stw_record.h"

#pragma GCC visibility push(hidden)

#define STWT_DEVICES 64 /* of CUDA; the host comes after them */
#define STWT_SLOTS (STWT_DEVICES + 1)

#define STWT_TIMES 4096
#define STWT_STEP 4 /* ns */

enum { STWT_FORKED = 1, STWT_ENDING = 2 };

typedef struct stwt_pool stwt_pool; /* pools.c */

typedef struct {
    stw_allocator *a; /* atomic: NULL until it is made, then for ever */
    int index;        /* as PyTorch calls it */
    bool refused;     /* under devices.c's lock: there is no such device, it has been said */
    stwt_pool *pools; /* of graphs that live; changed under pools.c's lock, NULL as a rule: atomic */
    stwt_pool *open;  /* likewise: of a capture under way */
    double fraction;  /* under the lock: of the device's memory that may be held; 0: not said */
} stwt_device;

typedef struct {
    stwt_conf conf;         /* constant once a device has an allocator, as is recorder */
    stw_recorder *recorder; /* NULL: none */
    int away;               /* atomic: why the devices are out of reach; 0: they are not */
    uint64_t strangers;     /* atomic: frees of what is not ours */
    uint32_t times[2][STWT_TIMES]; /* atomic, with time:1: calls of malloc, of free, by duration in steps of STWT_STEP; the rest in the last */
    stwt_device devices[STWT_SLOTS];
} stwt_process;

extern stwt_process stwt;

void stwt_say(void *device, const char *text); /* lines for people; device may be NULL */
stw_allocator *stwt_first_request(stwt_device *d); /* makes its allocator; NULL: it cannot be had */

/* What d's limit leaves to one that holds memory there, where `elsewhere` bytes are held by others; 0: there is no limit. */
uint64_t stwt_left(stwt_device *d, uint64_t elsewhere);
/* A heap more on d, over memory of its own, which gives none back before it ends; NULL: it has been said why. */
stw_allocator *stwt_make_heap(stwt_device *d, uint64_t capacity, stw_backend *backend);
void stwt_drop_backend(const stwt_device *d, stw_backend *b); /* whose allocator is destroyed */

/* False: there is no capture under way, or p is not a pool's. */
bool stwt_pool_malloc(stwt_device *d, size_t size, void *stream, void **p);
bool stwt_pool_free(stwt_device *d, void *p);
size_t stwt_pool_size(stwt_device *d, const void *p); /* 0: not a pool's */
bool stwt_pool_record_stream(stwt_device *d, void *p, void *stream);
void stwt_pools_in_child(void); /* after fork: nobody is in there */
void stwt_pool_bytes(const stwt_device *d, uint64_t *live, uint64_t *reserved);

/* NULL: there is no such device. */
static inline stwt_device *stwt_device_of(int index)
{
    if (index == STW_TORCH_HOST)
        return &stwt.devices[STWT_DEVICES];
    return index >= 0 && index < STWT_DEVICES ? &stwt.devices[index] : NULL;
}

/* Whether d's memory is the host's. */
static inline bool stwt_is_host(const stwt_device *d)
{
    return stwt.conf.backend == STWT_BACKEND_HOST || (stwt.conf.backend == STWT_BACKEND_AUTO && d->index == STW_TORCH_HOST);
}

/* NULL: none, and none is made. */
static inline stw_allocator *stwt_existing(const stwt_device *d)
{
    return d ? __atomic_load_n(&d->a, __ATOMIC_ACQUIRE) : NULL;
}

#pragma GCC visibility pop

#endif
