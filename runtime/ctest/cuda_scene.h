/* cuda_scene.h: what the tests of the CUDA backend share: the double of the driver, an allocator on it, and a
 * program that diverges from its plan.
 */
#ifndef CUDA_SCENE_H
#define CUDA_SCENE_H

#include "../stw_cuda.h"
#include "check.h"
#include "libcuda_double.h"
#include "support.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { GRANULE = 64 << 10, ENTRIES = 24, HELD = 12 };

static const double_api *gpu;
static char message[300];

static inline bool gpu_load(void)
{
    void *lib = dlopen("libcuda.so.1", RTLD_NOW);
    gpu = lib ? dlsym(lib, "double_control") : NULL;
    if (!gpu)
        printf("no double of libcuda: %s\n", lib ? "it is a driver" : dlerror());
    return gpu != NULL;
}

static inline void start(const double_config *c)
{
    gpu->reset(c);
}

static inline stw_status open_with(stw_backend *b, stw_cuda_options o)
{
    return stw_backend_cuda(b, &o, message, sizeof message);
}

static inline double_config small_device(void)
{
    return (double_config){.devices = 3, .granularity = GRANULE, .memory = 24 << 20};
}

/* A step of ENTRIES entries of 100 KiB and more, each alive for half a step, the second half at the places of the first;
 * shared: on the other stream. */
static inline uint8_t *cuda_plan(bool shared, size_t *bytes)
{
    builder b = {.shared_age = shared, .extra_kind = STW_SECTION_INFO, .extra_flags = STW_SECTION_OPTIONAL,
                 .extra_text = "rules-digest: 0123456789ab\nrule: x.rules:1:1: expect gap < 1%\n"};
    uint32_t at = 0, end = ENTRIES / 2 * 200 + ENTRIES * ENTRIES * 7 / 8;
    builder_stream(&b, 0, 0, end);
    if (shared)
        builder_stream(&b, 1, 0, end);
    for (uint32_t i = 0; i < ENTRIES; i++) {
        uint32_t k = i % (ENTRIES / 2), units = 200 + 7 * k;
        at = k == 0 ? 0 : at;
        builder_entry(&b, builder_planned(&b, shared && i >= ENTRIES / 2, at, units), ENTRIES / 2);
        at += units;
    }
    return builder_finish(&b, bytes);
}

/* Everything is as before the first call, and no rule was broken. */
static inline void check_clean(const char *when)
{
    double_live l = gpu->live();
    const char *why = "";
    bool clean = CHECK_EQ(l.handles, 0) & CHECK_EQ(l.mappings, 0) & CHECK_EQ(l.ranges, 0) & CHECK_EQ(l.allocs, 0) & CHECK_EQ(l.events, 0) &
                 CHECK_EQ(l.primaries, 0) & CHECK_EQ(l.memory, 0) & CHECK_EQ(l.address_space, 0) & CHECK_EQ(gpu->misuse(&why), 0) &
                 CHECK_EQ(gpu->wrong(), 0);
    if (!clean)
        printf("  %s: %s\n", when, why);
}

typedef struct {
    unsigned char *p;
    size_t bytes;
    uint64_t stream;
    uint8_t value;
} held_block;

typedef struct {
    unsigned long failed, retried, served_again;
} tally;

/* A request; one that fails is asked for once more. What it gets is written at both edges by its stream. */
static inline held_block take_block(stw_allocator *a, size_t bytes, uint64_t stream, uint8_t value, tally *t)
{
    held_block b = {stw_malloc(a, bytes, stream), bytes, stream, value};
    if (!b.p) {
        t->failed++;
        b.p = stw_malloc(a, bytes, stream);
        t->served_again += b.p != NULL;
    }
    if (b.p) {
        size_t edge = bytes < 64 ? bytes : 64;
        gpu->launch(stream, b.p, edge, value, false);
        gpu->launch(stream, b.p + bytes - edge, edge, value, false);
    }
    return b;
}

static inline void drop_block(stw_allocator *a, held_block *b)
{
    if (!b->p)
        return;
    size_t edge = b->bytes < 64 ? b->bytes : 64;
    gpu->launch(b->stream, b->p, edge, b->value, true);
    gpu->launch(b->stream, b->p + b->bytes - edge, edge, b->value, true);
    CHECK_EQ(stw_free(a, b->p), 0);
    b->p = NULL;
}

/* Steps of cuda_plan with requests in between that it does not know, on two streams, some of them used by the other stream,
 * too, where there is a backend to order that, and memory given back now and then. */
static inline void run_program(stw_allocator *a, const stw_backend *b, const uint64_t streams[2], bool shared, int steps, uint64_t seed,
                               tally *t)
{
    held_block planned[ENTRIES] = {0}, other[HELD] = {0};
    for (int step = 0; step < steps; step++) {
        for (int i = 0; i < ENTRIES; i++) {
            uint64_t r = check_random(&seed);
            drop_block(a, &planned[(i + ENTRIES / 2) % ENTRIES]);
            if (r % 17 != 0)
                planned[i] = take_block(a, (200 + 7 * (size_t)(i % (ENTRIES / 2))) * 512, shared && i >= ENTRIES / 2 ? streams[1] : 0,
                                        (uint8_t)(r >> 8), t);
            held_block *o = &other[r % HELD];
            if (r >> 20 & 1) {
                drop_block(a, o);
                *o = take_block(a, 1 + (r >> 21) % 700000, streams[r >> 50 & 1], (uint8_t)(r >> 9), t);
                if (b && o->p && (r >> 51 & 3) == 0) {
                    uint64_t second = streams[~r >> 50 & 1];
                    void *written = b->event_record(b->ctx, o->stream);
                    if (written && b->event_wait(b->ctx, second, written) == 0) {
                        gpu->launch(second, o->p, 1, o->value, true);
                        stw_record_stream(a, o->p, second);
                    }
                    if (written)
                        b->event_drop(b->ctx, written);
                }
            }
            if (r >> 53 == 0)
                stw_trim(a);
        }
        stw_trim(a);
    }
    for (int i = 0; i < ENTRIES; i++)
        drop_block(a, &planned[i]);
    for (int i = 0; i < HELD; i++)
        drop_block(a, &other[i]);
}

static inline void check_sound(stw_allocator *a)
{
    if (!CHECK_EQ(stw_check(a, message, sizeof message), 0))
        printf("  %s\n", message);
}

#endif
