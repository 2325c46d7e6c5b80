/* stw_bins.c: the free blocks of a heap, by size.
 *
 *     units   1   2   3   ...   2047 | 2048   ...   16383 | 16384,16385   16386,16387   ...
 *     bin     1   2   3   ...   2047 | 2048   ...   16383 | 16384         16385         ...
 *             lists                  | by address         | trees
 *
 * A *bin* for each size below 16384 units (8 MiB), 8192 of them for every power of two above. A bitmap in three levels says which ones
 * hold something, so the next that does is a few bit scans away. The bins of sizes below 2048 are lists, last freed first out; of those below 16384
 * the lowest block is known, and the next one is soon found (stw_lowest.c): both O(1), whatever the number of holes. The others are treaps ordered by (units, start)
 * (Seidel and Aragon 1996): O(log n), and with so many bins n is small; of one size a device of 141 GiB has 9,000 at most, with as much between them. Of a table that
 * large only what is used is ever paged in.
 *
 * Priorities are a hash of the record's index: no random numbers, and the same requests always give the same
 * trees. Insertion splits and removal merges top-down, so nothing recurses; a block knows what it hangs from, so
 * removal searches nothing. On the way down both sides are read before it is known which one is next: one wait a block, not two. A bin with
 * one block is any of these: most bins of most heaps.
 */
#include "stw_bins.h"

#include "stw_bits.h"

static uint32_t priority(uint32_t b)
{
    b = (b ^ b >> 16) * 0x7feb352du;
    b = (b ^ b >> 15) * 0x846ca68bu;
    return b ^ b >> 16;
}

static uint64_t key(const stw_heap *h, uint32_t b)
{
    return (uint64_t)h->blocks[b].units << 32 | h->blocks[b].start;
}

static void tree_insert(stw_heap *h, uint32_t bin, uint32_t b)
{
    const uint64_t at = key(h, b);
    const uint32_t rank = priority(b);
    uint32_t up = 0, t = h->first[bin];
    bool above = false;
    while (t && priority(t) > rank) {
        const uint32_t before = h->blocks[t].side[0], after = h->blocks[t].side[1];
        up = t;
        above = key(h, t) < at;
        t = above ? after : before;
    }
    uint32_t *link = up ? &h->blocks[up].side[above] : &h->first[bin];
    uint32_t rest = *link, ends[2] = {b, b}, *gaps[2] = {&h->blocks[b].side[0], &h->blocks[b].side[1]};
    *link = b;
    h->blocks[b].up = up;
    while (rest) { /* split what was here into the parts below and above b */
        above = key(h, rest) > at;
        *gaps[above] = rest;
        h->blocks[rest].up = ends[above];
        ends[above] = rest;
        gaps[above] = &h->blocks[rest].side[!above];
        rest = *gaps[above];
    }
    *gaps[0] = *gaps[1] = 0;
}

static void tree_remove(stw_heap *h, uint32_t bin, uint32_t b)
{
    uint32_t up = h->blocks[b].up, rest[2] = {h->blocks[b].side[0], h->blocks[b].side[1]};
    uint32_t *link = up ? &h->blocks[up].side[h->blocks[up].side[1] == b] : &h->first[bin];
    while (rest[0] && rest[1]) {
        const bool above = priority(rest[1]) > priority(rest[0]);
        *link = rest[above];
        h->blocks[rest[above]].up = up;
        up = rest[above];
        link = &h->blocks[up].side[!above];
        rest[above] = *link;
    }
    *link = rest[0] | rest[1];
    if (*link)
        h->blocks[*link].up = up;
}

/* The first block of a bin's tree with at least `units`; or 0. */
uint32_t stwi_tree_first(const stw_heap *h, uint32_t bin, uint64_t units)
{
    uint32_t found = 0;
    for (uint32_t b = h->first[bin]; b;) {
        const uint32_t before = h->blocks[b].side[0], after = h->blocks[b].side[1];
        const bool small = h->blocks[b].units < units;
        found = small ? found : b;
        b = small ? after : before;
    }
    return found;
}

