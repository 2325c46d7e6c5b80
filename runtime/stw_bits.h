/* stw_bits.h: bitmaps, and ranges in them (stw_bits.c). Not installed. */
#ifndef STW_BITS_H
#define STW_BITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

/* Of a bitmap: the first index in [from, end) whose bit is `on`, end if there is none; one more than the last in
 * [begin, end), begin if there is none; sets [from, to). */
uint64_t stwi_bits_next(const uint64_t *bits, uint64_t from, uint64_t end, bool on);
uint64_t stwi_bits_last(const uint64_t *bits, uint64_t begin, uint64_t end, bool on);
void stwi_bits_set(uint64_t *bits, uint64_t from, uint64_t to, bool on);

bool stwi_zeros(const void *p, size_t bytes); /* nothing but that there; bytes > 0 */

static inline uint64_t stwi_mask(uint64_t begin, uint64_t end) /* bits begin..end-1 of 0..63; end > begin */
{
    return (~UINT64_C(0) >> (64 - (end - begin))) << begin;
}

/* Bits [begin, end) of the word of begin; 0: they reach into more than one. */
static inline uint64_t stwi_mask_of(uint32_t begin, uint32_t end)
{
    return begin >> 6 == (end - 1) >> 6 ? stwi_mask(begin & 63, (begin & 63) + (end - begin)) : 0;
}

bool stwi_range_take_wide(uint64_t *bits, uint32_t begin, uint32_t end);
void stwi_range_give_wide(uint64_t *bits, uint32_t begin, uint32_t end);

/* Sets bits [begin, end), whose mask it is, if all are clear, else changes nothing. */
static inline bool stwi_range_take(uint64_t *bits, uint32_t begin, uint32_t end, uint64_t mask)
{
    if (__builtin_expect(mask == 0, 0))
        return stwi_range_take_wide(bits, begin, end);
    uint64_t *w = &bits[begin >> 6];
    if (*w & mask)
        return false;
    *w |= mask;
    return true;
}

static inline void stwi_range_give(uint64_t *bits, uint32_t begin, uint32_t end, uint64_t mask)
{
    if (__builtin_expect(mask == 0, 0))
        stwi_range_give_wide(bits, begin, end);
    else
        bits[begin >> 6] &= ~mask;
}

#pragma GCC visibility pop
#endif
