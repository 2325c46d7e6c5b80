/* stw_points.c: marks, by which the program says where it is. Where the process has them, they settle the position; a phase that begins where
 * what repeats ends (stw_repeat.c) says that it is over, or comes again.
 */
#include "stw_internal.h"

/* The entry of the mark to jump to, or STW_NO_ENTRY: the nearest of its kind, ahead before behind,
 * but for an iteration of the prologue, which goes by its number. Marks are rare: a linear look is
 * enough. */
static uint32_t find_mark(const stw_allocator *a, uint32_t kind, int64_t value, uint64_t name)
{
    const stw_matcher *m = &a->match;
    const uint32_t p = stwi_path_position(m, m->best), far = kind == STW_MARK_ITERATION ? m->n : STW_AHEAD;
    uint32_t found = STW_NO_ENTRY, least = UINT32_MAX;
    for (uint32_t i = 0; i < a->plan.n_marks; i++) {
        const stw_plan_mark *k = &a->plan.marks[i];
        const uint32_t e = stwi_wrapped(m, k->entry);
        if (k->kind != kind || (kind == STW_MARK_PHASE && k->name != name))
            continue;
        if (kind == STW_MARK_ITERATION) {
            bool once = k->entry < a->plan.loop_start; /* marks are ordered: these come first */
            if (once ? k->value == value : m->mode != STW_SYNC)
                return e;
            if (once)
                continue;
        }
        uint32_t ahead = e >= p ? e - p : e >= m->wrap ? m->n - p + (e - m->wrap) : UINT32_MAX;
        uint32_t back = e < p ? p - e : UINT32_MAX;
        uint32_t d = ahead <= far ? 2 * ahead : UINT32_MAX;
        if (back <= STW_BACK && 2 * back + 1 < d)
            d = 2 * back + 1;
        if (d < least) {
            least = d;
            found = e;
        }
    }
    return found;
}

/* Whether the phase called name begins at entry e. */
static bool begins_phase(const stw_allocator *a, uint32_t e, uint64_t name)
{
    const stw_matcher *m = &a->match;
    for (uint32_t i = 0; i < a->plan.n_marks; i++) {
        const stw_plan_mark *k = &a->plan.marks[i];
        if (k->kind == STW_MARK_PHASE && k->name == name && stwi_wrapped(m, k->entry) == e)
            return true;
    }
    return false;
}

/* The entry of the phase called name where what repeats may be over here, or come again; STW_NO_ENTRY: none, or it begins right here. */
static uint32_t find_turn(const stw_allocator *a, uint64_t name)
{
    const stw_matcher *m = &a->match;
    const uint32_t here = stwi_path_position(m, m->best);
    uint32_t next = 0, e;
    do
        e = stwi_match_turn(m, here, &next);
    while (e != STW_NO_ENTRY && !begins_phase(a, e, name));
    return e == STW_NO_ENTRY || begins_phase(a, here, name) ? STW_NO_ENTRY : e;
}

void stwi_match_mark_locked(stw_allocator *a, uint32_t kind, int64_t value, uint64_t name)
{
    stw_matcher *m = &a->match;
    if (m->n == 0 || (kind == STW_MARK_PHASE && m->mode != STW_SYNC))
        return;
    const uint32_t turned = kind == STW_MARK_PHASE ? find_turn(a, name) : STW_NO_ENTRY, here = stwi_path_position(m, m->best);
    const uint32_t e = turned != STW_NO_ENTRY ? turned : find_mark(a, kind, value, name);
    if (e == STW_NO_ENTRY)
        return;
    stwi_match_look(m); /* the frees so far spoke of where we were; or of where it turned */
    for (uint32_t i = 0; turned != STW_NO_ENTRY && i < m->n_votes; i++)
        if (m->votes[i] == here)
            m->votes[i] = e;
    a->stats.resyncs += m->mode != STW_SYNC || here != e;
    stwi_match_settle(m, e);
}
