/* stw_match.c: where in the plan are we? MATCHER.md is the specification; this is how it is done.
 *
 * The state is a set of hypotheses "the entry expected next is p", each with a score, 0 for the
 * best. Usually there is exactly one and the request fits it (the fast path, in stw_serve.c).
 * Else one column of a banded alignment with affine gaps (Gotoh 1982, on-line: a request is a
 * column, entries are the rows) moves every hypothesis:
 *
 *       entries                 old          new
 *          |   path 0           stay --extra--> .       the request is not in the plan
 *          |                      \ \
 *          |   path 1              \  match---> .       it is the entry expected
 *          |                    gap \
 *          v   path 2..                match--> .       it is a later one: skipped entries are
 *                                                       not requested this time
 *
 * Scores live in an array along the path of successors, updated in place, front to back.
 *
 * Short columns. The best hypothesis always survives as an extra request, so the best new score is
 * at least -1500, and at least what the column has found so far. What ends 14000 below that will be
 * dropped, and a match adds 14000 at most: what arrives lower than both together cannot matter and
 * is forgotten at once. That ends most columns after some thirty entries instead of seven hundred,
 * with exactly the same result.
 */
#include "stw_internal.h"

#include <string.h>

#define EXTRA 1500
#define DROP 14000
#define BEST_SCORE (5000 + 3 * STW_VOTE_FOR)
#define SEARCH_COLUMNS 16u
#define SEARCH_RUN 4u
#define LOST_BELOW 600000
#define STEADY 4u

typedef struct {
    int32_t score;
    uint32_t index;   /* along the path */
    uint32_t entry;   /* by which it was reached; STW_NO_ENTRY: as an extra request */
    uint32_t from;    /* path index of that entry */
    int32_t own;      /* that entry's own score for the request */
    bool skipped;     /* entries were skipped to reach it */
} outcome;

/* Where a column runs: the path from `first`, at most `limit` positions; what follows the last of
 * them is path index `after`. */
typedef struct {
    uint32_t first, limit, after;
} path;

