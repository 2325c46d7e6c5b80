/* stw_table.h: records in memory from mmap, and a table of them: 64-bit key -> record (stw_table.c). Not installed. */
#ifndef STW_TABLE_H
#define STW_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

void *stwi_map(size_t bytes);                                /* zeroed; NULL on failure */
void *stwi_grow(void *p, size_t old_bytes, size_t new_bytes); /* NULL: p is as it was */
/* An array of *cap elements of `each` bytes, with room for twice as many; NULL: all is as it was. */
void *stwi_double(void *p, uint32_t *cap, size_t each);
void stwi_unmap(void *p, size_t bytes);

#define STW_STREAM_BITS 26
#define STW_STREAM_MASK ((1u << STW_STREAM_BITS) - 1)

typedef struct {
    uint64_t key;
    uint64_t atoms;  /* in the arena: the bits of its word that it covers; wide: its first atom, and from bit 32 on the one after the last */
    uint32_t units;  /* 0: this cell is empty; of in_arena: nothing is live there */
    uint32_t ref;    /* in the arena: its word of the bitmap; heap: block; of a stream: its index */
    uint32_t stream : STW_STREAM_BITS; /* index in a->streams */
    uint32_t guest : 1;   /* planned, but not where the plan said */
    uint32_t marked : 1;  /* other streams use it, too (stw_marks.c) */
    uint32_t planned : 1; /* 1: in the arena */
    uint32_t wide : 1;    /* in the arena: reaches into more than one word */
    uint32_t ordered : 1; /* its free concerns other streams: in a shared arena, marked or pinned */
    uint32_t pinned : 1;  /* others that could not be noted: it is never reused */
    uint32_t fate;   /* of the entry that its request was matched with (stw_matcher.fates); none: STW_NO_VOTE */
} stw_rec;

typedef struct {
    stw_rec *recs;
    uint64_t mask;  /* cells - 1 */
    uint32_t shift; /* 64 - log2(cells) */
    uint64_t count;
} stw_table;

bool stwi_table_init(stw_table *t, uint32_t log2_cells);
bool stwi_table_grow(stw_table *t);
void stwi_table_drop(stw_table *t);

static inline uint64_t stwi_home(const stw_table *t, uint64_t key)
{
    return (key * UINT64_C(0x9e3779b97f4a7c15)) >> t->shift;
}

/* The cell of key, or the empty one where it belongs. */
static inline stw_rec *stwi_table_find(const stw_table *t, uint64_t key)
{
    uint64_t i = stwi_home(t, key);
    while (t->recs[i].units != 0 && t->recs[i].key != key)
        i = (i + 1) & t->mask;
    return &t->recs[i];
}

void stwi_table_remove_shift(stw_table *t, stw_rec *r);

/* Empties r, a full cell of t. */
static inline void stwi_table_remove(stw_table *t, stw_rec *r)
{
    const stw_rec *next = &t->recs[((uint64_t)(r - t->recs) + 1) & t->mask];
    if (__builtin_expect(next->units == 0, 1)) {
        r->units = 0;
        t->count--;
    } else {
        stwi_table_remove_shift(t, r);
    }
}

/* Makes sure that one more record fits: at most half the cells are full. */
static inline bool stwi_table_ensure(stw_table *t)
{
    return __builtin_expect(t->count * 2 <= t->mask, 1) || stwi_table_grow(t);
}

#pragma GCC visibility pop
#endif
