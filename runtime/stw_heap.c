/* stw_heap.c: best fit in one growing range (MATCHER.md, "The heap"; best fit and boundary-tag
 * merging as in Knuth 2.5, with the tags out of band).
 *
 *     units 0                                             top                  limit
 *           | used | free | used |    used    |   free     |                   |
 *           `-------- blocks tile it, linked in address order ---------'  grows only
 *
 * Which of it is committed is the business of stw_pages.c.
 *
 * Free blocks below 2048 units: one list for each exact size and a bitmap of the lists that are
 * not empty, so the smallest that fits is two bit scans away: O(1), whatever the number of holes.
 * Larger ones: 64 ranges of sizes to every power of two, bitmaps of those that are not empty, and for
 * each a treap ordered by (units, start) (Seidel and Aragon 1996), O(log n): together they are one
 * tree that is a few hundred wide at its top. Priorities are a hash of the record's index: no
 * random numbers, and the same requests always give the same trees. Insertion splits and removal
 * merges top-down, so nothing recurses.
 */
#include "stw_internal.h"

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

static bool less(const stw_heap *h, uint32_t x, uint32_t y)
{
    return key(h, x) < key(h, y);
}

/* The octave of a size of STW_SMALL_UNITS and more, and which of its 64 trees. */
static uint32_t octave(uint32_t units, uint32_t *tree)
{
    uint32_t log2 = 31 - (uint32_t)__builtin_clz(units);
    *tree = units >> (log2 - 6) & 63;
    return log2 - STW_SMALL_LOG2;
}

static void tree_insert(stw_heap *h, uint32_t b)
{
    uint32_t t, o = octave(h->blocks[b].units, &t), *link = &h->root[o][t];
    h->large[o] |= UINT64_C(1) << t;
    h->octaves |= 1u << o;
    while (*link && priority(*link) > priority(b))
        link = less(h, b, *link) ? &h->blocks[*link].left : &h->blocks[*link].right;
    uint32_t rest = *link, *low = &h->blocks[b].left, *high = &h->blocks[b].right;
    *link = b;
    while (rest) { /* split what was here into the parts below and above b */
        if (less(h, rest, b)) {
            *low = rest;
            low = &h->blocks[rest].right;
        } else {
            *high = rest;
            high = &h->blocks[rest].left;
        }
        rest = less(h, rest, b) ? *low : *high;
    }
    *low = *high = 0;
}

static void tree_remove(stw_heap *h, uint32_t b)
{
    uint32_t t, o = octave(h->blocks[b].units, &t), *link = &h->root[o][t];
    while (*link != b)
        link = less(h, b, *link) ? &h->blocks[*link].left : &h->blocks[*link].right;
    uint32_t low = h->blocks[b].left, high = h->blocks[b].right;
    while (low && high) {
        if (priority(low) > priority(high)) {
            *link = low;
            link = &h->blocks[low].right;
            low = *link;
        } else {
            *link = high;
            link = &h->blocks[high].left;
            high = *link;
        }
    }
    *link = low ? low : high;
    if (h->root[o][t] == 0 && (h->large[o] &= ~(UINT64_C(1) << t)) == 0)
        h->octaves &= ~(1u << o);
}

/* The first block of a tree with at least `units`; or 0. */
static uint32_t tree_first(const stw_heap *h, uint32_t b, uint64_t units)
{
    uint32_t found = 0;
    while (b != 0) {
        if (h->blocks[b].units >= units) {
            found = b;
            b = h->blocks[b].left;
        } else {
            b = h->blocks[b].right;
        }
    }
    return found;
}

/* The smallest free block of the trees with at least `units`, the lowest among equals; or 0. */
static uint32_t tree_find(const stw_heap *h, uint64_t units)
{
    if (units > UINT32_MAX)
        return 0;
    uint32_t t, o = 0, found = 0;
    uint64_t later = h->large[0];
    if (units >= STW_SMALL_UNITS) { /* its own tree, then the first one after it */
        o = octave((uint32_t)units, &t);
        found = tree_first(h, h->root[o][t], units);
        later = h->large[o] & ~UINT64_C(1) << t;
    }
    if (found)
        return found;
    if (later == 0) {
        uint32_t octaves = h->octaves & ~UINT32_C(1) << o;
        if (octaves == 0)
            return 0;
        o = (uint32_t)__builtin_ctz(octaves);
        later = h->large[o];
    }
    return tree_first(h, h->root[o][__builtin_ctzll(later)], 0);
}

