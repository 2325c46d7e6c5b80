/* stw_match.h: the plan as loaded (plan_load.c), and where in it we are (stw_match.c). Not installed. */
#ifndef STW_MATCH_H
#define STW_MATCH_H

#include "stw.h"
#include "stw_idle.h"
#include "stw_plan.h"

#include <stdbool.h>

#pragma GCC visibility push(hidden)

#define STW_NO_ENTRY UINT32_MAX

/* ---- the plan (plan_load.c) ---- */

typedef struct {
    uint32_t lo, hi;                /* units, as in stw_plan_slot */
    uint32_t atom_begin, atom_end;  /* planned: its atoms, half-open */
    uint64_t atoms;                 /* planned: the same, as bits of one word (stwi_mask_of) */
    uint8_t stream, flags;          /* as in stw_plan_slot */
    uint16_t varies;                /* planned: as aux there; 0: every request had that size */
    union {
        uint32_t list;  /* dynamic: 1 + its list of needs; 0: none (stwi_list) */
        uint32_t place; /* planned: cell of a->in_arena */
    };
} stw_slot;

/* Lists of ranges of atoms: those of list l are [first[l], first[l + 1]) of range, ascending, apart from each other. */
typedef struct {
    uint32_t *first;
    stw_atoms *range;
    uint16_t *classes; /* of each range its size, by stwi_class */
    uint32_t n, cap;
    size_t first_mapped_bytes, classes_mapped_bytes;
} stw_parts;

typedef struct {
    void *bytes; /* our copy of the file; entries, streams and marks point into it */
    size_t mapped_bytes;
    size_t file_bytes;
    stw_slot *slots;
    size_t slots_mapped_bytes;
    uint64_t arena_bytes, capacity_bytes;
    uint32_t n_entries, n_slots, n_streams, n_marks;
    uint32_t loop_start, n_atoms;
    uint32_t shared_age;      /* as in stw_plan_header */
    uint32_t n_lists;         /* of needs */
    uint32_t *bounds;         /* atom i is units [bounds[i], bounds[i + 1]) of the arena */
    stw_atoms *within;        /* by stream: the atoms in its range */
    uint64_t *kept;           /* bit per atom: it is never lent */
    stw_parts lent;           /* by list: what it does not name, and is not kept */
    size_t bounds_mapped_bytes, within_mapped_bytes, kept_mapped_bytes;
    const stw_plan_entry *entries;
    const stw_plan_stream *streams;
    const stw_plan_mark *marks;
    uint32_t n_rules;  /* statements of rules that the plan says it obeys */
    char rules[13];    /* the first digits of their digest; "" where there are none */
} stw_plan;

stw_status stwi_plan_load(stw_plan *out, const void *bytes, size_t n, char *err, size_t err_bytes);
void stwi_plan_drop(stw_plan *p);

bool stwi_lent_make(stw_plan *p, const uint32_t *needs); /* kept, within and lent (stw_lent.c), from the words of NEEDS; false: no memory */
void stwi_lent_drop(stw_plan *p);

uint32_t stwi_crc32c(uint32_t crc, const void *p, size_t bytes); /* running: start with 0 */

/* ---- the matcher (stw_match.c) ---- */

enum { STW_SYNC, STW_LOST, STW_SEARCH };

#define STW_BACK 64u
#define STW_AHEAD 700u
#define STW_PATH (STW_BACK + STW_AHEAD + 2)
#define STW_NONE_SCORE (INT32_MIN / 2)
#define STW_WHOLE 1000000 /* the whole, in millionths */
#define STW_VOTE_FOR 3000
#define STW_VOTE_AGAINST (-1500)
#define STW_OPEN_OPTIONAL 3000 /* the price of leaving optional entries out, and of each of them */
#define STW_SKIP_OPTIONAL 4
#define STW_VOUCHES (-1000) /* a match with an own score of that says that the position is right */
#define STW_COPIES 4u /* that a loop may consist of: the compiler unrolls no further */
#define STW_ANCHOR_WITHIN 64u /* entries from the loop's start that may be the anchor */
#define STW_COMMON_UNITS (4096 / STW_PLAN_ALIGN) /* up to it sizes are common: an equal one says little, and none is the anchor */
#define STW_INNER 0x80000000u   /* in a fate: of a loop entry that dies within its iteration */
#define STW_NO_VOTE 0x7fffffffu /* in a fate: its free says nothing; entries are fewer */
#define STW_SURE_SCORE 1000 /* a score above it is taken without looking further */

#define STW_DOUBT 2u          /* columns of the prologue that must confirm the position before it is believed again */
#define STW_STRETCHES 128u    /* of a plan that repeat, of the prologue and of the loop together (stw_repeat.c) */
#define STW_FACTORS 2u        /* of sizes, seen last (stw_proportion.c) */

