/* stw_bins.h: the free blocks of a heap, by size (stw_bins.c). Not installed. */
#ifndef STW_BINS_H
#define STW_BINS_H

#include "stw_heap.h"

#pragma GCC visibility push(hidden)

/* The first block of a bin's tree with at least `units`; or 0. */
uint32_t stwi_tree_first(const stw_heap *h, uint32_t bin, uint64_t units);

/* The bin of a size: no smaller one has a later bin. */
static inline uint32_t stwi_bin_of(uint32_t units)
{
    uint32_t shift = units < 2 * STW_OCTAVE ? 0 : (uint32_t)__builtin_clz(STW_OCTAVE) - (uint32_t)__builtin_clz(units);
    return shift * STW_OCTAVE + (units >> shift);
}

/* The first bin from i on that holds something; STW_BINS: none. */
static inline uint32_t stwi_bin_next(const stw_heap *h, uint32_t i)
{
    uint64_t bits = h->bins[i >> 6] & ~UINT64_C(0) << (i & 63);
    if (bits)
        return (i & ~63u) | (uint32_t)__builtin_ctzll(bits);
    i >>= 6;
    bits = h->words[i >> 6] & ~UINT64_C(1) << (i & 63);
    if (!bits) {
        uint64_t groups = h->groups & ~UINT64_C(1) << (i >> 6);
        if (!groups)
            return STW_BINS;
        i = (uint32_t)__builtin_ctzll(groups) << 6;
        bits = h->words[i >> 6];
    }
    i = (i & ~63u) | (uint32_t)__builtin_ctzll(bits);
    return i << 6 | (uint32_t)__builtin_ctzll(h->bins[i]);
}

static inline void stwi_bin_filled(stw_heap *h, uint32_t i)
{
    h->bins[i >> 6] |= UINT64_C(1) << (i & 63);
    h->words[i >> 12] |= UINT64_C(1) << (i >> 6 & 63);
    h->groups |= UINT64_C(1) << (i >> 12);
}

static inline void stwi_bin_emptied(stw_heap *h, uint32_t i)
{
    if ((h->bins[i >> 6] &= ~(UINT64_C(1) << (i & 63))) == 0 && (h->words[i >> 12] &= ~(UINT64_C(1) << (i >> 6 & 63))) == 0)
        h->groups &= ~(UINT64_C(1) << (i >> 12));
}

/* The block that best fit takes for `units`; 0: none is large enough. */
static inline uint32_t stwi_free_find(const stw_heap *h, uint64_t units)
{
    if (units > UINT32_MAX)
        return 0;
    uint32_t bin = stwi_bin_of((uint32_t)units);
    if (bin >= STW_LARGE_UNITS) { /* its own bin has smaller ones, too */
        uint32_t found = stwi_tree_first(h, bin, units);
        if (found)
            return found;
        bin++;
    }
    bin = bin < STW_BINS ? stwi_bin_next(h, bin) : bin;
    if (bin < STW_LARGE_UNITS)
        return h->first[bin];
    return bin < STW_BINS ? stwi_tree_first(h, bin, 0) : 0;
}

/* The second block of a bin of other than small sizes, and those after it; the same when it goes. */
void stwi_bin_join(stw_heap *h, uint32_t bin, uint32_t b);
void stwi_bin_leave(stw_heap *h, uint32_t bin, uint32_t b);

/* One block alone is a bin of any kind. */
static inline void stwi_free_insert(stw_heap *h, uint32_t b)
{
    stw_block *k = &h->blocks[b];
    const uint32_t bin = stwi_bin_of(k->units), next = h->first[bin];
    k->used = 0;
    if (next && bin >= STW_SMALL_UNITS) {
        stwi_bin_join(h, bin, b);
        return;
    }
    k->side[0] = k->up = 0;
    k->side[1] = next;
    h->first[bin] = b;
    if (next)
        h->blocks[next].side[0] = b;
    else
        stwi_bin_filled(h, bin);
}

static inline void stwi_free_remove(stw_heap *h, uint32_t b)
{
    stw_block *k = &h->blocks[b];
    const uint32_t bin = stwi_bin_of(k->units), prev = k->side[0], next = k->side[1];
    k->used = 1;
    if ((next || prev || k->up) && bin >= STW_SMALL_UNITS) {
        stwi_bin_leave(h, bin, b);
        return;
    }
    if (next)
        h->blocks[next].side[0] = prev;
    if (prev)
        h->blocks[prev].side[1] = next;
    else if ((h->first[bin] = next) == 0)
        stwi_bin_emptied(h, bin);
}

/* A free block that is not small is where it should be: alone, or found by its address or its key. */
bool stwi_bin_has(const stw_heap *h, uint32_t b);
/* NULL, or what is wrong with bitmap and lists; *listed: the blocks in lists. */
const char *stwi_bins_check(const stw_heap *h, uint64_t *listed);

#pragma GCC visibility pop
#endif
