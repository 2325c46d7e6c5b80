/* stw_order.h: what stw_order.c, stw_wait.c and stw_marks.c share. Not installed. */
#ifndef STW_ORDER_H
#define STW_ORDER_H

#include "stw_internal.h"

#pragma GCC visibility push(hidden)

#define STW_ORDERED 256u /* streams (indexes in a->streams) that can be waited for, and wait */
#define STW_EVENTS 16u   /* events kept of each */

typedef struct {
    void *event;
    uint64_t covers; /* all frees up to that number were before it */
    uint64_t asked;  /* requests answered when it was recorded */
} stw_event;

/* A stream whose frees others may have to wait for. */
typedef struct {
    uint64_t *atom; /* by atom: number of its last free there; so are the next two, by word of 64 atoms. NULL: none so far */
    uint64_t *most; /* the largest of the word */
    uint64_t *all;  /* of all atoms of the word at least this */
    uint64_t last;    /* number of its last free */
    uint64_t since;   /* requests answered when the first free came that no event covers */
    uint64_t covered; /* number up to which its newest event covers; 0: there is none */
    uint64_t reached; /* the host has seen its work done up to that number */
    stw_event events[STW_EVENTS]; /* a ring, oldest at first */
    uint32_t first, n;
    bool listed; /* in stw_order.lines */
} stw_line;

/* A stream named by stw_record_stream for a block. The first one of a block also says, once the block
 * is freed, where in its heap it waits. */
typedef struct {
    uint32_t stream, next; /* next mark of the block, or next unused node; 0: none */
    uint32_t block, later; /* first: block of the heap; the first mark of the block freed after it */
    uint64_t number, asked; /* first: of its free; requests answered then */
} stw_node;

struct stw_order {
    uint64_t frees;  /* the number of the last free */
    uint64_t due;    /* requests at which an event should be recorded next */
    uint64_t age;    /* requests after which waiting for an event is thought to cost nothing */
    uint64_t every;  /* requests after which a free should be covered by an event */
    uint32_t n;      /* streams with a line */
    uint32_t lines[STW_ORDERED]; /* their indexes, as they came */
    stw_line line[STW_ORDERED];
    uint64_t *known;  /* known[b * STW_ORDERED + x]: work of b from now on begins after the frees of x up to that number */
    uint64_t *clocks; /* the same for whoever waits for an event: row (x * STW_EVENTS + its place in the ring) */
    uint64_t *dear;   /* bit per atom, scratch */
    stw_table marked; /* address -> its first mark */
    stw_node *nodes;  /* node 0 is nobody */
    uint32_t n_nodes, cap_nodes, spare;
};

/* The line of a stream, made when missing; its atoms too, where asked for. NULL: no memory, or too many streams. */
stw_line *stwi_line(stw_allocator *a, uint32_t stream, bool atoms);
/* Stream b's work from now on begins after x's free of number t. False: there is no way to make sure. */
bool stwi_line_wait(stw_allocator *a, uint32_t b, uint32_t x, uint64_t t);
/* The number of x up to which b may wait as if it cost nothing. */
uint64_t stwi_line_cheap(const stw_allocator *a, uint32_t b, uint32_t x);
/* Whether the host has seen x's work done up to number t. */
bool stwi_line_reached(stw_allocator *a, uint32_t x, uint64_t t);
void stwi_order_due_now(stw_allocator *a);

/* Records the events that are due. */
static inline void stwi_order_due(stw_allocator *a)
{
    if (__builtin_expect(stwi_requests(a) >= a->order->due, 0))
        stwi_order_due_now(a);
}

/* Takes note that stream x has work in the free of number o->frees. */
static inline void stwi_line_note(stw_allocator *a, uint32_t x)
{
    stw_order *o = a->order;
    stw_line *l = &o->line[x];
    if (l->last <= l->covered) {
        l->since = stwi_requests(a);
        if (l->since + o->every < o->due)
            o->due = l->since + o->every;
    }
    l->last = o->frees;
}

static inline uint64_t *stwi_known(const stw_order *o, uint32_t b)
{
    return o->known + (size_t)b * STW_ORDERED;
}

#pragma GCC visibility pop
#endif