/* Part of a plan that repeats: entries [begin, end), each alike the one a period later, as far as that one is in it. */
typedef struct {
    uint32_t begin, end, period;
} stw_stretch;

/* A ratio of sizes that was seen. */
typedef struct {
    uint64_t got, had; /* units: size of the request, and of the slot; of the largest slot */
    uint64_t last;     /* size of the latest large slot */
    uint64_t at;       /* requests that were not dynamic when it was seen last */
    uint64_t sizes;    /* large sizes, no two in a row the same; 0: none */
} stw_factor;

typedef struct {
    /* What the hot path writes (stw_step.h): */
    uint32_t here;    /* the position expected, where it is the only hypothesis and not in doubt, and the plan not set aside; else STW_NO_ENTRY */
    int32_t agree;    /* frees since the last request that vote, if all of them are for `here`; else -1, and votes has them */
    uint32_t heard;   /* frees at the last request, low bits */
    uint32_t from;    /* requests in step from here on, up to `here`, are not accounted for yet */
    uint64_t frees;   /* successful ones */
    uint32_t n;       /* entries of the plan */
    uint32_t wrap;    /* where the loop begins: what follows entry n - 1 */
    uint64_t inner;   /* live requests of loop entries that die within their iteration; written by the hot path, too */
    /* The rest: */
    uint32_t mode;    /* STW_SYNC, … */
    uint32_t nf;      /* successful frees since the last request, clamped to 3: where stwi_match_look has looked */
    uint32_t n_votes; /* of those, frees that vote; at most 3, the last ones */
    uint32_t votes[3]; /* positions they name */
    uint32_t first;   /* sync: position of path index 0, always a hypothesis */
    uint32_t len;     /* sync: path indexes held in stay, the last is a hypothesis; else 0 */
    uint32_t best;    /* sync: path index of the best one, whose score is 0 */
    int32_t average;  /* share of well matched requests, millionths */
    uint32_t steady;  /* sync: columns in a row that confirmed the best hypothesis */
    uint32_t doubt;   /* sync, in the prologue: columns in a row that it still takes until the position is believed */
    stw_factor factors[STW_FACTORS]; /* by which entries of the loop were asked for with another size; the latest first */
    uint64_t fixed;   /* requests before the one under way that were not dynamic */
    bool stranger;    /* the request under way may only pass for its planned entry */
    uint32_t columns; /* search: columns so far */
    uint32_t run;     /* search: of those, the last ones in a row reached by a good match */
    uint32_t anchor;  /* the loop's first entry that is easy to tell; STW_NO_ENTRY: none */
    uint32_t last;    /* the last entry of the loop that a request with an address was answered with; STW_NO_ENTRY: none so far */
    uint32_t copy;    /* entries after which the loop is the same again; all of it where it never is */
    uint64_t search_began; /* number of the request with which the last search began; 0: none */
    uint64_t trail_asked; /* requests before the latest that fitted the trail, where the program may have gone (stw_repeat.c) */
    uint32_t trail_seen;  /* those that did so far, in a row */
    uint32_t trail_next;  /* the entry to come */
    uint32_t n_stretches;
    stw_stretch stretches[STW_STRETCHES]; /* of the prologue and of the loop's first copy */
    int32_t stay[STW_PATH]; /* score of each path index, thousandths; STW_NONE_SCORE: dropped */
    int32_t *all;     /* search: the same for every entry, n + 1 of them */
    uint32_t *fates;  /* of each entry: STW_INNER, and the position that its free votes for, or STW_NO_VOTE */
    uint32_t *inners; /* of each entry and n: how many before it have STW_INNER */
} stw_matcher;

/* Position p, which may be beyond the last entry: the loop begins again there. */
static inline uint32_t stwi_wrapped(const stw_matcher *m, uint32_t p)
{
    return p < m->n ? p : m->wrap + (p - m->n);
}

/* The position of path index i. */
static inline uint32_t stwi_path_position(const stw_matcher *m, uint32_t i)
{
    return stwi_wrapped(m, m->first + i);
}

static inline uint32_t stwi_succ(const stw_matcher *m, uint32_t p)
{
    return p + 1 == m->n ? m->wrap : p + 1;
}

/* The smallest request that looks like one of the slot's, in units; the largest is hi. */
static inline uint64_t stwi_least(const stw_slot *s)
{
    if (!(s->flags & STW_SLOT_PLANNED))
        return s->lo;
    return s->varies == 0 ? s->hi : (uint64_t)s->hi * s->varies >> 16;
}

/* Whether the slot is a place for requests of that size, or for sizes of which it is one. */
static inline bool stwi_sized(const stw_slot *s, uint64_t units)
{
    return s->flags & STW_SLOT_PLANNED && units <= s->hi && stwi_least(s) <= units;
}

