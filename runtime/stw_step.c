/* stw_step.c: in step with the plan.
 *
 * Nearly every request is the one that the plan expects, and nearly every expected one needs the same few things done: its bits set, its
 * record written, the position moved. All that is known when the plan and the handle of the stream are, so it is worked out then, and
 * put into one cache line for each entry, the step. The hot path (stw_step.h) compares the request with the step that is next, and
 * does what it says.
 *
 * A step is armed when somebody has its stream; one whose entry has no place, or is the last, never is, and is never taken. While the
 * position is not certain, or streams have to be ordered, a->next points to one that is not armed either. What a step says of a request with more to do,
 * of a wide range, or streams to be ordered, stw.c does outside the hot path, without asking the matcher again. Where memory is to be committed
 * it does ask: what moves for it depends on the position.
 *
 * Nothing is counted. A run of steps, from `from` up to `here`, says by itself how many hits there were, how often the matcher's average rose, and
 * which entry came last; and `room`, by which live bytes are below their peak, says what lives. So whoever looks at these, or moves the
 * position, first settles, and aims again (stwi_enter, stwi_leave).
 *
 * Who looks for free atoms (stw_idle.c) has to know in which words of the occupancy some came free. A free leaves its word
 * in a ring, one store; what the ring has lost may be anywhere. What was taken is known by the run of steps, and told when that is settled.
 */
#include "stw_step.h"

enum { STW_TOLD = 16 }; /* takes in step that are told one by one */

const stw_step stwi_nowhere = {.end = UINT64_MAX};

bool stwi_steps_make(stw_allocator *a)
{
    const stw_matcher *m = &a->match;
    a->next = &stwi_nowhere;
    a->steps_bytes = ((size_t)m->n + 1) * sizeof *a->steps;
    if ((a->steps = stwi_map(a->steps_bytes)) == NULL)
        return false;
    for (uint32_t i = 0; i < m->n; i++)
        a->steps[i] = stwi_nowhere;
    stwi_aim_locked(a);
    return true;
}

void stwi_steps_arm_locked(stw_allocator *a, const stw_stream *s)
{
    const stw_matcher *m = &a->match;
    for (uint32_t i = 0; i + 1 < m->n; i++) { /* the last one ends a lap */
        const stw_slot *slot = &a->slots[a->entries[i].slot];
        if (slot->stream != s->plan || !(slot->flags & STW_SLOT_PLANNED))
            continue;
        a->steps[i] = (stw_step){.place = &a->in_arena.recs[slot->place], .handle = s->handle,
                                 .end = (uint64_t)slot->lo + slot->hi, .life_nf = a->entries[i].life_nf};
        stwi_slot_rec(&a->steps[i].rec, a, slot, slot->hi, s, m->fates[i]);
        a->steps[i].least = slot->atoms == 0 ? INT32_MAX : slot->hi <= STW_COMMON_UNITS;
    }
}

void stwi_aim_locked(stw_allocator *a)
{
    stw_matcher *m = &a->match;
    const bool sure = m->mode == STW_SYNC && m->len == 1 && m->doubt == 0 && m->n > 0 && a->aside == 0;
    m->here = m->from = sure ? m->first : STW_NO_ENTRY;
    a->next = a->order ? &stwi_nowhere : stwi_expected(a);
}

/* Tells a->idle what the last n steps took. */
static inline void takes_tell(stw_allocator *a, uint32_t n)
{
    if (n > STW_TOLD)
        stwi_idle_unknown(&a->idle);
    else
        for (const stw_step *s = &a->steps[a->match.from]; n > 0; n--, s++) {
            uint32_t begin, end;
            stwi_arena_atoms(&s->rec, &begin, &end);
            stwi_idle_taken(&a->idle, begin, end);
        }
}

void stwi_settle_locked(stw_allocator *a)
{
    stw_matcher *m = &a->match;
    uint32_t n = m->here - m->from;
    a->stats.frees = m->frees;
    a->stats.live_bytes = a->stats.peak_live_bytes - (a->room << STW_UNIT_SHIFT);
    if (n == 0)
        return;
    takes_tell(a, n);
    a->stats.hits += n;
    a->answered += n;
    m->inner += m->inners[m->here] - m->inners[m->from];
    m->last = m->here > m->wrap ? m->here - 1 : m->last;
    for (; n > 0 && STW_WHOLE - m->average >= 64; n--)
        m->average += (STW_WHOLE - m->average) / 64;
    m->from = m->first = m->here;
}

void stwi_frees_tell_locked(stw_allocator *a)
{
    const uint64_t frees = a->match.frees;
    if (frees - a->told_frees > STW_FREED) {
        stwi_idle_forget(&a->idle);
        a->told_frees = frees;
    }
    for (; a->told_frees < frees; a->told_frees++) {
        const uint32_t w = a->freed[a->told_frees % STW_FREED];
        if (w != STW_NO_WORD)
            stwi_idle_more(&a->idle, w);
    }
}
