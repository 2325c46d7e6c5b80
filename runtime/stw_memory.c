/* stw_memory.c: giving back granules on which nothing lives.
 *
 *     arena    |########|....|#####|........|#####|         # something lives there
 *     heap     |####|....|##|                               . committed, idle
 *
 * On request all of them go (stwi_trim_locked); when the plan has done without the heaps for a step, those of the heaps.
 *
 * Under pressure, where no hole serves as it is (stw_heap.c), it is what is missing and a sixteenth of what is held (stwi_make_room_locked): more would be mapped again soon, and with
 * less the next request would have to wait for the device again.
 *
 * And some of them move: a space that would have to grow so that more would be reserved than ever before, and
 * more than the arena, takes the place of what idles elsewhere (stwi_move_locked). So arena and heaps
 * together need what lives at the worst moment, not the sum of what each of them needs at its own. It costs the driver's
 * time, about a tenth of a millisecond for 2 MiB, and decommit waits for the device: a plan that fits never needs
 * it, and one that does not may move so much for each of its steps, and no more. Where memory really runs
 * out, a trim knows no such limit.
 *
 * Of the arena's idle granules, where not all of them go, those go that the plan needs last: the entries to come say which it needs first, and
 * spare them. What was given would be asked back soon, and something else moved for it.
 *
 *     arena    |####|..2..|##|....|..1..|        1, 2: the next entries' places; what is left goes
 *
 * What may move is not spent on the first who ask. A program that departs from its plan in every step moves the same memory to and fro until
 * nothing may, and then the one buffer that all this would have been for makes the total rise. So the total rises as the last half of it
 * is used: with the square of what is, up to a 24th of what lived at most. Most of what is asked for in every step then fits, and what
 * is left is for what is rare.
 *
 * Where all is used up and the program still does not do what the plan says (another program, evaluations that the recording has not seen), the plan would cost the arena
 * and a heap. It is set aside: the heaps serve everything, and what idles in the arena moves to them. The matcher goes on; when so many steps have been as it
 * expects, the arena gives its addresses again.
 *
 * What lives in the arena is read off the occupancy and the table of live allocations: that takes no time where nothing is
 * given back.
 */
#include "stw_internal.h"

#include <string.h>

/* What is about to be committed, and not idle: granules of a space. */
typedef struct {
    const stw_space *space;
    stw_granules r;
} hold;

/* Gives back idle granules of a heap, the highest first, at most so many. */
static uint64_t heap_give_locked(stw_allocator *a, stw_heap *h, hold held, uint64_t most)
{
    const uint64_t step = UINT64_C(1) << a->granule_shift;
    uint64_t n = 0;
    for (uint32_t b = h->last; b && n < most; b = h->blocks[b].prev) {
        const stw_block *k = &h->blocks[b];
        if (k->used || (k->units < step && b != h->last))
            continue;
        const uint64_t end = (uint64_t)k->start + k->units;
        uint64_t from = (k->start + step - 1) >> a->granule_shift;
        uint64_t to = (end + (b == h->last ? step - 1 : 0)) >> a->granule_shift; /* behind the top nothing is used */
        if (held.space == &h->space && held.r.from < to && held.r.to > from) {
            if (held.r.to < to)
                n += stwi_space_give_locked(a, &h->space, held.r.to, to, most - n);
            to = held.r.from;
        }
        if (from < to)
            n += stwi_space_give_locked(a, &h->space, from, to, most - n);
    }
    return n;
}

/* What is committed, and neither used nor spared, of 64 granules of the arena. */
static uint64_t idle_word(const stw_allocator *a, uint64_t w)
{
    return a->arena.pages[w] & ~a->touched[w];
}

