/* stw_stitch.h: what stw_stitch.c and stw_pieces.c share. Not installed. */
#ifndef STW_STITCH_H
#define STW_STITCH_H

#include "stw_internal.h"

#pragma GCC visibility push(hidden)

#define STW_RANGES 128u /* at most */

/* Idle granules side by side, or a part of a range. */
typedef struct {
    uint64_t at;       /* address */
    uint32_t granules;
    uint32_t block;    /* of the heap: of a run, the free one; of a piece that is in use, its own. 0: of the arena, or idle */
    uint32_t taken;    /* of a run: granules that a new range takes of it */
} stw_piece;

typedef struct {
    char *base;
    stw_piece *pieces; /* in the order of the range */
    size_t pieces_bytes;
    uint32_t n_pieces, granules;
    uint32_t stream; /* index */
    bool used;
    uint64_t last;   /* stw_stitch.given when it was last given back */
} stw_stitched;

struct stw_stitch {
    uint64_t limit_bytes;
    uint64_t given; /* times that a range was given back */
    uint32_t n; /* ranges, of them some are none: base NULL */
    stw_stitched ranges[STW_RANGES];
    stw_piece *runs; /* of the arena, then of the heap, each by address */
    uint32_t n_arena, n_runs, cap_runs;
};

/* Notes the granules that are idle: of the stream's part of the arena, apart from the atoms in needed; of the heap, after those. */
void stwi_collect_arena(const stw_allocator *a, const stw_plan_stream *s, const uint64_t *needed);
void stwi_collect_heap(const stw_allocator *a, const stw_heap *h);
/* The run in which a piece lies; NULL: not all of it is idle. */
const stw_piece *stwi_run_of(const stw_allocator *a, const stw_piece *p);
/* The atoms that a piece of the arena touches, from *after on: the piece before it may have taken the first. */
void stwi_atoms_of(const stw_allocator *a, const stw_piece *p, uint32_t *after, uint32_t *begin, uint32_t *end);
/* Takes the pieces of the range, which are idle, out of heap and arena. False: nothing changed. */
bool stwi_take_pieces(stw_allocator *a, stw_stitched *r);
/* Makes holes of the first n pieces again. */
void stwi_give_pieces(stw_allocator *a, stw_stitched *r, uint32_t n);

#pragma GCC visibility pop
#endif
