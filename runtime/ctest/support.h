/* support.h: what the tests share: a builder of plan files, and a backend that counts, can be told
 * to fail, and hands out either real memory or bare addresses that nobody may touch.
 */
#ifndef SUPPORT_H
#define SUPPORT_H

#include "../stw.h"
#include "../stw_plan.h"

#include <stdbool.h>

/* Builds a plan file. Zero it, add to it, then builder_finish. */
typedef struct {
    stw_plan_stream *streams;
    stw_plan_slot *slots;
    stw_plan_entry *entries;
    stw_plan_mark *marks;
    uint32_t n_streams, n_slots, n_entries, n_marks;
    uint32_t loop_start, shared_age;
    uint64_t arena_units, capacity_bytes;
    uint32_t extra_kind, extra_flags; /* a section more, where extra_kind is not 0 */
    const void *extra_text;
    size_t extra_bytes; /* of it; 0: it is a string */
} builder;

uint32_t builder_stream(builder *b, uint64_t handle, uint64_t begin_units, uint64_t end_units);
uint32_t builder_planned(builder *b, uint32_t stream, uint32_t offset_units, uint32_t size_units);
uint32_t builder_dynamic(builder *b, uint32_t stream, uint32_t lo_units, uint32_t hi_units);
uint32_t builder_entry(builder *b, uint32_t slot, uint32_t life); /* any number of frees before it */
uint32_t builder_entry_nf(builder *b, uint32_t slot, uint32_t life, uint32_t nf_min, uint32_t nf_max);
void builder_mark(builder *b, uint32_t entry, uint32_t kind, int64_t value, const char *name);
/* The file in memory of exactly its size, for free(); the builder is emptied. */
uint8_t *builder_finish(builder *b, size_t *bytes);
void plan_fix_crc(uint8_t *file, size_t bytes);
/* Puts `bytes` of v at `at` and mends the checksum. */
void plan_poke(uint8_t *file, size_t file_bytes, size_t at, uint64_t v, size_t bytes);

typedef struct {
    stw_backend host;
    bool bare;                /* reserve answers with addresses that are not mapped */
    long fail_at;             /* the fail_at-th reserve or commit fails; 0: none */
    long calls;               /* reserves and commits so far */
    uintptr_t next;           /* bare: next address */
    int64_t reserved, committed; /* bytes now */
} test_backend;

/* A backend over t; granularity 0 means 4096. */
stw_backend test_backend_make(test_backend *t, bool bare, size_t granularity);

#endif
