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
    uint64_t end;    /* units of the arena up to where it reaches; UINT64_MAX: it is not armed, whatever else it says */
    int32_t least;   /* frees that vote for it with which it needs no other look: 1 where its size is common, INT32_MAX where it is wide */
    uint32_t life_nf; /* of the entry */
};

static_assert(sizeof(struct stw_step) == 64, "step");

extern const stw_step stwi_nowhere; /* not armed */

/* The step of the request expected, or one that fits none: what a->next is where streams need no order. */
static inline const stw_step *stwi_expected(const stw_allocator *a)
{
    return a->match.here != STW_NO_ENTRY ? &a->steps[a->match.here] : &stwi_nowhere;
}

/* Whether a request is the one that the step is for, if it is armed. */
static inline bool stwi_step_fits(const stw_step *s, uint64_t units, uint64_t handle)
{
    return __builtin_expect(s->rec.units == units && s->handle == handle, 1);
}

/* Whether the frees before it do not speak against it, where too few speak for it. */
static inline bool stwi_step_heard(const stw_matcher *m, const stw_step *s)
{
    const uint32_t n = (uint32_t)m->frees - m->heard, nf = n < 3 ? n : 3;
    return m->agree > 0 || (m->agree == 0 && (s->rec.units > STW_COMMON_UNITS || (nf >= (s->life_nf >> 28 & 3) && nf <= s->life_nf >> 30)));
}

/* The expected step's atoms are taken: the rest of it, but for a->next. What malloc_locked does is done, but for what stwi_settle_locked makes up for. */
static inline void *stwi_step_done(stw_allocator *a, const stw_step *s)
{
    stw_matcher *m = &a->match;
    *s->place = s->rec;
    __builtin_prefetch(s[1].place, 1); /* the next one's; those of a plan lie far apart */
    m->here++;
    m->heard = (uint32_t)m->frees;
    m->agree = 0;
    stwi_live_more(a, s->rec.units);
    return (void *)(uintptr_t)s->rec.key;
}

#pragma GCC visibility pop
#endif
