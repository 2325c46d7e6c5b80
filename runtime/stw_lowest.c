/* stw_lowest.c: free blocks between 1 and 8 MiB: of those of one size the lowest.
 *
 *     MiB              0      1      2      3      4      5  ...  31 | 32     33  ...
 *     free blocks      [   2 MiB   ]      [    3 MiB    ]            |     [   2 MiB   ]
 *     line             4096   .      6144   .      .      .       .  | 4096   .          what begins in each of 32 MiB: 64 bytes
 *
 *     row of 4096      1 1 . . .     a bit for each line in which that size begins; its top: one for each word of the row
 *     row of 6144      1 . . . .
 *
 * They are as large as an MiB or larger, so no two begin in the same one, and 16 bits say all about it. To put a block in is a store into its
 * line, its row and the row's top: the places follow from address and size, none has to be read to find the next. (Among tens of thousands of
 * holes of one size a tree reads, at every step, a record that is in no cache.) The next after the lowest is in the same line, or the top, the row and a line lead
 * to it: the tree of van Emde Boas with a root of few words, whose leaves all sizes share. 141 GiB are 280 KiB of sizes and half a KiB for each size's row.
 */
#include "stw_lowest.h"

#include "stw_bits.h"
#include "stw_table.h"

static uint32_t line_of(uint32_t start)
{
    return start / (32 * STW_LOWEST_MIN);
}

static uint64_t *row_of(const stw_lowest *l, uint32_t units)
{
    return l->rows + (uint64_t)(units - STW_LOWEST_MIN) * l->row_words;
}

static uint64_t *top_of(const stw_lowest *l, uint32_t units)
{
    return l->tops + (uint64_t)(units - STW_LOWEST_MIN) * l->top_words;
}

/* The word that says of the block that begins at start how large it is, and from which of its bits on. */
static uint64_t *size_word(const stw_lowest *l, uint32_t start)
{
    return &l->lines[line_of(start)].units[start / STW_LOWEST_MIN / 4 % 8];
}

static uint32_t size_shift(uint32_t start)
{
    return start / STW_LOWEST_MIN % 4 * 16;
}

/* The first of a line's with that size; 0: none. */
static uint32_t find(const stw_lowest_line *line, uint32_t units)
{
    const uint64_t ones = UINT64_C(0x0001000100010001), each = units * ones;
    for (uint32_t w = 0; w < 8; w++) {
        const uint64_t differ = line->units[w] ^ each, same = (differ - ones) & ~differ & ones << 15; /* the lowest bit of it is right */
        if (same)
            return line->block[4 * w + ((uint32_t)__builtin_ctzll(same) >> 4)];
    }
    return 0;
}

bool stwi_lowest_open(stw_lowest *l, uint64_t units)
{
    const uint64_t sizes = STW_LOWEST_END - STW_LOWEST_MIN;
    l->n_lines = line_of((uint32_t)(units - 1)) + 1;
    l->row_words = (l->n_lines + 63) / 64;
    l->top_words = (l->row_words + 63) / 64;
    l->bytes = l->n_lines * sizeof *l->lines + sizes * (l->row_words + l->top_words) * sizeof *l->rows;
    l->lines = stwi_map(l->bytes);
    l->tops = l->lines ? (uint64_t *)(void *)(l->lines + l->n_lines) : NULL;
    l->rows = l->lines ? l->tops + sizes * l->top_words : NULL;
    return l->lines != NULL;
}

void stwi_lowest_close(stw_lowest *l)
{
    stwi_unmap(l->lines, l->bytes);
    *l = (stw_lowest){.lines = NULL};
}

void stwi_lowest_insert(stw_lowest *l, uint32_t start, uint32_t units, uint32_t block)
{
    const uint32_t i = line_of(start);
    *size_word(l, start) |= (uint64_t)units << size_shift(start);
    l->lines[i].block[start / STW_LOWEST_MIN % 32] = block;
    row_of(l, units)[i / 64] |= UINT64_C(1) << i % 64;
    top_of(l, units)[i / 64 / 64] |= UINT64_C(1) << i / 64 % 64;
}

uint32_t stwi_lowest_remove(stw_lowest *l, uint32_t start, uint32_t units, bool lowest)
{
    const uint32_t i = line_of(start);
    uint32_t w = i / 64, t = w / 64;
    *size_word(l, start) &= ~(UINT64_C(0xffff) << size_shift(start));
    const uint32_t found = find(&l->lines[i], units);
    if (found)
        return lowest ? found : 0;
    uint64_t *row = row_of(l, units), *top = top_of(l, units);
    if ((row[w] &= ~(UINT64_C(1) << i % 64)) == 0)
        top[t] &= ~(UINT64_C(1) << w % 64);
    if (!lowest)
        return 0;
    if (row[w] == 0) { /* and so are those before it */
        while (t < l->top_words && top[t] == 0)
            t++;
        if (t == l->top_words)
            return 0;
        w = t * 64 + (uint32_t)__builtin_ctzll(top[t]);
    }
    return find(&l->lines[w * 64 + (uint32_t)__builtin_ctzll(row[w])], units);
}

bool stwi_lowest_has(const stw_lowest *l, uint32_t start, uint32_t units, uint32_t block)
{
    const uint32_t i = line_of(start);
    return (*size_word(l, start) >> size_shift(start) & 0xffff) == units && l->lines[i].block[start / STW_LOWEST_MIN % 32] == block &&
           row_of(l, units)[i / 64] >> i % 64 & 1;
}

/* Whether the bits of a size's row that belong to word t of its top are right, and name lines below `lines` that have it. */
static bool check_rows(const stw_lowest *l, uint32_t units, uint32_t t, uint32_t lines)
{
    const uint64_t *row = row_of(l, units), top = top_of(l, units)[t];
    for (uint32_t w = t * 64; w < l->row_words && w < (t + 1) * 64; w++) {
        if ((row[w] != 0) != (top >> w % 64 & 1))
            return false;
        for (uint64_t bits = row[w]; bits != 0; bits &= bits - 1) {
            const uint32_t line = w * 64 + (uint32_t)__builtin_ctzll(bits);
            if (line >= lines || find(&l->lines[line], units) == 0)
                return false;
        }
    }
    return true;
}

bool stwi_lowest_check(const stw_lowest *l, uint32_t end, uint64_t n)
{
    const uint32_t lines = line_of(end) + 1 < l->n_lines ? line_of(end) + 1 : l->n_lines;
    for (uint32_t i = 0; i < lines; i++)
        for (uint32_t w = 0; w < 8; w++)
            for (uint64_t sizes = l->lines[i].units[w]; sizes != 0; sizes >>= 16)
                n -= (sizes & 0xffff) != 0;
    for (uint32_t from = STW_LOWEST_MIN; from < STW_LOWEST_END; from += 64) {
        if (stwi_zeros(top_of(l, from), 64 * l->top_words * sizeof *l->tops))
            continue;
        for (uint32_t k = 0; k < 64 * l->top_words; k++)
            if (top_of(l, from)[k] != 0 && !check_rows(l, from + k / l->top_words, k % l->top_words, lines))
                return false;
    }
    return n == 0;
}