/* The first block of the smallest non-empty list of at least `units` < STW_SMALL_UNITS; or 0. */
static uint32_t list_find(const stw_heap *h, uint32_t units)
{
    uint32_t w = units >> 6;
    uint64_t bits = h->small[w] & ~UINT64_C(0) << (units & 63);
    if (bits == 0) {
        uint64_t later = h->small_words & ~UINT64_C(1) << w;
        if (later == 0)
            return 0;
        w = (uint32_t)__builtin_ctzll(later);
        bits = h->small[w];
    }
    return h->head[w << 6 | (uint32_t)__builtin_ctzll(bits)];
}

static void free_insert(stw_heap *h, uint32_t b)
{
    stw_block *k = &h->blocks[b];
    k->used = 0;
    if (k->units >= STW_SMALL_UNITS) {
        tree_insert(h, b);
        return;
    }
    uint32_t next = h->head[k->units];
    k->left = 0;
    k->right = next;
    if (next)
        h->blocks[next].left = b;
    h->head[k->units] = b;
    h->small[k->units >> 6] |= UINT64_C(1) << (k->units & 63);
    h->small_words |= UINT64_C(1) << (k->units >> 6);
}

static void free_remove(stw_heap *h, uint32_t b)
{
    stw_block *k = &h->blocks[b];
    if (k->units >= STW_SMALL_UNITS) {
        tree_remove(h, b);
        return;
    }
    if (k->right)
        h->blocks[k->right].left = k->left;
    if (k->left) {
        h->blocks[k->left].right = k->right;
        return;
    }
    h->head[k->units] = k->right;
    if (k->right == 0 && (h->small[k->units >> 6] &= ~(UINT64_C(1) << (k->units & 63))) == 0)
        h->small_words &= ~(UINT64_C(1) << (k->units >> 6));
}

static bool records_ensure(stw_heap *h, uint32_t more)
{
    if (h->n_spare + (h->cap_blocks - h->n_blocks) >= more)
        return true;
    stw_block *grown = stwi_double(h->blocks, &h->cap_blocks, sizeof *h->blocks);
    if (!grown)
        return false;
    h->blocks = grown;
    return true;
}

static uint32_t record_take(stw_heap *h) /* after records_ensure */
{
    if (h->n_spare == 0)
        return h->n_blocks++;
    uint32_t b = h->spare;
    h->spare = h->blocks[b].next;
    h->n_spare--;
    return b;
}

/* Links a block of [start, start + units) after `prev` in address order. */
static uint32_t block_after(stw_heap *h, uint32_t prev, uint32_t start, uint32_t units)
{
    uint32_t b = record_take(h), next = prev ? h->blocks[prev].next : 0;
    h->blocks[b] = (stw_block){.start = start, .units = units, .prev = prev, .next = next};
    if (prev)
        h->blocks[prev].next = b;
    if (next)
        h->blocks[next].prev = b;
    else
        h->last = b;
    return b;
}

/* Adds the block `b`'s right neighbour to b; the neighbour is in no list. */
static void absorb_next(stw_heap *h, uint32_t b)
{
    uint32_t gone = h->blocks[b].next, next = h->blocks[gone].next;
    h->blocks[b].units += h->blocks[gone].units;
    h->blocks[b].next = next;
    if (next)
        h->blocks[next].prev = b;
    else
        h->last = b;
    h->blocks[gone].next = h->spare;
    h->spare = gone;
    h->n_spare++;
}

