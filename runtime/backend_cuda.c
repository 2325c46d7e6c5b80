/* backend_cuda.c: device memory, by the driver's virtual memory management.
 *
 *     address space   |     |     |     |     |     |     |    one cuMemAddressReserve
 *     granules           A     B     -     C     -     -       each a cuMemCreate of its own, mapped whole
 *                       '---------'       '---'                one cuMemSetAccess, one cuMemUnmap for a run
 *
 * A granule is the smallest thing that can be given back or lent (the driver maps and unmaps allocations whole), so
 * commit makes an allocation for each. What that costs (published, microseconds a call on 2 MiB): create 29, map 2, set
 * access 38, unmap 34, release 23; so 40 GiB in granules of 2 MiB take 0.6 s and some tens of ms for the access, once;
 * in steady state there are no calls. Granules of 16 MiB divide that by eight, and leave up to 16 MiB idle
 * at every edge between what is used and what is not.
 *
 * What the driver holds is written down granule by granule, so that every operation can go on from where a failed one
 * stopped: commit makes what is missing, and takes back what is there when it fails; what decommit cannot give back
 * (the device cannot be waited for, an unmapping is refused) stays, costs memory, and is found by the next commit
 * of that place; a reservation that cannot be ended is tried again with the next one and at close.
 *
 * Unmapping does not wait for work that uses the memory, so decommit does, for all work of the context:
 * whoever frees may have said the wrong stream, and it happens under pressure only.
 *
 * An alias maps granules of ranges a second time, side by side in a range of its own, which holds no memory
 * (stw_stitch.c). A granule whose place is decommitted lives on in its aliases.
 *
 * In plain mode a reservation is one cuMemAlloc. One that is larger than the device, as a heap's is, cannot be meant
 * whole and gets plain_bytes: commit fails beyond. For devices and virtual machines without virtual memory management.
 */
#include "cuda_driver.h"
#include "stw_internal.h"

enum { HELD = 1, MAPPED = 2, KEPT = 4 }; /* KEPT: given back while the device could not be waited for, so work may still use it */

struct cu_range {
    cu_range *next;
    char *base;
    uint64_t bytes, granules; /* plain: bytes that were to be had; granules 0 */
    cu_handle *handles;       /* of each granule, where it is HELD */
    uint8_t *state;
    size_t records_bytes;
    bool ended; /* nobody's: to be torn down */
};

static cu_ptr place(const cuda *c, const cu_range *r, uint64_t g)
{
    return (cu_ptr)(uintptr_t)r->base + g * c->granule;
}

static cu_range *range_at(const cuda *c, const void *p)
{
    cu_range *r = c->ranges;
    while (r && (uintptr_t)p - (uintptr_t)r->base >= r->bytes)
        r = r->next;
    return r;
}

/* The end of the run of granules from g on, before `to`, that are in the state `bit` or are not. */
static uint64_t run_end(const cu_range *r, uint64_t g, uint64_t to, uint8_t bit)
{
    uint8_t first = r->state[g] & bit;
    while (g < to && (r->state[g] & bit) == first)
        g++;
    return g;
}

/* Unmaps and releases what it can of the granules [from, to); the caller knows that nothing uses them. */
static bool take_down(cuda *c, cu_range *r, uint64_t from, uint64_t to)
{
    bool all = true;
    for (uint64_t g = from, end; g < to; g = end) {
        end = run_end(r, g, to, MAPPED);
        if (!(r->state[g] & MAPPED))
            continue;
        if (!stwi_cuda_ok(c, c->cu.unmap(place(c, r, g), (end - g) * c->granule), "cuMemUnmap")) {
            all = false;
            continue;
        }
        for (uint64_t i = g; i < end; i++)
            r->state[i] &= (uint8_t)~(MAPPED | KEPT);
    }
    for (uint64_t g = from; g < to; g++) {
        if (r->state[g] != HELD)
            continue;
        if (stwi_cuda_ok(c, c->cu.release(r->handles[g]), "cuMemRelease"))
            r->state[g] = 0;
        else
            all = false;
    }
    return all;
}