static bool tree_has(const stw_heap *h, uint32_t b)
{
    uint32_t t = h->first[stwi_bin_of(h->blocks[b].units)], up = 0;
    while (t && t != b) {
        if (h->blocks[t].up != up || (up && priority(t) >= priority(up)))
            return false;
        up = t;
        t = h->blocks[t].side[key(h, t) < key(h, b)];
    }
    return t && h->blocks[t].up == up && (!up || priority(t) < priority(up));
}

/* Of a bin that is kept by address. */
static void lowest_insert(stw_heap *h, uint32_t b)
{
    stw_block *k = &h->blocks[b];
    k->side[0] = k->side[1] = 0;
    k->up = b;
    stwi_lowest_insert(&h->lowest, k->start, k->units, b);
}

void stwi_bin_join(stw_heap *h, uint32_t bin, uint32_t b)
{
    if (bin >= STW_LARGE_UNITS) {
        tree_insert(h, bin, b);
        return;
    }
    const uint32_t lowest = h->first[bin];
    if (!h->blocks[lowest].up)
        lowest_insert(h, lowest);
    lowest_insert(h, b);
    if (h->blocks[b].start < h->blocks[lowest].start)
        h->first[bin] = b;
}

void stwi_bin_leave(stw_heap *h, uint32_t bin, uint32_t b)
{
    if (bin >= STW_LARGE_UNITS) {
        tree_remove(h, bin, b);
        return;
    }
    const bool lowest = h->first[bin] == b;
    const uint32_t now = stwi_lowest_remove(&h->lowest, h->blocks[b].start, bin, lowest);
    if (lowest && (h->first[bin] = now) == 0)
        stwi_bin_emptied(h, bin);
}

bool stwi_bin_has(const stw_heap *h, uint32_t b)
{
    const stw_block *k = &h->blocks[b];
    const uint32_t first = h->first[stwi_bin_of(k->units)];
    if (k->units >= STW_LARGE_UNITS)
        return tree_has(h, b);
    if (!k->up)
        return first == b;
    return first && h->blocks[first].up && h->blocks[first].start <= k->start && stwi_lowest_has(&h->lowest, k->start, k->units, b);
}

/* Counts the blocks of the bins that are lists; UINT64_MAX where a link, a size or a state is wrong. */
static uint64_t check_lists(const stw_heap *h)
{
    uint64_t n = 0;
    for (uint32_t bin = stwi_bin_next(h, 0); bin < STW_SMALL_UNITS; bin = stwi_bin_next(h, bin + 1))
        for (uint32_t b = h->first[bin], prev = 0; b; prev = b, b = h->blocks[b].side[1], n++) {
            const stw_block *k = &h->blocks[b];
            if (b >= h->n_blocks || k->used || k->units != bin || k->side[0] != prev || n > h->n_blocks)
                return UINT64_MAX;
        }
    return n;
}

/* Whether the bitmap is that of the bins, in the words of one bit of `groups`. */
static bool check_group(const stw_heap *h, uint32_t group)
{
    const uint32_t from = group * 64;
    if ((h->words[group] != 0) != (h->groups >> group & 1))
        return false;
    if (h->words[group] == 0)
        return stwi_zeros(&h->bins[from], 64 * sizeof *h->bins) && stwi_zeros(&h->first[from * 64], 64 * 64 * sizeof *h->first);
    for (uint32_t w = from; w < from + 64; w++) {
        const uint32_t *first = &h->first[w * 64];
        const bool none = h->bins[w] == 0 && stwi_zeros(first, 64 * sizeof *first);
        uint64_t bits = 0;
        for (uint32_t i = 0; !none && i < 64; i++)
            bits |= (uint64_t)(first[i] != 0) << i;
        if (bits != h->bins[w] || (bits != 0) != (h->words[group] >> w % 64 & 1))
            return false;
    }
    return true;
}

const char *stwi_bins_check(const stw_heap *h, uint64_t *listed)
{
    for (uint32_t group = 0; group < STW_BINS / 64 / 64; group++)
        if (!check_group(h, group))
            return "a heap's bitmap of bins is wrong";
    *listed = check_lists(h);
    return *listed == UINT64_MAX ? "a heap's free list is broken" : NULL;
}
