/* stw_bins.c: the free blocks of a heap, by size.
 *
 *     units   1   2   3   ...   2047 | 2048   ...   8191 | 8192,8193   8194,8195   ...
 *     bin     1   2   3   ...   2047 | 2048   ...   8191 | 8192        8193        ...
 *             lists                  | trees
 *
 * A *bin* for each size below 8192 units, 4096 of them for every power of two above. A bitmap in three levels says which ones
 * hold something, so the next that does is a few bit scans away. The bins of sizes below 2048 are lists, last freed first out: O(1),
 * whatever the number of holes. The others are treaps ordered by (units, start) (Seidel and Aragon 1996): O(log n), and with so many
 * bins n is small: what a search costs is the records it reads, each of them a cache line from far away. Of 100,000 holes between 1 and
 * 6 MiB it reads three or four. Of a table that large only what is used is ever paged in. Where many are of one size the tree is deep, but then
 * one of them often lies close by: an insertion that is not done after a few steps goes on from there, for what is next to it in memory is
 * next to it in the tree.
 *
 * Priorities are a hash of the record's index: no random numbers, and the same requests always give the same
 * trees. Insertion splits and removal merges top-down, so nothing recurses; a block knows what it hangs from, so
 * removal searches nothing. A bin with one block is a list and a tree alike.
 */
#include "stw_bins.h"

#include <string.h>

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

/* The free block of b's size that is the last before b or the first after it, and not far; 0: there is none. */
static uint32_t neighbour(const stw_heap *h, uint32_t b)
{
    uint32_t before = b, after = b;
    for (int i = 0; i < 4; i++) {
        before = h->blocks[before].prev; /* nobody's is nobody */
        if (!h->blocks[before].used && h->blocks[before].units == h->blocks[b].units)
            return before;
        after = h->blocks[after].next;
        if (!h->blocks[after].used && h->blocks[after].units == h->blocks[b].units)
            return after;
    }
    return 0;
}

/* Where b, of a rank below the root's, comes into the tree in which near is the one before or after it; *up: what it will hang from. */
static uint32_t *link_near(stw_heap *h, uint32_t b, uint32_t rank, uint32_t near, uint32_t *up)
{
    bool s = key(h, near) < key(h, b);
    uint32_t t = near, below = 0;
    if (h->blocks[t].side[s]) { /* down to where b would be a leaf */
        t = h->blocks[t].side[s];
        s = !s;
        while (h->blocks[t].side[s])
            t = h->blocks[t].side[s];
    }
    for (; priority(t) < rank; t = h->blocks[t].up) /* and up past all that b comes before */
        below = t;
    *up = t;
    return &h->blocks[t].side[below ? h->blocks[t].side[1] == below : s];
}

void stwi_tree_insert(stw_heap *h, uint32_t bin, uint32_t b)
{
    const uint64_t at = key(h, b);
    const uint32_t rank = priority(b);
    uint32_t *link = &h->first[bin], up = 0, near;
    for (int depth = 0; *link && priority(*link) > rank; depth++) {
        if (depth == 4 && (near = neighbour(h, b)) != 0) {
            link = link_near(h, b, rank, near, &up);
            break;
        }
        up = *link;
        link = &h->blocks[up].side[key(h, up) < at];
    }
    uint32_t rest = *link, ends[2] = {b, b}, *gaps[2] = {&h->blocks[b].side[0], &h->blocks[b].side[1]};
    *link = b;
    h->blocks[b].up = up;
    while (rest) { /* split what was here into the parts below and above b */
        const bool above = key(h, rest) > at;
        *gaps[above] = rest;
        h->blocks[rest].up = ends[above];
        ends[above] = rest;
        gaps[above] = &h->blocks[rest].side[!above];
        rest = *gaps[above];
    }
    *gaps[0] = *gaps[1] = 0;
}

void stwi_tree_remove(stw_heap *h, uint32_t bin, uint32_t b)
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
        const bool small = h->blocks[b].units < units;
        found = small ? found : b;
        b = h->blocks[b].side[small];
    }
    return found;
}

bool stwi_tree_has(const stw_heap *h, uint32_t b)
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

/* Whether the bitmap is that of the bins. */
static bool check_bins(const stw_heap *h)
{
    static const uint32_t nothing[64];
    for (uint32_t w = 0; w < STW_BINS / 64; w++) {
        const uint32_t *first = &h->first[w << 6];
        uint64_t bits = 0;
        if (memcmp(first, nothing, sizeof nothing) != 0)
            for (uint32_t i = 0; i < 64; i++)
                bits |= (uint64_t)(first[i] != 0) << i;
        if (bits != h->bins[w] || (bits != 0) != (h->words[w >> 6] >> (w & 63) & 1) || (h->words[w >> 6] != 0) != (h->groups >> (w >> 6) & 1))
            return false;
    }
    return true;
}

const char *stwi_bins_check(const stw_heap *h, uint64_t *listed)
{
    if (!check_bins(h))
        return "a heap's bitmap of bins is wrong";
    *listed = check_lists(h);
    return *listed == UINT64_MAX ? "a heap's free list is broken" : NULL;
}
