/* stw_alike.c: look-alikes. An optional stretch may begin like what comes behind it:
 *
 *      entries    a b x | a b c        x is expected: a and b of the stretch were asked for
 *      requests   a b     c            or, as likely, those behind it: then c is
 *
 * In step the next entry is the answer, and the requests were taken for the stretch's. Where what is asked for next is not what is expected,
 * the entry behind the stretch of which what came before says the same is expected, too.
 */
#include "stw_internal.h"

/* Whether one request could be either of two entries. */
static bool alike(const stw_allocator *a, uint32_t p, uint32_t q)
{
    const stw_plan_entry x = a->entries[p], y = a->entries[q];
    const stw_slot *s = &a->slots[x.slot], *t = &a->slots[y.slot];
    return s->stream == t->stream && stwi_least(s) <= t->hi && stwi_least(t) <= s->hi && (x.life_nf >> 28 & 3) <= y.life_nf >> 30 &&
           (y.life_nf >> 28 & 3) <= x.life_nf >> 30;
}

static bool optional(const stw_allocator *a, uint32_t p)
{
    return (a->slots[a->entries[p].slot].flags & STW_SLOT_OPTIONAL) != 0;
}

void stwi_match_alike(stw_allocator *a)
{
    stw_matcher *m = &a->match;
    const uint32_t p = m->first, begin = p < m->wrap ? 0 : m->wrap, end = p < m->wrap ? m->wrap : m->n;
    uint32_t s = p, t = p;
    while (s > begin && p - s <= STW_AHEAD && optional(a, s - 1))
        s--;
    if (s == p)
        return;
    while (t < end && t - s <= STW_AHEAD && optional(a, t))
        t++;
    if (t - s > STW_AHEAD || end - t <= p - s)
        return;
    for (uint32_t k = 0; k < p - s; k++)
        if (!alike(a, s + k, t + k))
            return;
    for (uint32_t i = 1; i < t - s; i++)
        m->stay[i] = STW_NONE_SCORE;
    m->stay[t - s] = -STW_OPEN_OPTIONAL - STW_SKIP_OPTIONAL * (int32_t)(t - s);
    m->len = t - s + 1;
}
