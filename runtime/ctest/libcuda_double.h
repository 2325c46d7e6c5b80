/* libcuda_double.h: how a test speaks with the double of libcuda (libcuda_double.c), which is loaded as
 * the driver is: by dlopen("libcuda.so.1"). dlsym(…, "double_control") gives these functions.
 */
#ifndef LIBCUDA_DOUBLE_H
#define LIBCUDA_DOUBLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    int devices;        /* each reaches every other, but for the last, whom nobody reaches */
    size_t granularity; /* the least, a multiple of the page */
    size_t memory;      /* bytes of each device */
    bool no_vmm, no_fd, no_rdma;
    bool fabric;           /* the device has fabric handles … */
    bool fabric_permitted; /* … and this process may have them */
    bool late;             /* work waits until progress() or a synchronisation runs it */
} double_config;

typedef struct {
    long handles, mappings, ranges, allocs, events, primaries; /* how many there are now */
    size_t memory, address_space;                              /* bytes */
} double_live;

typedef struct {
    /* Forgets everything, misuse and counts included; what is live is given back first. */
    void (*reset)(const double_config *);
    /* The k-th call from now, of the function with that name or, where NULL, of any, does nothing and answers `code`; k 0:
     * none does. forever: so do all that follow it. */
    void (*fail)(const char *name, long k, int code, bool forever);
    long (*calls)(const char *name); /* since reset; NULL: all */
    const char *(*call_name)(int i); /* of the i-th function there is; NULL after the last */
    const char *(*failed)(void);     /* the function whose call fail() made fail last; NULL: none */
    double_live (*live)(void);
    /* How often a rule was broken since reset; why: the first one, in words. */
    unsigned long (*misuse)(const char **why);
    void (*forgive)(void); /* misuse and wrong looks so far are forgotten */
    void *(*context)(int device); /* a context of the caller's own, not current */
    void (*destroy_context)(void *);
    uint64_t (*stream)(void); /* in the current context, or, without one, in the first device's primary one */
    void (*destroy_stream)(uint64_t); /* what is queued on it is done all the same; its handle is refused from now on */
    /* Queues work: n bytes at p are filled with `value`, or looked at: those that differ count as wrong. */
    void (*launch)(uint64_t stream, void *p, size_t n, uint8_t value, bool look);
    bool (*progress)(uint64_t *seed); /* runs one piece of work of some stream; false: there is none that can run */
    unsigned long (*wrong)(void);
    void (*capture)(uint64_t stream);     /* begins, in the mode that forbids most */
    bool (*capture_end)(uint64_t stream); /* whether nothing has broken it */
    unsigned (*reach)(const void *p);     /* bit d: device d may use the memory mapped at p */
    int (*share)(const void *p);          /* how it may be shared, 16 added where network cards reach it */
    bool (*same)(const void *p, const void *q); /* one piece of memory, mapped twice */
} double_api;

#endif
