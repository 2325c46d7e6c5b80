/* stw_idle.h: searching the free runs of atoms of the arena (stw_idle.c). Not installed. */
#ifndef STW_IDLE_H
#define STW_IDLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

typedef struct {
    uint32_t n_atoms, words;
    uint64_t *busy; /* bit per word of the occupancy: an atom of it may be taken */
    uint16_t *room; /* per word: what a search may hope to find there (stw_idle.c), a class; behind busy in one mapping */
    size_t mapped_bytes;
    uint64_t steps; /* of the searches, ever: words and runs looked at */
} stw_idle;

#define STW_ROOMY 0x7fffu /* above all classes: nobody has looked yet */

/* Atoms of word w came free; the atoms [begin, end) did, not empty. */
static inline void stwi_idle_more(stw_idle *i, uint32_t w)
{
    i->room[w] = STW_ROOMY;
}

static inline void stwi_idle_freed(stw_idle *i, uint32_t begin, uint32_t end)
{
    for (uint32_t w = begin >> 6; w <= (end - 1) >> 6; w++)
        stwi_idle_more(i, w);
}

/* Sizes in 15 bits, in their order: those below 2048 units, and 1024 classes for each power of two above. */
static inline uint16_t stwi_class(uint32_t units)
{
    if (units < 2048)
        return (uint16_t)units;
    uint32_t shift = 21 - (uint32_t)__builtin_clz(units);
    return (uint16_t)(shift << 10) + (uint16_t)(units >> shift);
}

/* The atoms [begin, end) are taken, not empty. */
static inline void stwi_idle_taken(stw_idle *i, uint32_t begin, uint32_t end)
{
    for (uint32_t w = begin >> 6; w <= (end - 1) >> 6; w++)
        i->busy[w >> 6] |= UINT64_C(1) << (w & 63);
}

void stwi_idle_unknown(stw_idle *i); /* atoms were taken, nobody knows which */

#define STW_CLASS_PAD 8u /* elements behind an array of classes that may be read */
uint32_t stwi_class_far(const uint16_t *classes, uint32_t i, uint32_t end, uint16_t least);

/* First index in [i, end) with a class of at least `least`, which is not 0; end if there is none. */
static inline uint32_t stwi_class_next(const uint16_t *classes, uint32_t i, uint32_t end, uint16_t least)
{
    for (uint32_t near = i + 8; i < end && i < near; i++)
        if (classes[i] >= least)
            return i;
    return i < end ? stwi_class_far(classes, i, end, least) : end;
}

typedef struct {
    uint32_t begin, end; /* half-open */
} stw_atoms;

bool stwi_idle_make(stw_idle *i, uint32_t n_atoms); /* false: no memory */
void stwi_idle_drop(stw_idle *i);
void stwi_idle_forget(stw_idle *i); /* atoms came free, nobody knows where */
#define STW_FITS 7u  /* runs that are large enough, of which the smallest is taken */
#define STW_NEAR 8u  /* or the first that has no more than that part too much */
#define STW_NOWHERE UINT32_MAX

/* A search for the smallest run with `units`. */
typedef struct {
    uint32_t units;
    uint32_t from, over; /* the best run so far: where it begins, or STW_NOWHERE, and what it has too much, which at first is -units */
    uint32_t fits;       /* how many more are to be found */
} stw_search;

static inline stw_search stwi_search_for(uint32_t units)
{
    return (stw_search){units, STW_NOWHERE, 0 - units, STW_FITS};
}

/* Looks at the runs in those ranges of atoms, ascending, none of them empty, no two without an atom between them, which is no part of a run.
 * True: the search is over. */
bool stwi_idle_search(stw_idle *i, const uint32_t *bounds, const uint64_t *occupied, const stw_atoms *ranges, uint32_t n, stw_search *s);
const char *stwi_idle_check(const stw_idle *i, const uint32_t *bounds, const uint64_t *occupied);

#pragma GCC visibility pop
#endif
