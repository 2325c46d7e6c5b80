/* stw_marks.c: blocks that other streams use, too (stw_record_stream).
 *
 * The marks of a live block are a chain under its address. When it is freed, its end has come on all those
 * streams at once: one number, noted for each.
 *
 * In the arena that is all there is to do: its atoms carry the number of every stream named, and whoever gets them
 * next waits, on the block's own stream as well (stw_order.c).
 *
 * A heap has no numbers for its addresses. A freed block that is marked stays out of its free lists, in limbo:
 *
 *     limbo of a heap, oldest first      | b, 41: S, T | c, 44: S | d, 51: T |
 *
 * It is looked at, from the front, before each request of the heap, as the host sees it: what the events say is done, or what the heap's
 * stream has waited for meanwhile, is free. (Not sooner than needed would be cheaper, and ruinous: with small holes
 * out of sight the large ones are broken. Measured on a recording of 4,000 marked blocks a step: 22 GiB instead of 11.6.) What is AGE requests
 * old is free at the price of a wait that costs little; younger blocks stay, and the heap grows, once. Where it may not grow, everything is
 * waited for, in all heaps. A block keeps those behind it, as long as it waits itself: they are freed in about the order
 * of their frees.
 *
 * A mark that cannot be remembered, for want of memory or because of more than STW_ORDERED streams, pins its
 * block: it is never reused.
 */
#include "stw_order.h"

static uint32_t node_take(stw_order *o)
{
    uint32_t m = o->spare;
    if (m) {
        o->spare = o->nodes[m].next;
        return m;
    }
    if (o->n_nodes == o->cap_nodes) {
        stw_node *grown = stwi_double(o->nodes, &o->cap_nodes, sizeof *o->nodes);
        if (!grown)
            return 0;
        o->nodes = grown;
    }
    return o->n_nodes++;
}

uint32_t stwi_mark_drop(stw_order *o, uint32_t m)
{
    uint32_t next = o->nodes[m].next;
    o->nodes[m].next = o->spare;
    o->spare = m;
    return next;
}

bool stwi_mark_locked(stw_allocator *a, stw_rec *r, const stw_stream *s)
{
    stw_order *o = a->order;
    stw_rec *head = stwi_table_find(&o->marked, r->key);
    for (uint32_t m = r->marked ? head->ref : 0; m; m = o->nodes[m].next)
        if (o->nodes[m].stream == s->index)
            return true;
    uint32_t m = stwi_table_ensure(&o->marked) && stwi_line(a, s->index, r->planned) ? node_take(o) : 0;
    if (!m)
        return false;
    head = stwi_table_find(&o->marked, r->key);
    if (r->marked) { /* after the first, which says more */
        o->nodes[m] = (stw_node){.stream = s->index, .next = o->nodes[head->ref].next};
        o->nodes[head->ref].next = m;
        return true;
    }
    o->nodes[m] = (stw_node){.stream = s->index};
    *head = (stw_rec){.key = r->key, .units = 1, .ref = m};
    o->marked.count++;
    r->marked = r->ordered = 1;
    return true;
}

uint32_t stwi_marks_take(stw_allocator *a, uint64_t key)
{
    stw_rec *head = stwi_table_find(&a->order->marked, key);
    uint32_t m = head->ref;
    stwi_table_remove(&a->order->marked, head);
    return m;
}

void stwi_limbo_enter_locked(stw_allocator *a, const stw_rec *r)
{
    stw_order *o = a->order;
    stw_heap *h = a->streams[r->stream].heap;
    uint32_t first = stwi_marks_take(a, r->key);
    o->frees++;
    for (uint32_t m = first; m; m = o->nodes[m].next)
        stwi_line_note(a, o->nodes[m].stream);
    stw_node *n = &o->nodes[first];
    n->block = r->ref;
    n->later = 0;
    n->number = o->frees;
    n->asked = stwi_requests(a);
    if (h->limbo)
        o->nodes[h->limbo_last].later = first;
    else
        h->limbo = first;
    h->limbo_last = first;
    h->n_limbo++;
    a->stats.deferred++;
}