static stw_heap *make_heap_locked(const stw_allocator *a)
{
    const uint32_t records = 2048;
    stw_heap *h = stwi_map(sizeof *h);
    if (!h)
        return NULL;
    h->blocks = stwi_map(records * sizeof *h->blocks);
    if (!h->blocks || !stwi_space_open(a, &h->space, a->heap_bytes)) {
        stwi_unmap(h->blocks, records * sizeof *h->blocks);
        stwi_unmap(h, sizeof *h);
        return NULL;
    }
    h->cap_blocks = records;
    h->n_blocks = 1;
    return h;
}

/* Where `units` go: into a free block, or at the top, where the last block may be free. */
typedef struct {
    uint32_t block, tail; /* 0: none */
    uint64_t start;
    bool fits;
} spot;

static spot find_spot(const stw_heap *h, uint64_t units)
{
    spot p = {.block = units < STW_SMALL_UNITS ? list_find(h, (uint32_t)units) : 0};
    if (!p.block)
        p.block = tree_find(h, units);
    p.tail = !p.block && h->last && !h->blocks[h->last].used ? h->last : 0;
    p.start = p.block ? h->blocks[p.block].start : p.tail ? h->blocks[p.tail].start : h->top;
    p.fits = units <= (h->space.bytes >> STW_UNIT_SHIFT) - p.start;
    return p;
}

/* Commits what the spot needs, after making room where there is none. Freed blocks that were held back for other
 * streams come first: the spot may then be a better one. */
static __attribute__((noinline)) bool make_ready(stw_allocator *a, stw_stream *s, uint64_t units, spot *p)
{
    stw_heap *h = s->heap;
    if (p->fits && stwi_space_commit_locked(a, &h->space, p->start, units))
        return true;
    if (stwi_limbo_leave_all_locked(a, true)) {
        *p = find_spot(h, units);
        if (p->fits && stwi_space_commit_locked(a, &h->space, p->start, units))
            return true;
    }
    return p->fits && stwi_trim_for_locked(a, &h->space, p->start, units) > 0 && stwi_space_commit_locked(a, &h->space, p->start, units);
}

bool stwi_heap_make_locked(stw_allocator *a, stw_stream *s)
{
    return s->heap || (s->heap = make_heap_locked(a)) != NULL;
}

uint32_t stwi_heap_alloc_locked(stw_allocator *a, stw_stream *s, uint64_t units, bool may_commit)
{
    if (!s->heap && (!may_commit || !stwi_heap_make_locked(a, s)))
        return 0;
    stw_heap *h = s->heap;
    if (!records_ensure(h, 1))
        return 0;
    if (__builtin_expect(h->limbo != 0, 0))
        stwi_limbo_leave_locked(a, s, false);
    spot p = find_spot(h, units);
    if (!(p.fits && stwi_space_ready(a, &h->space, p.start, units)) && (!may_commit || !make_ready(a, s, units, &p)))
        return 0;
    uint32_t b = p.block, tail = p.tail;
    if (b) {
        free_remove(h, b);
        uint32_t rest = h->blocks[b].units - (uint32_t)units;
        if (rest) {
            h->blocks[b].units = (uint32_t)units;
            free_insert(h, block_after(h, b, h->blocks[b].start + (uint32_t)units, rest));
        }
    } else {
        h->top = (uint32_t)(p.start + units);
        if (tail) {
            b = tail;
            free_remove(h, b);
            h->blocks[b].units = (uint32_t)units;
        } else {
            b = block_after(h, h->last, (uint32_t)p.start, (uint32_t)units);
        }
    }
    h->blocks[b].used = 1;
    return b;
}

bool stwi_heap_ensure(stw_heap *h, uint32_t blocks)
{
    while (h->n_spare + (h->cap_blocks - h->n_blocks) < blocks)
        if (!records_ensure(h, h->n_spare + (h->cap_blocks - h->n_blocks) + 1))
            return false;
    return true;
}

uint32_t stwi_heap_carve_locked(stw_heap *h, uint32_t b, uint32_t start, uint32_t units)
{
    while (h->blocks[b].start + h->blocks[b].units <= start)
        b = h->blocks[b].next;
    uint32_t end = h->blocks[b].start + h->blocks[b].units;
    free_remove(h, b);
    if (h->blocks[b].start < start) {
        h->blocks[b].units = start - h->blocks[b].start;
        free_insert(h, b);
        b = block_after(h, b, start, units);
    } else {
        h->blocks[b].units = units;
    }
    if (start + units < end)
        free_insert(h, block_after(h, b, start + units, end - start - units));
    h->blocks[b].used = 1;
    return b;
}

