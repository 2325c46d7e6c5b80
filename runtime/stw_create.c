/* stw_create.c: an allocator's begin and end, and what is said of it once. */
#include "stw_internal.h"

#include <stdio.h>

#define LOG2_LIVE_CELLS 13
#define LOG2_HANDLE_CELLS 6
#define FIRST_STREAMS 64u
#define DEFAULT_HEAP_BYTES (UINT64_C(256) << 30)

static stw_status say(char *err, size_t err_bytes, stw_status s, const char *sentence)
{
    if (err && err_bytes)
        snprintf(err, err_bytes, "%s", sentence);
    return s;
}

/* Rounds up to a multiple of granule, a power of two; n <= STW_MAX_RANGE. */
static uint64_t round_up(uint64_t n, uint64_t granule)
{
    return (n + granule - 1) & ~(granule - 1);
}

/* The lower of two limits, of which 0 is none. */
static uint64_t lower_limit(uint64_t a, uint64_t b)
{
    return a && (!b || a < b) ? a : b;
}

static bool make_records(stw_allocator *a)
{
    a->occupied_bytes = (a->plan.n_atoms / 64 + 1) * sizeof *a->occupied;
    a->taken_bytes = (a->plan.n_streams / 64 + 1) * sizeof *a->taken_plan_streams;
    a->all_bytes = ((size_t)a->plan.n_entries + 1) * sizeof *a->match.all; /* that is touched by a search only */
    a->cap_streams = FIRST_STREAMS;
    a->entries = a->plan.entries;
    a->slots = a->plan.slots;
    return stwi_table_init(&a->elsewhere, LOG2_LIVE_CELLS) && stwi_table_init(&a->handles, LOG2_HANDLE_CELLS) &&
           (a->streams = stwi_map(a->cap_streams * sizeof *a->streams)) != NULL &&
           (a->occupied = stwi_map(a->occupied_bytes)) != NULL &&
           (a->needed = stwi_map(a->occupied_bytes)) != NULL && stwi_idle_make(&a->idle, a->plan.n_atoms) &&
           (a->taken_plan_streams = stwi_map(a->taken_bytes)) != NULL &&
           (a->match.all = stwi_map(a->all_bytes)) != NULL && (a->match.fates = stwi_map(a->all_bytes)) != NULL &&
           (a->match.inners = stwi_map(a->all_bytes)) != NULL &&
           (a->touched = stwi_map(a->touched_bytes)) != NULL &&
           (a->plan.shared_age == 0 || a->plan.n_streams < 2 || !a->backend.event_record || stwi_order_make(a, true));
}

static void drop(stw_allocator *a)
{
    stwi_stitch_drop(a);
    for (uint32_t i = 0; i < a->n_streams; i++)
        if (a->streams[i].heap)
            stwi_heap_drop(a, a->streams[i].heap);
    stwi_space_close(a, &a->arena);
    stwi_order_drop(a);
    stwi_table_drop(&a->in_arena);
    stwi_table_drop(&a->elsewhere);
    stwi_table_drop(&a->handles);
    stwi_unmap(a->streams, a->cap_streams * sizeof *a->streams);
    stwi_unmap(a->occupied, a->occupied_bytes);
    stwi_unmap(a->needed, a->occupied_bytes);
    stwi_idle_drop(&a->idle);
    stwi_unmap(a->taken_plan_streams, a->taken_bytes);
    stwi_unmap(a->match.all, a->all_bytes);
    stwi_unmap(a->match.fates, a->all_bytes);
    stwi_unmap(a->match.inners, a->all_bytes);
    stwi_unmap(a->steps, a->steps_bytes);
    stwi_unmap(a->touched, a->touched_bytes);
    stwi_plan_drop(&a->plan);
    stwi_unmap(a, sizeof *a);
}