/* A piece of device memory. Where handles for a fabric may not be had, from then on descriptors are asked for. */
static bool create(cuda *c, cu_handle *h)
{
    cu_result e = c->cu.create(h, c->granule, &c->prop, 0);
    if ((e == CU_NOT_PERMITTED || e == CU_NOT_SUPPORTED) && c->prop.share == STW_CUDA_SHARE_FABRIC) {
        c->prop.share = STW_CUDA_SHARE_FD;
        e = c->cu.create(h, c->granule, &c->prop, 0);
    }
    return stwi_cuda_ok(c, e, "cuMemCreate");
}

static bool set_up(cuda *c, cu_range *r, uint64_t from, uint64_t to)
{
    for (uint64_t g = from; g < to; g++) {
        if (!(r->state[g] & HELD)) {
            if (!create(c, &r->handles[g]))
                return false;
            r->state[g] |= HELD;
        }
        if (!(r->state[g] & MAPPED)) {
            if (!stwi_cuda_ok(c, c->cu.map(place(c, r, g), c->granule, 0, r->handles[g], 0), "cuMemMap"))
                return false;
            r->state[g] |= MAPPED;
        }
    }
    return stwi_cuda_ok(c, c->cu.set_access(place(c, r, from), (to - from) * c->granule, c->access, c->n_access), "cuMemSetAccess");
}

static int cuda_commit(void *ctx, void *p, size_t bytes)
{
    cuda *c = ctx;
    cu_range *r = range_at(c, p);
    cuda_scope s;
    if (!r || bytes > r->bytes - (size_t)((char *)p - r->base))
        return -1;
    if (c->plain)
        return 0;
    if (!stwi_cuda_enter(c, &s))
        return -1;
    uint64_t from = (uint64_t)((char *)p - r->base) / c->granule, to = from + bytes / c->granule;
    bool ok = set_up(c, r, from, to);
    for (uint64_t g = from, end; g < to; g = end) { /* the device is not waited for: a stream may be capturing */
        end = run_end(r, g, to, KEPT);
        if (!ok && !(r->state[g] & KEPT))
            take_down(c, r, g, end);
        for (uint64_t i = g; i < end && ok; i++)
            r->state[i] &= (uint8_t)~KEPT;
    }
    stwi_cuda_leave(c, &s);
    return ok ? 0 : -1;
}

static void cuda_decommit(void *ctx, void *p, size_t bytes)
{
    cuda *c = ctx;
    cu_range *r = range_at(c, p);
    cuda_scope s;
    if (!r || c->plain || !stwi_cuda_enter(c, &s))
        return;
    uint64_t from = (uint64_t)((char *)p - r->base) / c->granule, to = from + bytes / c->granule;
    if (stwi_cuda_ok(c, c->cu.synchronize(), "cuCtxSynchronize"))
        take_down(c, r, from, to);
    else
        for (uint64_t g = from; g < to; g++)
            r->state[g] |= r->state[g] & MAPPED ? KEPT : 0;
    stwi_cuda_leave(c, &s);
}

/* A range of n granules, plain: of `bytes`. NULL: no memory for its records. */
static cu_range *range_make(cuda *c, uint64_t n, bool with_handles)
{
    cu_range *r = stwi_map(sizeof *r);
    if (!r)
        return NULL;
    r->granules = n;
    r->bytes = n * c->granule;
    r->records_bytes = n * (sizeof *r->state + (with_handles ? sizeof *r->handles : 0));
    if (n > 0) {
        r->handles = stwi_map(r->records_bytes);
        r->state = r->handles ? (uint8_t *)(r->handles + (with_handles ? n : 0)) : NULL;
        if (!r->state) {
            stwi_unmap(r, sizeof *r);
            return NULL;
        }
    }
    return r;
}

static void range_drop(cu_range *r)
{
    stwi_unmap(r->handles, r->records_bytes);
    stwi_unmap(r, sizeof *r);
}

/* Ends r; false: not all of it could be, and it can be tried again. In the backend's context, unless that is gone. */
static bool range_end(cuda *c, cu_range *r)
{
    if (c->gone)
        return true;
    if (c->plain)
        return stwi_cuda_ok(c, c->cu.free((cu_ptr)(uintptr_t)r->base), "cuMemFree") || c->gone;
    bool ok = take_down(c, r, 0, r->granules) &&
              stwi_cuda_ok(c, c->cu.unreserve((cu_ptr)(uintptr_t)r->base, r->bytes), "cuMemAddressFree");
    return ok || c->gone;
}

