/* stw_bits.c: bitmaps, a word at a time. */
#include "stw_bits.h"

#include <string.h>

bool stwi_zeros(const void *p, size_t bytes)
{
    const char *c = p;
    return c[0] == 0 && memcmp(c, c + 1, bytes - 1) == 0; /* each is as the one before it */
}

uint64_t stwi_bits_next(const uint64_t *bits, uint64_t from, uint64_t end, bool on)
{
    while (from < end) {
        uint64_t w = bits[from >> 6];
        w = (on ? w : ~w) >> (from & 63);
        if (w != 0) {
            from += (uint64_t)__builtin_ctzll(w);
            return from < end ? from : end;
        }
        from = (from | 63) + 1;
    }
    return end;
}

uint64_t stwi_bits_last(const uint64_t *bits, uint64_t begin, uint64_t end, bool on)
{
    while (end > begin) {
        uint64_t w = bits[(end - 1) >> 6];
        w = (on ? w : ~w) << (63 - ((end - 1) & 63));
        if (w != 0) {
            uint64_t skip = (uint64_t)__builtin_clzll(w);
            return end - begin > skip ? end - skip : begin;
        }
        end = (end - 1) & ~UINT64_C(63);
    }
    return begin;
}

void stwi_bits_set(uint64_t *bits, uint64_t from, uint64_t to, bool on)
{
    for (uint64_t i = from, stop; i < to; i = stop) {
        stop = (i | 63) + 1 < to ? (i | 63) + 1 : to;
        const uint64_t mask = stwi_mask(i & 63, (i & 63) + (stop - i));
        if (on)
            bits[i >> 6] |= mask;
        else
            bits[i >> 6] &= ~mask;
    }
}

/* Ranges that reach into more than one word of the bitmap: a few words mostly, for which a call of memset costs more
 * than they do. Stores that are atomic are not made one. */
static void fill(uint64_t *bits, uint32_t from, uint32_t to, uint64_t v)
{
    for (uint32_t w = from; w < to; w++)
        __atomic_store_n(&bits[w], v, __ATOMIC_RELAXED);
}

bool stwi_range_take_wide(uint64_t *bits, uint32_t begin, uint32_t end)
{
    uint32_t w0 = begin >> 6, w1 = (end - 1) >> 6;
    uint64_t first = ~UINT64_C(0) << (begin & 63), last = ~UINT64_C(0) >> (63 - ((end - 1) & 63)), busy;
    busy = (bits[w0] & first) | (bits[w1] & last);
    for (uint32_t w = w0 + 1; w < w1; w++)
        busy |= bits[w];
    if (busy)
        return false;
    bits[w0] |= first;
    bits[w1] |= last;
    fill(bits, w0 + 1, w1, ~UINT64_C(0));
    return true;
}

void stwi_range_give_wide(uint64_t *bits, uint32_t begin, uint32_t end)
{
    uint32_t w0 = begin >> 6, w1 = (end - 1) >> 6;
    bits[w0] &= ~(~UINT64_C(0) << (begin & 63));
    bits[w1] &= ~(~UINT64_C(0) >> (63 - ((end - 1) & 63)));
    fill(bits, w0 + 1, w1, 0);
}