static int32_t max32(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

static int32_t floor32(int32_t v, int32_t floor)
{
    return v < floor ? STW_NONE_SCORE : v;
}

/* Puts the match `m` where index i may hold the score of an extra request: a match wins ties. */
static void put_match(int32_t *stay, uint32_t i, const outcome *m, outcome *best)
{
    if (m->score < stay[i])
        return;
    stay[i] = m->score;
    if (m->score > best->score || (m->score == best->score && i <= best->index)) {
        *best = *m;
        best->index = i;
    }
}

/* One column, in place: stay[0 .. len) becomes stay[0 .. returned). stay has room for limit + 1. */
static uint32_t column(const stw_allocator *a, int32_t *stay, uint32_t len, path q, uint64_t units,
                       uint16_t stream, outcome *best)
{
    const stw_matcher *m = &a->match;
    int32_t gap_optional = STW_NONE_SCORE, gap_any = STW_NONE_SCORE;
    outcome match = {.score = STW_NONE_SCORE, .entry = STW_NO_ENTRY};
    *best = match;
    uint32_t i = 0;
    for (uint32_t p = q.first; i < q.limit; i++, p = stwi_succ(m, p)) {
        int32_t gap = max32(gap_optional, gap_any), old = i < len ? stay[i] : STW_NONE_SCORE;
        if (i >= len) {
            if (gap == STW_NONE_SCORE)
                break;
            stay[i] = STW_NONE_SCORE;
        } else if (old != STW_NONE_SCORE) {
            stay[i] = old - EXTRA;
            if (stay[i] > best->score)
                *best = (outcome){.score = stay[i], .index = i, .entry = STW_NO_ENTRY};
        }
        if (match.score != STW_NONE_SCORE)
            put_match(stay, i, &match, best);

        const stw_plan_entry e = a->entries[p];
        const stw_slot *s = &a->slots[e.slot];
        const int32_t floor = max32(best->score, -EXTRA) - DROP - BEST_SCORE, arrive = max32(old, gap);
        match.score = STW_NONE_SCORE;
        if (arrive >= floor && s->stream == stream) {
            int32_t own = stwi_score(m, p, s, e.life_nf, units);
            match = (outcome){arrive + own, 0, p, i, own, gap > old};
        }

        bool optional = (s->flags & STW_SLOT_OPTIONAL) != 0;
        gap_optional = optional ? floor32(max32(gap_optional, old - STW_OPEN_OPTIONAL) - STW_SKIP_OPTIONAL, floor) : STW_NONE_SCORE;
        gap_any = floor32(max32(gap_any, old - 8000) - (optional ? STW_SKIP_OPTIONAL : 200), floor);
    }
    uint32_t end = i;
    if (match.score != STW_NONE_SCORE) {
        uint32_t to = i < q.limit ? i : q.after;
        if (to >= end) {
            stay[to] = STW_NONE_SCORE;
            end = to + 1;
        }
        put_match(stay, to, &match, best);
    }
    return end;
}

/* Makes the best score 0 and drops what is far below it. */
static void normalise(int32_t *stay, uint32_t len, int32_t best)
{
    for (uint32_t i = 0; i < len; i++)
        stay[i] = stay[i] < best - DROP ? STW_NONE_SCORE : stay[i] - best;
}

void stwi_match_settle(stw_matcher *m, uint32_t p)
{
    m->mode = STW_SYNC;
    m->average = STW_WHOLE;
    m->steady = m->doubt = 0;
    m->first = p;
    m->len = 1;
    m->best = 0;
    m->stay[0] = 0;
}

static void get_lost(stw_matcher *m)
{
    m->mode = STW_LOST;
    m->len = 0;
}

static uint32_t sync_column(stw_allocator *a, uint64_t units, uint16_t stream)
{
    stw_matcher *m = &a->match;
    uint32_t whole = m->n - (m->first < m->wrap ? m->first : m->wrap); /* positions before one repeats */
    path q = {m->first, m->best + STW_AHEAD + 1, m->best + STW_AHEAD + 1};
    if (q.limit >= whole) {
        q.limit = whole;
        q.after = m->first < m->wrap ? m->wrap - m->first : 0;
    }
    outcome best;
    uint32_t len = column(a, m->stay, m->len, q, units, stream, &best);
    normalise(m->stay, len, best.score);
    bool hit = best.entry != STW_NO_ENTRY, expected = hit && best.from == m->best && !best.skipped;
    m->steady = expected && best.own > STW_SURE_SCORE ? m->steady + 1 : 0;

    uint32_t begin = best.index > STW_BACK ? best.index - STW_BACK : 0;
    uint32_t end = len - best.index > STW_AHEAD ? best.index + STW_AHEAD + 1 : len;
    if (m->steady == STEADY) {
        m->steady = 0;
        begin = best.index;
        end = begin + 1;
    }
    while (m->stay[begin] == STW_NONE_SCORE)
        begin++;
    while (m->stay[end - 1] == STW_NONE_SCORE)
        end--;
    m->first = stwi_path_position(m, begin);
    m->len = end - begin;
    m->best = best.index - begin;
    for (uint32_t i = 0; begin > 0 && i < m->len; i++)
        m->stay[i] = m->stay[begin + i];

    if (stwi_path_position(m, m->best) >= m->wrap)
        m->doubt = 0;
    else if (!expected || best.own < 0)
        m->doubt = STW_DOUBT;
    else
        m->doubt -= m->doubt > 0;

    a->stats.slow++;
    a->stats.resyncs += hit && best.skipped;
    m->average += ((hit && best.own >= STW_VOUCHES ? STW_WHOLE : 0) - m->average) / 64;
    if (m->average < LOST_BELOW)
        get_lost(m);
    return best.entry;
}

static uint32_t search_column(stw_allocator *a, uint64_t units, uint16_t stream)
{
    stw_matcher *m = &a->match;
    outcome best;
    column(a, m->all, m->n, (path){0, m->n, m->wrap}, units, stream, &best);
    normalise(m->all, m->n, best.score);
    a->stats.slow++;
    m->columns++;
    m->run = best.entry != STW_NO_ENTRY && best.own >= 0 ? m->run + 1 : 0;
    if (m->run >= SEARCH_RUN) {
        stwi_match_settle(m, best.index);
        return best.entry;
    }
    if (m->columns == SEARCH_COLUMNS)
        get_lost(m);
    return STW_NO_ENTRY;
}

/* Begins a search, if the last one is long enough ago for what it costs. */
static void may_search(stw_allocator *a)
{
    stw_matcher *m = &a->match;
    uint64_t now = stwi_requests(a) + 1, apart = m->n / 16 > 64 ? m->n / 16 : 64;
    if (m->search_began != 0 && now - m->search_began < apart)
        return;
    m->mode = STW_SEARCH;
    m->search_began = now;
    m->columns = m->run = 0;
    a->stats.restarts++;
    for (uint32_t i = 0; i < m->n; i++)
        m->all[i] = 0;
}

/* An iteration begins anew: nothing of the last one is alive, and this is what one begins with. After
 * an exception, an evaluation, another model's step. */
static bool begins_anew(const stw_allocator *a, uint64_t units, uint16_t stream)
{
    const stw_matcher *m = &a->match;
    if (m->last == STW_NO_ENTRY || m->inner > 0 || m->anchor == STW_NO_ENTRY)
        return false;
    const stw_slot *s = &a->slots[a->entries[m->anchor].slot];
    return s->stream == stream && s->hi == units;
}

uint32_t stwi_match_slow_locked(stw_allocator *a, uint64_t units, uint16_t stream)
{
    stw_matcher *m = &a->match;
    uint32_t answer = STW_NO_ENTRY;
    if (begins_anew(a, units, stream)) {
        uint32_t next = stwi_succ(m, m->last);
        answer = m->anchor + (next - m->wrap) / m->copy * m->copy; /* of the copy that was under way, or was to be next */
        a->stats.resyncs += m->mode != STW_SYNC || stwi_path_position(m, m->best) != answer;
        stwi_match_settle(m, stwi_succ(m, answer));
        stwi_match_heard(m);
        return answer;
    }
    if ((answer = stwi_match_repeat(a, units, stream)) != STW_NO_ENTRY) {
        a->stats.resyncs += stwi_path_position(m, m->best) != answer;
        stwi_match_settle(m, stwi_succ(m, answer));
        stwi_match_heard(m);
        return answer;
    }
    if (m->len == 1 && m->doubt == 0) { /* of another size, but the frees are all for it */
        const stw_plan_entry e = a->entries[m->first];
        if (a->slots[e.slot].stream == stream && stwi_score(m, m->first, &a->slots[e.slot], e.life_nf, units) > STW_SURE_SCORE) {
            answer = m->first;
            stwi_match_step(m, stwi_succ(m, answer));
            return answer;
        }
    }
    if (m->mode == STW_LOST)
        may_search(a);
    if (m->mode == STW_SYNC && m->len == 1)
        stwi_match_alike(a);
    if (m->mode == STW_SYNC)
        answer = sync_column(a, units, stream);
    else if (m->mode == STW_SEARCH)
        answer = search_column(a, units, stream);
    stwi_match_heard(m);
    if (answer == STW_NO_ENTRY) /* something else is being done */
        memset(m->factors, 0, sizeof m->factors);
    return answer;
}

void stwi_match_vote(stw_matcher *m, uint32_t fate)
{
    const uint32_t vote = fate & STW_NO_VOTE;
    if (m->mode == STW_SYNC) { /* a free of the past is late, and says nothing */
        uint32_t p = m->here != STW_NO_ENTRY ? m->here : stwi_path_position(m, m->best);
        uint32_t ahead = vote >= p ? vote - p : vote >= m->wrap ? m->n - p + (vote - m->wrap) : UINT32_MAX;
        if (ahead > STW_AHEAD)
            return;
    }
    stwi_match_look(m);
    m->agree = -1;
    if (m->n_votes == 3) {
        m->votes[0] = m->votes[1];
        m->votes[1] = m->votes[2];
        m->n_votes = 2;
    }
    m->votes[m->n_votes++] = vote;
}

void stwi_match_look(stw_matcher *m)
{
    uint32_t nf = (uint32_t)m->frees - m->heard;
    m->nf = nf < 3 ? nf : 3;
    if (m->agree > 0) {
        for (m->n_votes = 0; m->n_votes < 3 && m->agree > 0; m->agree--)
            m->votes[m->n_votes++] = m->here;
        m->agree = -1;
    }
}

/* Entries after which the loop is the same again: it may be unrolled, for what outlives an iteration. */
static uint32_t find_copy(const stw_matcher *m, const stw_plan *p)
{
    const uint32_t n = m->n - m->wrap;
    for (uint32_t copies = STW_COPIES; copies > 1; copies--) {
        uint32_t each = n / copies, i = m->wrap;
        if (n == 0 || n % copies != 0)
            continue;
        for (; i + each < m->n; i++) {
            const stw_slot *x = &p->slots[p->entries[i].slot], *y = &p->slots[p->entries[i + each].slot];
            if (p->entries[i].life_nf != p->entries[i + each].life_nf || x->stream != y->stream || x->flags != y->flags || x->hi != y->hi ||
                x->varies != y->varies)
                break;
        }
        if (i + each == m->n)
            return each;
    }
    return n;
}

/* The position that the free of entry p's request names: the request before which it usually comes. */
static uint32_t vote_of(const stw_matcher *m, uint32_t p, uint32_t life_nf)
{
    if (!(life_nf & STW_ENTRY_FIRM))
        return STW_NO_VOTE;
    uint32_t at = p + (life_nf & STW_ENTRY_LIFE_MAX);
    return at < m->n ? at : m->wrap + (at - m->n) % (m->n - m->wrap);
}

/* Whether the request of entry p is dead when its iteration is over. */
static bool dies_within(const stw_matcher *m, uint32_t p, uint32_t life_nf)
{
    uint32_t life = life_nf & STW_ENTRY_LIFE_MAX, end = m->wrap + m->copy;
    while (end <= p) /* copies are few */
        end += m->copy;
    return p >= m->wrap && life < STW_ENTRY_LIFE_MAX && p + life <= end;
}

void stwi_match_init(stw_matcher *m, const stw_plan *p)
{
    m->n = p->n_entries;
    m->wrap = p->loop_start < m->n ? p->loop_start : 0;
    m->anchor = m->last = STW_NO_ENTRY;
    m->copy = find_copy(m, p);
    for (uint32_t i = 0; i < m->n; i++)
        m->fates[i] = vote_of(m, i, p->entries[i].life_nf) | (dies_within(m, i, p->entries[i].life_nf) ? STW_INNER : 0);
    for (uint32_t i = 0; i < m->n; i++)
        m->inners[i + 1] = m->inners[i] + (m->fates[i] >> 31);
    for (uint32_t i = m->wrap; i < m->n && i < m->wrap + STW_ANCHOR_WITHIN && m->anchor == STW_NO_ENTRY; i++) {
        const stw_slot *s = &p->slots[p->entries[i].slot];
        if ((s->flags & (STW_SLOT_PLANNED | STW_SLOT_OPTIONAL)) == STW_SLOT_PLANNED && s->varies == 0 && s->hi > STW_COMMON_UNITS)
            m->anchor = i;
    }
    stwi_match_settle(m, 0);
}

uint32_t stwi_match_position(const stw_matcher *m)
{
    return m->mode == STW_SYNC && m->n > 0 ? stwi_path_position(m, m->best) : m->n;
}

const char *stwi_match_check(const stw_matcher *m, bool aside)
{
    if (m->nf > 3 || m->average < 0 || m->average > STW_WHOLE)
        return "a matcher counter is out of range";
    if (m->mode != STW_SYNC || m->n == 0)
        return m->mode == STW_SYNC || m->len == 0 ? NULL : "a lost matcher has hypotheses";
    if (m->here != (m->len == 1 && m->doubt == 0 && !aside ? m->first : STW_NO_ENTRY) || m->from != m->here)
        return "the position expected is not that of the only hypothesis";
    if (m->first >= m->n || m->len == 0 || m->len > STW_BACK + STW_AHEAD + 1 || m->best >= m->len)
        return "the hypotheses' path is out of range";
    if (m->stay[m->best] != 0 || m->stay[0] == STW_NONE_SCORE || m->stay[m->len - 1] == STW_NONE_SCORE)
        return "the best hypothesis is not 0, or the path has loose ends";
    for (uint32_t i = 0; i < m->len; i++)
        if (m->stay[i] != STW_NONE_SCORE && (m->stay[i] > 0 || m->stay[i] < -DROP))
            return "a hypothesis has an impossible score";
    return NULL;
}