/* Spares what the entries to come use first, down to so many idle granules of the arena. */
static void spare_locked(stw_allocator *a, uint64_t most)
{
    uint64_t idle = 0, count = most > a->match.n / STW_SPARE_WORK ? a->match.n : most * STW_SPARE_WORK;
    uint32_t at = stwi_match_position(&a->match);
    if (at >= a->match.n || most == UINT64_MAX || a->aside > 0)
        return;
    for (uint64_t w = 0; w < (a->arena.bytes / a->backend.granularity + 63) / 64; w++)
        idle += (uint64_t)__builtin_popcountll(idle_word(a, w));
    for (; count > 0 && idle > most; count--, at = stwi_succ(&a->match, at)) {
        const stw_slot *s = &a->slots[a->entries[at].slot];
        if (!(s->flags & STW_SLOT_PLANNED))
            continue;
        const stw_granules r = stwi_granules(a, s->lo, s->hi);
        for (uint64_t g = r.from, to; g < r.to && idle > most; g = to) {
            to = (g | 63) + 1 < r.to ? (g | 63) + 1 : r.to;
            uint64_t more = idle_word(a, g >> 6) & stwi_mask(g & 63, (g & 63) + (to - g));
            uint64_t n = (uint64_t)__builtin_popcountll(more);
            for (; n > idle - most; n--) /* the lowest of them only */
                more &= ~(UINT64_C(1) << (63 - __builtin_clzll(more)));
            a->touched[g >> 6] |= more;
            idle -= n;
        }
    }
}

/* The same of the arena, those first that the plan needs last. */
static uint64_t arena_give_locked(stw_allocator *a, hold held, uint64_t most)
{
    if (a->arena.committed_bytes == 0 || most == 0)
        return 0;
    memset(a->touched, 0, a->arena.pages_bytes);
    const uint32_t n_atoms = a->plan.n_atoms;
    for (uint32_t at = (uint32_t)stwi_bits_next(a->occupied, 0, n_atoms, true), end; at < n_atoms; at = (uint32_t)stwi_bits_next(a->occupied, end, n_atoms, true)) {
        const stw_rec *r = stwi_place(a, (uintptr_t)a->arena.base + ((uint64_t)a->plan.bounds[at] << STW_UNIT_SHIFT));
        end = at + 1;
        if (r->units == 0) /* a piece of what is stitched */
            continue;
        const stw_granules g = stwi_granules(a, a->plan.bounds[at], r->units);
        stwi_bits_set(a->touched, g.from, g.to, true);
        stwi_arena_atoms(r, &at, &end);
    }
    if (a->stitch)
        stwi_stitch_touch(a, a->touched);
    if (held.space == &a->arena)
        stwi_bits_set(a->touched, held.r.from, held.r.to, true);
    spare_locked(a, most);
    uint64_t n = 0;
    for (uint64_t to = a->arena.bytes / a->backend.granularity; n < most;) {
        to = stwi_bits_last(a->touched, 0, to, false);
        uint64_t from = stwi_bits_last(a->touched, 0, to, true);
        if (from == to)
            break;
        n += stwi_space_give_locked(a, &a->arena, from, to, most - n);
        to = from;
    }
    return n;
}

static uint64_t heaps_give_locked(stw_allocator *a, hold held, uint64_t most)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < a->n_streams && n < most; i++)
        if (a->streams[i].heap)
            n += heap_give_locked(a, a->streams[i].heap, held, most - n);
    return n;
}

bool stwi_capturing_locked(const stw_allocator *a)
{
    for (uint32_t i = 0; a->backend.capturing && i < a->n_streams; i++)
        if (a->backend.capturing(a->backend.ctx, a->streams[i].handle))
            return true;
    return false;
}

static uint64_t trim_locked(stw_allocator *a, hold held, bool arena, uint64_t most)
{
    if (stwi_capturing_locked(a))
        return 0;
    uint64_t n = heaps_give_locked(a, held, most);
    if (arena)
        n += arena_give_locked(a, held, most - n);
    uint64_t bytes = n * a->backend.granularity;
    a->stats.trims += bytes > 0;
    a->stats.returned_bytes += bytes;
    return bytes;
}

uint64_t stwi_trim_locked(stw_allocator *a)
{
    return trim_locked(a, (hold){0}, true, UINT64_MAX);
}

uint64_t stwi_trim_heaps_locked(stw_allocator *a)
{
    return trim_locked(a, (hold){0}, false, UINT64_MAX);
}

bool stwi_make_room_locked(stw_allocator *a, stw_space *p, uint64_t start, uint64_t units)
{
    const hold held = {p, stwi_granules(a, start, units)};
    const uint64_t granule = a->backend.granularity;
    for (;;) {
        uint64_t most = UINT64_MAX; /* it is the backend that refuses: who knows what it wants */
        const uint64_t more = stwi_space_missing(p, held.r) * granule, left = a->capacity_bytes - a->stats.reserved_bytes;
        if (a->capacity_bytes && more > left)
            most = (more - left + granule - 1) / granule + a->stats.reserved_bytes / granule / STW_ROOM_PART;
        if (trim_locked(a, held, true, most) == 0)
            return false;
        if (stwi_space_commit_far_locked(a, p, start, units))
            return true;
    }
}