/* Whether a slot of `had` units is asked for with `got` where sizes are as they were (stw_proportion.c). */
bool stwi_expects(const stw_matcher *m, uint64_t got, uint64_t had);

/* Takes note that a slot of `had` units was asked for with another size, `got`; answers whether the slots before it were, too, by the same
 * factor. */
bool stwi_proportional(stw_matcher *m, uint64_t got, uint64_t had);

/* Score of the entry at position p for a request, in thousandths; the streams are equal. */
static inline int32_t stwi_score(const stw_matcher *m, uint32_t p, const stw_slot *s, uint32_t life_nf, uint64_t units)
{
    int32_t v;
    uint64_t lo;
    if (s->flags & STW_SLOT_PLANNED && (s->varies == 0 || units == s->hi)) {
        uint64_t big = units > s->hi ? units : s->hi, small = units > s->hi ? s->hi : units;
        if (big == small)
            v = units > STW_COMMON_UNITS ? 4000 : 1500;
        else if (m->factors[0].sizes != 0 && p >= m->wrap && stwi_expects(m, units, s->hi))
            v = s->hi > STW_COMMON_UNITS ? 3000 : 1000;
        else
            v = big > 4 * small ? -2500 : -2000;
    } else if ((lo = stwi_least(s)) <= units && units <= s->hi) {
        v = 1500;
    } else {
        v = 3 * units >= lo && units <= 3 * (uint64_t)s->hi ? 1000 : 200;
    }
    for (uint32_t i = 0; i < m->n_votes; i++)
        v += m->votes[i] == p ? STW_VOTE_FOR : STW_VOTE_AGAINST;
    return v + (m->nf >= (life_nf >> 28 & 3) && m->nf <= life_nf >> 30 ? 1000 : -1500);
}

/* A request of entry e is answered with an address; returns its fate. */
static inline uint32_t stwi_match_placed(stw_matcher *m, uint32_t e)
{
    if (e == STW_NO_ENTRY)
        return STW_NO_VOTE;
    if (e >= m->wrap)
        m->last = e;
    const uint32_t fate = m->stranger ? m->fates[e] & ~STW_INNER : m->fates[e];
    m->inner += fate >> 31;
    return fate;
}

/* It is freed. Answers whether that is all: if not, stwi_match_vote comes next. */
static inline bool stwi_match_freed(stw_matcher *m, uint32_t fate)
{
    const uint32_t vote = fate & STW_NO_VOTE;
    m->frees++;
    m->inner -= fate >> 31;
    if (vote == m->here && m->agree >= 0) {
        m->agree++;
        return true;
    }
    return vote == STW_NO_VOTE;
}

void stwi_match_vote(stw_matcher *m, uint32_t fate); /* one that is not for `here`, or not the first such */
void stwi_match_look(stw_matcher *m);                /* puts what the frees say to where the score is made */

/* A request has come to the matcher: the frees before it have been heard. */
static inline void stwi_match_heard(stw_matcher *m)
{
    m->heard = (uint32_t)m->frees;
    m->agree = 0;
    m->n_votes = 0;
}

/* Which entry is this request of `units` and plan stream `stream`? STW_NO_ENTRY: none. The plan
 * has entries. */
uint32_t stwi_match_slow_locked(stw_allocator *a, uint64_t units, uint16_t stream);
/* Adds to the one hypothesis its look-alike, where it has one. */
void stwi_match_alike(stw_allocator *a);
void stwi_match_settle(stw_matcher *m, uint32_t p); /* p is the only hypothesis, and in sync */
void stwi_match_mark_locked(stw_allocator *a, uint32_t kind, int64_t value, uint64_t name);
void stwi_match_init(stw_matcher *m, const stw_plan *p);
bool stwi_repeat_init(stw_matcher *m, const stw_plan *p); /* after it; false: no memory */

/* Where the program may go on at position here, where a stretch may be over, or come again: the entry that the first stretch from
 * *next on says, and *next is behind it. STW_NO_ENTRY: none is left. */
uint32_t stwi_match_turn(const stw_matcher *m, uint32_t here, uint32_t *next);

/* The entry at which the program goes on where that is not the one expected: what repeats is over, or comes again.
 * STW_NO_ENTRY: neither. */
uint32_t stwi_match_repeat(stw_allocator *a, uint64_t units, uint16_t stream);
uint32_t stwi_match_position(const stw_matcher *m); /* entry expected next; n: lost */
const char *stwi_match_check(const stw_matcher *m, bool aside);

/* The entry expected, p, is what was asked for; next is what follows it. */
static inline void stwi_match_step(stw_matcher *m, uint32_t next)
{
    m->first = next;
    m->average += (int32_t)((uint32_t)(STW_WHOLE - m->average) / 64); /* never negative */
    stwi_match_heard(m);
}

#pragma GCC visibility pop
#endif
