/* stw_proportion.c: sizes that are not the plan's, and whether the plan's places are for them.
 *
 * Where the length of sequences varies, or the batch, all sizes of a step that depend on the number of tokens grow or shrink by one
 * factor, and the other ones stay. So a smaller request gets the slot of its entry if the same factor has just been seen with two other
 * sizes. A stranger that passes for the entry, because it comes in its place, does not come with the same factor twice; and what
 * it would hold, it might hold for ever.
 */
#include "stw_internal.h"

#define SIZES 2u            /* large ones, no two in a row the same, that a factor must have been seen with */
#define WITHIN 16u          /* requests from one to the next */
#define BELOW (UINT64_C(1) << 31) /* units; larger sizes are not compared: their products would overflow */

bool stwi_proportional(stw_factor f[STW_FACTORS], uint64_t got, uint64_t had, uint64_t now)
{
    if (got >= BELOW || had >= BELOW)
        return false;
    const bool large = had > STW_COMMON_UNITS;
    stw_factor x = {got, had, had, now, 1};
    uint32_t i = 0;
    bool known = false;
    for (; i < STW_FACTORS; i++) {
        const uint64_t here = got * f[i].had, there = f[i].got * had, apart = here > there ? here - there : there - here;
        if (f[i].sizes != 0 && now - f[i].at <= WITHIN && apart <= had + f[i].had)
            break;
    }
    if (i < STW_FACTORS) {
        x = f[i];
        known = x.sizes >= SIZES;
        x.at = now;
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