stw_status stw_create(stw_allocator **out, const void *plan, size_t plan_bytes, const stw_options *options,
                      const stw_backend *backend, char *err, size_t err_bytes)
{
    if (!out)
        return say(err, err_bytes, STW_E_ARG, "create: out is null");
    *out = NULL;
    if (!backend || !backend->reserve || !backend->commit || !backend->decommit || !backend->release)
        return say(err, err_bytes, STW_E_ARG, "create: the backend or one of its functions is null");
    if (!backend->event_record != !backend->event_wait || !backend->event_record != !backend->event_done ||
        !backend->event_record != !backend->event_drop)
        return say(err, err_bytes, STW_E_ARG, "create: a backend has all event functions or none");
    uint64_t granule = backend->granularity;
    if (granule < STW_PLAN_ALIGN || granule & (granule - 1) || granule > STW_MAX_RANGE)
        return say(err, err_bytes, STW_E_ARG, "create: the backend's granularity is not a power of two from 512 to 2 TiB");
    if (!plan != !plan_bytes)
        return say(err, err_bytes, STW_E_ARG, "create: a plan without bytes, or bytes without a plan");
    uint64_t heap_bytes = options && options->heap_bytes ? options->heap_bytes : DEFAULT_HEAP_BYTES;
    if (heap_bytes > STW_MAX_RANGE - granule)
        return say(err, err_bytes, STW_E_ARG, "create: heap_bytes is 2 TiB or more");
    if (options && options->stitch_bytes && (!backend->alias || !backend->unalias))
        return say(err, err_bytes, STW_E_ARG, "create: stitching was asked for, and the backend cannot map memory twice");

    stw_allocator *a = stwi_map(sizeof *a);
    if (!a)
        return say(err, err_bytes, STW_E_MEMORY, "create: no memory for the allocator's own records");
    a->backend = *backend;
    a->capacity_bytes = options ? options->capacity_bytes : 0;
    a->heap_bytes = round_up(heap_bytes, granule);
    a->say = options ? options->say : NULL;
    a->say_ctx = options ? options->say_ctx : NULL;
    if (plan) {
        stw_status s = stwi_plan_load(&a->plan, plan, plan_bytes, err, err_bytes);
        if (s != STW_OK) {
            drop(a);
            return s;
        }
    }
    a->capacity_bytes = lower_limit(a->capacity_bytes, a->plan.capacity_bytes);
    const char *trouble = NULL;
    const uint64_t arena = round_up(a->plan.arena_bytes, granule);
    a->granule_shift = (uint32_t)__builtin_ctzll(granule) - STW_UNIT_SHIFT;
    a->touched_bytes = (arena / granule / 64 + 1) * sizeof *a->touched;
    if (!options || !options->still) {
        a->movable_bytes = STW_MOVE_ARENAS * arena;
        a->movable_lap_bytes = arena / STW_MOVE_LAP;
    }
    if (!make_records(a) || (options && options->stitch_bytes && !stwi_stitch_make(a, options->stitch_bytes)))
        trouble = "create: no memory for the allocator's own records";
    else if (a->capacity_bytes && arena > a->capacity_bytes)
        trouble = "create: the plan's arena is larger than the capacity";
    else if (arena && !stwi_space_open(a, &a->arena, arena))
        trouble = "create: the backend has no address space for the plan's arena";
    else if (!stwi_places_make(a))
        trouble = "create: no memory for the allocator's own records";
    if (!trouble) {
        stwi_match_init(&a->match, &a->plan);
        if (!stwi_repeat_init(&a->match, &a->plan) || !stwi_steps_make(a))
            trouble = "create: no memory for the allocator's own records";
    }
    if (trouble) {
        drop(a);
        return say(err, err_bytes, STW_E_MEMORY, trouble);
    }
    stwi_fork_add(a);
    if (err && err_bytes)
        err[0] = 0;
    *out = a;
    return STW_OK;
}

void stw_destroy(stw_allocator *a)
{
    if (!a)
        return;
    stwi_fork_remove(a);
    stwi_say_end(a);
    drop(a);
}

int stw_set_capacity(stw_allocator *a, uint64_t bytes)
{
    if (!a)
        return -1;
    stw_owner *owner = stwi_enter(a);
    uint64_t limit = lower_limit(bytes, a->plan.capacity_bytes);
    if (limit && a->stats.reserved_bytes > limit) {
        stwi_limbo_leave_all_locked(a, true);
        stwi_trim_locked(a);
    }
    bool fits = !limit || a->stats.reserved_bytes <= limit;
    if (fits)
        a->capacity_bytes = limit;
    stwi_leave(a, owner);
    return fits ? 0 : -1;
}

void *stw_arena(const stw_allocator *a)
{
    return a ? a->arena.base : NULL;
}

const char *stw_status_string(stw_status s)
{
    static const char *const names[] = {
        [STW_OK] = "ok",
        [STW_E_ARG] = "bad argument",
        [STW_E_PLAN] = "not a valid plan",
        [STW_E_VERSION] = "plan of an unknown version",
        [STW_E_MEMORY] = "no memory",
        [STW_E_DEVICE] = "no device",
    };
    return (unsigned)s < sizeof names / sizeof *names ? names[s] : "unknown status";
}

const char *stw_version(void)
{
    return "0.1.0";
}
