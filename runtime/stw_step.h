/* stw_step.h: the plan once more, as the hot path wants it (stw_step.c). Not installed. */
#ifndef STW_STEP_H
#define STW_STEP_H

#include "stw_internal.h"

#pragma GCC visibility push(hidden)

/* What there is to do for the request of an entry, if it comes as the plan says: all of it, in one cache line. */
struct stw_step {
    stw_rec rec;     /* what its record becomes */
    stw_rec *place;  /* and where that is */
    uint64_t handle; /* of its stream */
    uint64_t end;    /* units of the arena up to where it reaches; UINT64_MAX: there is more to do, whatever is asked for */
    int32_t least;   /* frees that vote for it with which it needs no other look: 1 where its size is common, INT32_MAX where it is wide */
    uint32_t life_nf; /* of the entry */
};

static_assert(sizeof(struct stw_step) == 64, "step");

/* Whether a request is the one that the next step is for, its memory committed. */
static inline bool stwi_step_fits(const stw_allocator *a, uint64_t units, uint64_t handle)
{
    const stw_step *s = a->next;
    return __builtin_expect(s->rec.units == units && s->handle == handle && s->end <= a->arena.solid, 1);
}

/* Whether the frees before it do not speak against it, where too few speak for it. */
static inline bool stwi_step_heard(const stw_matcher *m, const stw_step *s)
{
    const uint32_t n = (uint32_t)m->frees - m->heard, nf = n < 3 ? n : 3;
    return m->agree > 0 || (m->agree == 0 && (s->rec.units > STW_COMMON_UNITS || (nf >= (s->life_nf >> 28 & 3) && nf <= s->life_nf >> 30)));
}

/* The next step's atoms are taken: the rest of it. What malloc_locked does is done, but for what stwi_settle_locked makes up for. */
static inline void *stwi_step_done(stw_allocator *a, const stw_step *s)
{
    stw_matcher *m = &a->match;
    *s->place = s->rec;
    a->next = s + 1;
    m->here++;
    m->heard = (uint32_t)m->frees;
    m->agree = 0;
    stwi_live_more(a, s->rec.units);
    return (void *)(uintptr_t)s->rec.key;
}

/* A live allocation of the arena that is nobody else's concern is freed: all but its atoms. Answers whether that is all: if not,
 * stwi_match_vote comes next. */
static inline bool stwi_step_undone(stw_allocator *a, stw_rec *r)
{
    stwi_live_less(a, r->units);
    r->units = 0;
    return stwi_match_freed(&a->match, r->fate);
}

#pragma GCC visibility pop
#endif
