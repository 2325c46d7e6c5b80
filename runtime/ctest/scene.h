/* scene.h: what test_plan.c and test_memory.c start from: an allocator over bare addresses, made from
 * a plan in a builder, and short words to ask it things.
 */
#ifndef SCENE_H
#define SCENE_H

#include "check.h"
#include "support.h"

#include <stdlib.h>
#include <string.h>

static test_backend memory;
static char message[300];

static inline stw_allocator *make(builder *b, const stw_options *options)
{
    stw_backend backend = test_backend_make(&memory, true, 0);
    stw_allocator *a = NULL;
    size_t n = 0;
    uint8_t *file = b ? builder_finish(b, &n) : NULL;
    if (!CHECK_EQ(stw_create(&a, file, n, options, &backend, message, sizeof message), STW_OK)) {
        printf("  %s\n", message);
        exit(check_end("make"));
    }
    free(file);
    return a;
}

static inline stw_stats stats(stw_allocator *a)
{
    stw_stats s;
    if (!CHECK_EQ(stw_check(a, message, sizeof message), 0))
        printf("  %s\n", message);
    stw_get_stats(a, &s);
    return s;
}

static inline void end(stw_allocator *a)
{
    stats(a);
    stw_destroy(a);
    CHECK_EQ(memory.reserved, 0);
    CHECK_EQ(memory.committed, 0);
}

static inline int64_t place(stw_allocator *a, const void *p) /* in units; of the arena where below its end */
{
    return ((int64_t)(uintptr_t)p - (int64_t)(uintptr_t)stw_arena(a)) / 512;
}

static inline void *get(stw_allocator *a, size_t units)
{
    return stw_malloc(a, units * 512, 0);
}

/* A step of `n` entries of distinct sizes, each at its own place, all freed at the end of the step. */
static inline builder ladder(uint32_t n)
{
    builder b = {0};
    builder_stream(&b, 0, 0, n * (n + 1) / 2 + n * 20);
    for (uint32_t i = 0, at = 0; i < n; at += 20 + i, i++)
        builder_entry(&b, builder_planned(&b, 0, at, 20 + i), n - i);
    return b;
}

#endif