void stwi_heap_free_locked(stw_heap *h, uint32_t b)
{
    uint32_t prev = h->blocks[b].prev, next = h->blocks[b].next;
    if (next && !h->blocks[next].used) {
        free_remove(h, next);
        absorb_next(h, b);
    }
    if (prev && !h->blocks[prev].used) {
        free_remove(h, prev);
        absorb_next(h, prev);
        b = prev;
    }
    free_insert(h, b);
}

void stwi_heap_drop(stw_allocator *a, stw_heap *h)
{
    stwi_space_close(a, &h->space);
    stwi_unmap(h->blocks, h->cap_blocks * sizeof *h->blocks);
    stwi_unmap(h, sizeof *h);
}

/* Counts the free list of `units`; UINT64_MAX where a link, a size or a state is wrong. */
static uint64_t check_list(const stw_heap *h, uint32_t units)
{
    uint64_t n = 0;
    for (uint32_t b = h->head[units], left = 0; b; left = b, b = h->blocks[b].right, n++) {
        const stw_block *k = &h->blocks[b];
        if (b >= h->n_blocks || k->used || k->units != units || k->left != left || n > h->n_blocks)
            return UINT64_MAX;
    }
    return n;
}

const char *stwi_heap_check(const stw_heap *h, uint64_t *used_blocks, uint64_t *used_units)
{
    uint64_t at = 0, n_free = 0, n_listed = 0, n = 0;
    uint32_t first = h->last, prev = 0;
    for (; first && h->blocks[first].prev; first = h->blocks[first].prev)
        if (n++ > h->n_blocks)
            return "a heap's blocks form a ring";
    for (uint32_t b = first; b; prev = b, b = h->blocks[b].next) {
        const stw_block *k = &h->blocks[b];
        if (k->start != at || k->units == 0 || k->prev != prev)
            return "a heap's blocks do not tile its range";
        if (prev && !k->used && !h->blocks[prev].used)
            return "two free blocks of a heap are neighbours";
        at += k->units;
        *used_blocks += k->used;
        *used_units += k->used ? k->units : 0;
        n_free += !k->used;
        if (!k->used && k->units >= STW_SMALL_UNITS) { /* found by its key from the root, in heap order */
            uint32_t which, o = octave(k->units, &which), t = h->root[o][which];
            while (t && t != b) {
                uint32_t child = less(h, b, t) ? h->blocks[t].left : h->blocks[t].right;
                if (child && priority(child) > priority(t))
                    return "a heap's tree is out of order";
                t = child;
            }
            if (!t)
                return "a large free block is not in its heap's tree";
            n_listed++;
        }
    }
    if (prev != h->last || at != h->top || h->top > h->space.bytes >> STW_UNIT_SHIFT)
        return "a heap's top is not the end of its last block";
    for (uint32_t units = 0; units < STW_SMALL_UNITS; units++) {
        uint64_t listed = check_list(h, units);
        if (listed == UINT64_MAX)
            return "a heap's free list is broken";
        bool bit = h->small[units >> 6] >> (units & 63) & 1, word = h->small_words >> (units >> 6) & 1;
        if (bit != (listed > 0) || (bit && !word) || (word && h->small[units >> 6] == 0))
            return "a heap's bitmap of lists is wrong";
        n_listed += listed;
    }
    for (uint32_t o = 0; o < STW_OCTAVES; o++) {
        uint64_t bits = 0;
        for (uint32_t t = 0; t < 64; t++)
            bits |= (uint64_t)(h->root[o][t] != 0) << t;
        if (bits != h->large[o] || (bits != 0) != (h->octaves >> o & 1))
            return "a heap's bitmap of trees is wrong";
    }
    return n_free == n_listed ? NULL : "a heap's free blocks and lists do not agree";
}
