/* stw_proportion.c: sizes that are not the plan's, and whether the plan's places are for them.
 *
 * Where the length of sequences varies, or the batch, all sizes of a step that depend on the number of tokens grow or shrink by one
 * factor, and the other ones stay. So a smaller request gets the slot of its entry if the same factor has just been seen with two other
 * sizes, and the entry of the next one is looked for with that factor. A stranger that passes for the entry, because it comes in its place, does not come with the same factor twice; and what
 * it would hold, it might hold for ever.
 */
#include "stw_internal.h"

#define SIZES 2u            /* large ones, no two in a row the same, that a factor must have been seen with */
#define WITHIN 16u          /* requests, dynamic ones not counted, from one to the next */
#define BELOW (UINT64_C(1) << 31) /* units; larger sizes are not compared: their products would overflow */

static bool continues(const stw_matcher *m, const stw_factor *x, uint64_t got, uint64_t had)
{
    const uint64_t here = got * x->had, there = x->got * had, apart = here > there ? here - there : there - here;
    return x->sizes != 0 && m->fixed - x->at <= WITHIN && apart <= had + x->had;
}

bool stwi_expects(const stw_matcher *m, uint64_t got, uint64_t had)
{
    if (got >= had || had >= BELOW)
        return false;
    for (uint32_t i = 0; i < STW_FACTORS; i++)
        if (m->factors[i].sizes >= SIZES && continues(m, &m->factors[i], got, had))
            return true;
    return false;
}

bool stwi_proportional(stw_matcher *m, uint64_t got, uint64_t had)
{
    if (got >= BELOW || had >= BELOW)
        return false;
    const bool large = had > STW_COMMON_UNITS;
    stw_factor *f = m->factors, x = {got, had, had, m->fixed, 1};
    uint32_t i = 0;
    bool known = false;
    while (i < STW_FACTORS && !continues(m, &f[i], got, had))
        i++;
    if (i < STW_FACTORS) {
        x = f[i];
        known = x.sizes >= SIZES;
        x.at = m->fixed;
        if (large && had != x.last) {
            x.sizes++;
            x.last = had;
        }
        if (had > x.had) {
            x.got = got;
            x.had = had;
        }
    } else if (large) {
        i = STW_FACTORS - 1; /* the one seen least lately goes */
    } else {
        return false;
    }
    for (; i > 0; i--)
        f[i] = f[i - 1];
    f[0] = x;
    return known;
}
