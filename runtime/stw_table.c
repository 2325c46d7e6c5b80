/* stw_table.c: memory for the runtime's records; its table: 64-bit key -> record, open addressing with linear probing (Knuth 6.4, algorithm R
 * for removal); and what is live.
 *
 *     home of key = top bits of key * 2^64 / golden ratio: spreads multiples of 512 evenly
 *
 *     cells   . . A B C . .      A, B, C have their home at A's cell or before their own;
 *                 |              removing A shifts B and C back where that brings them
 *                 gone           nearer to home, so no grave is left to probe over
 *
 * At most half of the cells are full, so a look-up reads one or two neighbouring cells. Growth
 * doubles into fresh memory and leaves everything as it was where there is none.
 *
 * What is live in the arena begins where an atom does, and atoms are known when the plan is: their addresses are put into a
 * table of their own, once, and stay. A slot knows its cell, so a planned request looks nothing up, and its free empties
 * the cell and shifts nothing. The rest comes and goes in the other table.
 */
#define _GNU_SOURCE
#include "stw_internal.h"

#include <sys/mman.h>

/* What is large is read here and there: a huge page, where there is one, spares the walk to each of its small ones. */
static void *ask_huge(void *p, size_t bytes)
{
    enum { HUGE = 2 << 20 };
    if (p == MAP_FAILED)
        return NULL;
    if (bytes >= HUGE)
        madvise(p, bytes, MADV_HUGEPAGE);
    return p;
}

void *stwi_map(size_t bytes)
{
    return ask_huge(mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0), bytes);
}

void *stwi_grow(void *p, size_t old_bytes, size_t new_bytes)
{
    return ask_huge(mremap(p, old_bytes, new_bytes, MREMAP_MAYMOVE), new_bytes);
}

void *stwi_double(void *p, uint32_t *cap, size_t each)
{
    void *q = *cap <= UINT32_MAX / 2 ? stwi_grow(p, *cap * each, 2 * (*cap * each)) : NULL;
    if (q)
        *cap *= 2;
    return q;
}

void stwi_unmap(void *p, size_t bytes)
{
    if (p)
        munmap(p, bytes);
}

bool stwi_table_init(stw_table *t, uint32_t log2_cells)
{
    t->mask = (UINT64_C(1) << log2_cells) - 1;
    t->shift = 64 - log2_cells;
    t->count = 0;
    t->recs = stwi_map((t->mask + 2) * sizeof *t->recs); /* the last one stays empty: a look past any other finds a cell */
    return t->recs != NULL;
}

bool stwi_table_grow(stw_table *t)
{
    stw_table bigger;
    if (!stwi_table_init(&bigger, 64 - t->shift + 1))
        return false;
    for (uint64_t i = 0; i <= t->mask; i++)
        if (t->recs[i].units != 0)
            *stwi_table_find(&bigger, t->recs[i].key) = t->recs[i];
    bigger.count = t->count;
    stwi_table_drop(t);
    *t = bigger;
    return true;
}

void stwi_table_remove_shift(stw_table *t, stw_rec *r)
{
    uint64_t hole = (uint64_t)(r - t->recs), i = hole;
    for (;;) {
        i = (i + 1) & t->mask;
        if (t->recs[i].units == 0)
            break;
        uint64_t home = stwi_home(t, t->recs[i].key);
        if (((i - home) & t->mask) >= ((i - hole) & t->mask)) {
            t->recs[hole] = t->recs[i];
            hole = i;
        }
    }
    t->recs[hole].units = 0;
    t->count--;
}

void stwi_table_drop(stw_table *t)
{
    if (t->recs)
        stwi_unmap(t->recs, (t->mask + 2) * sizeof *t->recs);
    t->recs = NULL;
}

bool stwi_places_make(stw_allocator *a)
{
    const stw_plan *p = &a->plan;
    uint32_t log2_cells = 2;
    while (UINT64_C(1) << log2_cells < 4 * (uint64_t)p->n_atoms) /* a free that finds its cell at home needs no other path */
        log2_cells++;
    if (!stwi_table_init(&a->in_arena, log2_cells))
        return false;
    for (uint32_t i = 0; i < p->n_atoms; i++) {
        uint64_t at = (uintptr_t)a->arena.base + ((uint64_t)p->bounds[i] << STW_UNIT_SHIFT);
        stwi_place(a, at)->key = at;
    }
    for (uint32_t i = 0; i < p->n_slots; i++)
        if (p->slots[i].flags & STW_SLOT_PLANNED)
            p->slots[i].place = (uint32_t)(stwi_place(a, (uintptr_t)a->arena.base + ((uint64_t)p->slots[i].lo << STW_UNIT_SHIFT)) - a->in_arena.recs);
    return true;
}

const char *stwi_places_check(const stw_allocator *a)
{
    const stw_table *t = &a->in_arena;
    uint64_t n = 0;
    for (uint32_t i = 0; i < a->plan.n_atoms; i++)
        if (stwi_place(a, (uintptr_t)a->arena.base + ((uint64_t)a->plan.bounds[i] << STW_UNIT_SHIFT))->key == 0)
            return "an atom has no place";
    for (uint64_t i = 0; i <= t->mask; i++) {
        n += t->recs[i].key != 0;
        if (t->recs[i].units != 0 && (t->recs[i].key == 0 || !t->recs[i].planned))
            return "what lives in the arena is not at an atom, or not planned";
    }
    return n == a->plan.n_atoms ? NULL : "there are places that are no atoms";
}

const stw_rec *stwi_live_next(const stw_allocator *a, const stw_rec *r)
{
    const stw_table *t = r && !r->planned ? &a->elsewhere : &a->in_arena;
    for (r = r ? r + 1 : t->recs;; r++) {
        if (r == t->recs + t->mask + 1) {
            if (t == &a->elsewhere)
                return NULL;
            t = &a->elsewhere;
            r = t->recs;
        }
        if (r->units != 0)
            return r;
    }
}