/* Whether the heap's stream may use the block now, or may from now on, having asked for waits. */
static bool leaves(stw_allocator *a, uint32_t b, uint32_t first, bool wait)
{
    stw_order *o = a->order;
    const uint64_t number = o->nodes[first].number;
    wait |= stwi_requests(a) - o->nodes[first].asked >= o->age;
    for (uint32_t m = first; m; m = o->nodes[m].next) {
        const uint32_t x = o->nodes[m].stream;
        if (b < STW_ORDERED && stwi_known(o, b)[x] >= number)
            continue;
        if (!stwi_line_reached(a, x, number) && (!wait || b >= STW_ORDERED || !stwi_line_wait(a, b, x, number)))
            return false;
    }
    return true;
}

bool stwi_limbo_leave_locked(stw_allocator *a, stw_stream *s, bool wait)
{
    stw_order *o = a->order;
    stw_heap *h = s->heap;
    uint64_t before = h->n_limbo;
    if (before == 0)
        return false;
    stwi_order_due(a);
    while (h->limbo && leaves(a, s->index, h->limbo, wait)) {
        uint32_t m = h->limbo;
        if (o->nodes[m].block & STW_STITCHED)
            stwi_stitch_give_locked(a, o->nodes[m].block);
        else
            stwi_heap_free_locked(h, o->nodes[m].block);
        h->limbo = o->nodes[m].later;
        h->n_limbo--;
        while (m)
            m = stwi_mark_drop(o, m);
    }
    return h->n_limbo < before;
}

bool stwi_limbo_leave_all_locked(stw_allocator *a, bool wait)
{
    bool any = false;
    for (uint32_t i = 0; i < a->n_streams; i++)
        any |= a->streams[i].heap && stwi_limbo_leave_locked(a, &a->streams[i], wait);
    return any;
}

const char *stwi_marks_check(const stw_allocator *a, uint64_t *limbo_blocks, uint64_t *limbo_units)
{
    const stw_order *o = a->order;
    uint64_t nodes = 1, marked = 0;
    for (uint32_t m = o ? o->spare : 0; m; m = o->nodes[m].next)
        nodes++;
    for (const stw_rec *r = NULL; o && (r = stwi_live_next(a, r)) != NULL;) {
        if (!r->marked)
            continue;
        const stw_rec *head = stwi_table_find(&o->marked, r->key);
        if (head->units == 0)
            return "a block is marked and its marks are not found";
        marked++;
        for (uint32_t m = head->ref; m; m = o->nodes[m].next, nodes++)
            if (o->nodes[m].stream >= a->n_streams || o->nodes[m].stream == r->stream)
                return "a mark names no stream, or the block's own";
    }
    for (uint32_t i = 0; i < a->n_streams; i++) {
        const stw_heap *h = a->streams[i].heap;
        uint64_t n = 0, number = 0;
        for (uint32_t f = h ? h->limbo : 0; f; number = o->nodes[f].number, f = o->nodes[f].later, n++) {
            const stw_node *k = &o->nodes[f];
            bool stitched = k->block & STW_STITCHED; /* its pieces are counted there */
            if (k->number < number || (!stitched && (k->block >= h->n_blocks || !h->blocks[k->block].used)))
                return "a heap's limbo is out of order, or holds a block that is free";
            *limbo_units += stitched ? 0 : h->blocks[k->block].units;
            *limbo_blocks += !stitched;
            for (uint32_t m = f; m; m = o->nodes[m].next)
                nodes++;
        }
        if (h && n != h->n_limbo)
            return "a heap's limbo has another length than it says";
    }
    if (o && (nodes != o->n_nodes || marked != o->marked.count))
        return "marks are lost, or belong to nobody";
    return NULL;
}