/* The most that ever lived, or the arena. */
static uint64_t needed_bytes(const stw_allocator *a)
{
    const uint64_t live = a->most_live_bytes > a->stats.peak_live_bytes ? a->most_live_bytes : a->stats.peak_live_bytes;
    return live > a->arena.bytes ? live : a->arena.bytes;
}

/* What may be reserved before anything moves. */
static uint64_t may_rise(const stw_allocator *a)
{
    const uint64_t last = STW_MOVE_ARENAS * a->arena.bytes / 2, left = a->movable_bytes < last ? a->movable_bytes : last;
    const uint64_t used = STW_MOVE_PARTS * (last - left) / last, needed = needed_bytes(a);
    return needed + needed / STW_MOVE_RISE * used * used / (STW_MOVE_PARTS * STW_MOVE_PARTS);
}

/* What has been counted since lap `then`. */
static stw_lap since_locked(const stw_allocator *a, const stw_lap *then)
{
    const stw_stats *s = &a->stats;
    return (stw_lap){s->hits - then->hits, s->conflicts - then->conflicts, s->dynamic - then->dynamic, s->too_large + a->strays - then->off};
}

/* So much would be reserved, and no more may be moved: gives the heaps all that the plan would serve, if it serves badly. One that serves well may cost more, and
 * where memory is short it is worth that. */
static void set_aside_locked(stw_allocator *a, uint64_t total)
{
    stwi_settle_locked(a);
    const stw_lap n = since_locked(a, &a->laps[0]);
    const uint64_t off = n.conflicts + n.off, needed = needed_bytes(a);
    const bool cheap = total <= needed + needed / STW_ASIDE_PART + a->backend.granularity || (a->capacity_bytes && total > a->capacity_bytes);
    if (a->movable_bytes >= a->arena.bytes || STW_ASIDE_OFF * off <= n.hits || (cheap && (STW_ASIDE_PART - 1) * off <= n.hits))
        return;
    a->aside = STW_MOVE_LAP * ++a->stats.set_aside;
    a->movable_bytes += STW_MOVE_ARENAS * a->arena.bytes;
    stwi_aim_locked(a);
    stwi_say_aside_locked(a);
}

void stwi_lap_locked(stw_allocator *a)
{
    const stw_lap n = since_locked(a, &a->laps[1]);
    const uint64_t on = n.hits + n.conflicts + n.dynamic, all = on + n.off, step = a->match.n - a->match.wrap;
    a->movable_bytes += a->movable_lap_bytes;
    if (a->aside > 0 && STW_ASIDE_PART * on >= (STW_ASIDE_PART - 1) * (all > step ? all : step))
        a->aside--;
    a->laps[0] = a->laps[1];
    a->laps[1] = since_locked(a, &(stw_lap){0});
}

void stwi_move_locked(stw_allocator *a, const stw_space *p, stw_granules r, uint64_t more)
{
    const uint64_t granule = a->backend.granularity, most = a->most_bytes > a->arena.bytes ? a->most_bytes : a->arena.bytes;
    const uint64_t total = a->stats.reserved_bytes + more;
    if (a->movable_lap_bytes == 0 || total <= most || (a->aside == 0 && total <= may_rise(a)) || stwi_capturing_locked(a))
        return;
    if (a->aside == 0 && total - most > a->movable_bytes)
        set_aside_locked(a, total);
    if (total - most > a->movable_bytes)
        return;
    const uint64_t need = (total - most) / granule;
    const hold held = {p, r};
    uint64_t n = 0;
    if (p != &a->arena || a->aside > 0)
        n += arena_give_locked(a, held, need);
    n += heaps_give_locked(a, held, need - n);
    if (p == &a->arena && a->aside == 0)
        n += arena_give_locked(a, held, need - n);
    a->movable_bytes -= n * granule;
    a->stats.moves += n > 0;
    a->stats.moved_bytes += n * granule;
}