/* Ends every range that is nobody's; all: every range. True: none is left of them. */
static bool sweep(cuda *c, bool all)
{
    bool none = true, synced = false;
    for (cu_range **at = &c->ranges; *at;) {
        cu_range *r = *at;
        if (all || r->ended) {
            synced = synced || c->gone || stwi_cuda_ok(c, c->cu.synchronize(), "cuCtxSynchronize");
            if ((synced || c->gone) && range_end(c, r)) {
                *at = r->next;
                range_drop(r);
                continue;
            }
            none = false;
        }
        at = &r->next;
    }
    return none;
}

/* Address space for r, or plain memory; r is linked in. False: r is dropped. */
static bool range_begin(cuda *c, cu_range *r)
{
    cu_ptr p = 0;
    bool ok = c->plain ? stwi_cuda_ok(c, c->cu.alloc(&p, r->bytes), "cuMemAlloc")
                       : stwi_cuda_ok(c, c->cu.reserve(&p, r->bytes, c->granule, 0, 0), "cuMemAddressReserve");
    if (!ok) {
        range_drop(r);
        return false;
    }
    r->base = (char *)(uintptr_t)p;
    r->next = c->ranges;
    c->ranges = r;
    return true;
}

static void *cuda_reserve(void *ctx, size_t bytes)
{
    cuda *c = ctx;
    cuda_scope s;
    if (!stwi_cuda_enter(c, &s))
        return NULL;
    sweep(c, false);
    cu_range *r = range_make(c, c->plain ? 0 : bytes / c->granule, true);
    if (r && c->plain)
        r->bytes = bytes <= c->total_bytes ? bytes : c->plain_bytes;
    void *p = r && range_begin(c, r) ? r->base : NULL;
    stwi_cuda_leave(c, &s);
    return p;
}

static void cuda_release(void *ctx, void *p, size_t bytes)
{
    (void)bytes;
    cuda *c = ctx;
    cu_range *r = range_at(c, p);
    cuda_scope s;
    if (!r)
        return;
    r->ended = true;
    if (stwi_cuda_enter(c, &s)) {
        sweep(c, false);
        stwi_cuda_leave(c, &s);
    }
}

static void *cuda_alias(void *ctx, void *const *pieces, size_t n)
{
    cuda *c = ctx;
    cuda_scope s;
    if (c->plain || !stwi_cuda_enter(c, &s))
        return NULL;
    cu_range *r = range_make(c, n, false);
    void *p = r && range_begin(c, r) ? r->base : NULL;
    bool ok = p != NULL;
    const cu_range *from = NULL;
    for (size_t i = 0; ok && i < n; i++) {
        if (!from || (uintptr_t)pieces[i] - (uintptr_t)from->base >= from->bytes)
            from = range_at(c, pieces[i]);
        uint64_t g = from ? (uint64_t)((char *)pieces[i] - from->base) / c->granule : 0;
        ok = from && from->handles && (from->state[g] & HELD) &&
             stwi_cuda_ok(c, c->cu.map(place(c, r, i), c->granule, 0, from->handles[g], 0), "cuMemMap");
        if (ok)
            r->state[i] = MAPPED;
    }
    if (p && !(ok && stwi_cuda_ok(c, c->cu.set_access(place(c, r, 0), r->bytes, c->access, c->n_access), "cuMemSetAccess"))) {
        r->ended = true;
        if (range_end(c, r)) { /* nobody has used it: the device, where a stream may be capturing, need not be waited for */
            c->ranges = r->next;
            range_drop(r);
        }
        p = NULL;
    }
    stwi_cuda_leave(c, &s);
    return p;
}

static void cuda_unalias(void *ctx, void *p)
{
    cuda_release(ctx, p, 0);
}

void stwi_cuda_memory(stw_backend *b, bool plain)
{
    b->reserve = cuda_reserve;
    b->commit = cuda_commit;
    b->decommit = cuda_decommit;
    b->release = cuda_release;
    b->alias = plain ? NULL : cuda_alias;
    b->unalias = plain ? NULL : cuda_unalias;
}

void stwi_cuda_memory_drop(cuda *c, bool entered)
{
    if (entered && !sweep(c, true))
        sweep(c, true); /* once more: nobody will after this */
    for (cu_range *r = c->ranges, *next; r; r = next) { /* what the driver would not take back */
        next = r->next;
        range_drop(r);
    }
}
