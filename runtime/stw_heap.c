/* stw_heap.c: best fit in one growing range (MATCHER.md, "The heap"; best fit and boundary-tag
 * merging as in Knuth 2.5, with the tags out of band).
 *
 *     units 0                                             top                  limit
 *           | used | free | used |    used    |   free     |                   |
 *           `-------- blocks tile it, linked in address order ---------'  grows only
 *
 * Which of it is committed is the business of stw_pages.c.
 *
 * Free blocks are kept by size (stw_bins.c). Most requests find one of their very size, and are answered before anything else is asked.
 */
#include "stw_bins.h"
#include "stw_internal.h"

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

/* Links a block, of [start, start + units), used, after `prev` in address order. */
static uint32_t block_after(stw_heap *h, uint32_t prev, uint32_t start, uint32_t units)
{
    uint32_t b = record_take(h), next = prev ? h->blocks[prev].next : 0;
    h->blocks[b] = (stw_block){.start = start, .units = units, .prev = prev, .next = next, .used = 1};
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
    if (!h->blocks || !stwi_lowest_open(&h->lowest, a->heap_bytes >> STW_UNIT_SHIFT) || !stwi_space_open(a, &h->space, a->heap_bytes)) {
        stwi_lowest_close(&h->lowest);
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

static inline spot find_spot(const stw_heap *h, uint64_t units)
{
    spot p = {.block = stwi_free_find(h, units)};
    p.tail = !p.block && h->last && !h->blocks[h->last].used ? h->last : 0;
    p.start = p.block ? h->blocks[p.block].start : p.tail ? h->blocks[p.tail].start : h->top;
    p.fits = units <= (h->space.bytes >> STW_UNIT_SHIFT) - p.start;
    return p;
}

/* Commits what the spot needs; where that fails, the smallest block that needs nothing, the lowest of these, is a spot, too. */
static bool commit_spot(stw_allocator *a, stw_heap *h, uint64_t units, spot *p)
{
    if (p->fits && stwi_space_commit_locked(a, &h->space, p->start, units))
        return true;
    uint32_t best = 0;
    for (uint32_t b = p->block ? h->last : 0; b; b = h->blocks[b].prev) {
        const stw_block *k = &h->blocks[b];
        if (!k->used && k->units >= units && (!best || k->units <= h->blocks[best].units) && stwi_space_ready(a, &h->space, k->start, units))
            best = b;
    }
    if (best)
        *p = (spot){.block = best, .start = h->blocks[best].start, .fits = true};
    return best != 0;
}

/* Commits what the spot needs, after making room where there is none. Freed blocks that were held back for other
 * streams come first: the spot may then be a better one. */
static __attribute__((noinline)) bool make_ready(stw_allocator *a, stw_stream *s, uint64_t units, spot *p)
{
    stw_heap *h = s->heap;
    if (commit_spot(a, h, units, p))
        return true;
    if (stwi_limbo_leave_all_locked(a, true)) {
        *p = find_spot(h, units);
        if (commit_spot(a, h, units, p))
            return true;
    }
    return p->fits && stwi_make_room_locked(a, &h->space, p->start, units);
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
    if (__builtin_expect(units < STW_LARGE_UNITS && h->limbo == 0, 1)) { /* most: there is one of its very size */
        const uint32_t b = h->first[units];
        if (b && stwi_space_ready(a, &h->space, h->blocks[b].start, units)) {
            stwi_free_remove(h, b);
            return b;
        }
    }
    if (!records_ensure(h, 1))
        return 0;
    if (__builtin_expect(h->limbo != 0, 0))
        stwi_limbo_leave_locked(a, s, false);
    spot p = find_spot(h, units);
    if (!(p.fits && stwi_space_ready(a, &h->space, p.start, units)) && (!may_commit || !make_ready(a, s, units, &p)))
        return 0;
    uint32_t b = p.block, tail = p.tail;
    if (b) {
        stwi_free_remove(h, b);
        uint32_t rest = h->blocks[b].units - (uint32_t)units;
        if (rest) {
            h->blocks[b].units = (uint32_t)units;
            stwi_free_insert(h, block_after(h, b, h->blocks[b].start + (uint32_t)units, rest));
        }
    } else {
        h->top = (uint32_t)(p.start + units);
        if (tail) {
            b = tail;
            stwi_free_remove(h, b);
            h->blocks[b].units = (uint32_t)units;
        } else {
            b = block_after(h, h->last, (uint32_t)p.start, (uint32_t)units);
        }
    }
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
    stwi_free_remove(h, b);
    if (h->blocks[b].start < start) {
        h->blocks[b].units = start - h->blocks[b].start;
        stwi_free_insert(h, b);
        b = block_after(h, b, start, units);
    } else {
        h->blocks[b].units = units;
    }
    if (start + units < end)
        stwi_free_insert(h, block_after(h, b, start + units, end - start - units));
    return b;
}

void stwi_heap_free_locked(stw_heap *h, uint32_t b)
{
    uint32_t prev = h->blocks[b].prev, next = h->blocks[b].next;
    if (next && !h->blocks[next].used) {
        stwi_free_remove(h, next);
        absorb_next(h, b);
    }
    if (prev && !h->blocks[prev].used) {
        stwi_free_remove(h, prev);
        absorb_next(h, prev);
        b = prev;
    }
    stwi_free_insert(h, b);
}

void stwi_heap_drop(stw_allocator *a, stw_heap *h)
{
    stwi_space_close(a, &h->space);
    stwi_lowest_close(&h->lowest);
    stwi_unmap(h->blocks, h->cap_blocks * sizeof *h->blocks);
    stwi_unmap(h, sizeof *h);
}

const char *stwi_heap_check(const stw_heap *h, uint64_t *used_blocks, uint64_t *used_units)
{
    uint64_t at = 0, n_free = 0, n_large = 0, n_lowest = 0, n = 0;
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
        if (!k->used && k->units >= STW_SMALL_UNITS) {
            if (!stwi_bin_has(h, b))
                return "a free block is not among those of its size";
            n_large++;
            n_lowest += k->units < STW_LARGE_UNITS && k->up;
        }
    }
    if (prev != h->last || at != h->top || h->top > h->space.bytes >> STW_UNIT_SHIFT)
        return "a heap's top is not the end of its last block";
    if (!stwi_lowest_check(&h->lowest, h->top, n_lowest))
        return "what a heap knows of the lowest free blocks is wrong";
    uint64_t listed = 0;
    const char *wrong = stwi_bins_check(h, &listed);
    if (wrong)
        return wrong;
    return n_free == n_large + listed ? NULL : "a heap's free blocks and bins do not agree";
}
