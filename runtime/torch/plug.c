/* plug.c: PyTorch's calls, and what people want to know. Which allocator a device has, and from when on, is
 * devices.c's matter.
 */
#define _DEFAULT_SOURCE
#include "process.h"

#include <stdio.h>
#include <time.h>

/* A child has no devices, and a process that is ending none that can be relied on. Why the device is out of
 * reach; 0: it is not. */
static int away(int index)
{
    return index == STW_TORCH_HOST ? 0 : __atomic_load_n(&stwt.away, __ATOMIC_RELAXED);
}

static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void clocked(int which, uint64_t began)
{
    uint64_t i = (now() - began) / STWT_STEP;
    __atomic_fetch_add(&stwt.times[which][i < STWT_TIMES ? i : STWT_TIMES - 1], 1, __ATOMIC_RELAXED);
}

/* Half of the calls took no longer, in ns, the clock included; 0: none was measured. */
static uint64_t median_time(int which)
{
    uint64_t sum = 0, half = 0, i;
    for (i = 0; i < STWT_TIMES; i++)
        sum += __atomic_load_n(&stwt.times[which][i], __ATOMIC_RELAXED);
    for (i = 0; sum > 0 && i < STWT_TIMES; i++) {
        half += __atomic_load_n(&stwt.times[which][i], __ATOMIC_RELAXED);
        if (2 * half >= sum)
            return (i + 1) * STWT_STEP;
    }
    return 0;
}

static int recorded_device(int index)
{
    return index < 0 ? 0 : index;
}

static double gib(uint64_t bytes)
{
    return (double)bytes / (1 << 30);
}

/* The words that programs look for come first ("CUDA out of memory."). */
static void refuse(const stwt_device *d, stw_allocator *a, size_t size, int index)
{
    char text[500];
    if (away(index) == STWT_ENDING)
        return;
    if (away(index) == STWT_FORKED)
        snprintf(text, sizeof text, "stweaver: CUDA memory cannot be used in a forked process; start it by spawn");
    else if (!d || !a)
        snprintf(text, sizeof text, "stweaver: no memory of device %d can be had; the log says why", index);
    else {
        stw_stats s;
        stw_get_stats(a, &s);
        snprintf(text, sizeof text, "%s out of memory. Tried to allocate %.2f GiB. stweaver on device %d has %.2f GiB allocated and "
                 "%.2f GiB reserved, of it %.2f GiB for the plan.", index >= 0 ? "CUDA" : "CPU", gib(size), index, gib(s.live_bytes),
                 gib(s.reserved_bytes), gib(s.arena_bytes));
    }
    stwt_throw_out_of_memory(text);
}

/* From the device's allocator; NULL: no memory. */
static inline void *serve(const stwt_device *d, stw_allocator *a, size_t size, void *stream)
{
    uint64_t handle = (uint64_t)(uintptr_t)stream, began = stwt.conf.time ? now() : 0;
    void *p = stw_malloc(a, size, handle);
    if (began)
        clocked(0, began);
    if (stwt.recorder)
        stw_recorder_malloc(stwt.recorder, p, size, recorded_device(d->index), handle);
    return p;
}

void *stw_torch_malloc(size_t size, int index, void *stream)
{
    if (size == 0)
        return NULL;
    void *p = NULL;
    stwt_device *d = stwt_device_of(index);
    stw_allocator *a = NULL;
    if (d && !away(index) && (a = stwt_existing(d)) == NULL)
        a = stwt_first_request(d);
    bool capture = a && __builtin_expect(__atomic_load_n(&d->open, __ATOMIC_ACQUIRE) != NULL, 0);
    if (a && !(capture && stwt_pool_malloc(d, size, stream, &p)))
        p = serve(d, a, size, stream);
    if (__builtin_expect(!p, 0))
        refuse(d, a, size, index);
    else if (__builtin_expect(stwt.conf.canary, 0))
        stwt_canary_taken(p, size, stwt_is_host(d));
    return p;
}

static bool in_a_pool(stwt_device *d, void *p)
{
    return __builtin_expect(__atomic_load_n(&d->pools, __ATOMIC_ACQUIRE) != NULL, 0) && stwt_pool_free(d, p);
}

/* Frees p if it is alive on d. */
static bool release(stwt_device *d, void *p)
{
    stw_allocator *a = stwt_existing(d);
    if (!a)
        return false;
    if (in_a_pool(d, p))
        return true;
    size_t bytes = stwt.conf.canary || stwt.recorder ? stw_size(a, p) : 1;
    if (bytes == 0)
        return false;
    if (stwt.conf.canary)
        stwt_canary_given(p, bytes);
    if (stwt.recorder)
        stw_recorder_free(stwt.recorder, p, recorded_device(d->index));
    uint64_t began = stwt.conf.time ? now() : 0;
    bool freed = stw_free(a, p) == 0;
    if (began)
        clocked(1, began);
    return freed;
}

int stw_torch_release(void *p, int index)
{
    if (!p || away(index))
        return 0;
    return release(stwt_device_of(index), p) ? 0 : -1;
}

void stw_torch_free(void *p, size_t size, int index, void *stream)
{
    (void)size, (void)stream;
    if (stw_torch_release(p, index) == 0)
        return;
    for (int i = 0; i < STWT_SLOTS; i++) { /* whoever calls may be wrong about the device */
        stwt_device *d = &stwt.devices[i];
        if (in_a_pool(d, p) || (stw_size(stwt_existing(d), p) > 0 && release(d, p)))
            return;
    }
    if (__atomic_fetch_add(&stwt.strangers, 1, __ATOMIC_RELAXED) == 0)
        stwt_say(NULL, "an address was freed that is not alive here: ignored, as all later ones are (strangers in the statistics)");
}

void stw_torch_reset(void)
{
    for (int i = 0; i < STWT_DEVICES; i++)
        if (!away(i) && !__atomic_load_n(&stwt.devices[i].open, __ATOMIC_ACQUIRE)) /* a capture would break */
            stw_trim(stwt_existing(&stwt.devices[i]));
}

void *stw_torch_base_alloc(void *p, size_t *size)
{
    for (int i = 0; i < STWT_SLOTS; i++) {
        stwt_device *d = &stwt.devices[i];
        size_t bytes = stw_size(stwt_existing(d), p);
        if (bytes == 0 && __atomic_load_n(&d->pools, __ATOMIC_ACQUIRE))
            bytes = stwt_pool_size(d, p);
        if (bytes > 0 && size)
            *size = bytes;
    }
    return p;
}

void stw_torch_record_stream(void *p, void *stream)
{
    for (int i = 0; i < STWT_DEVICES; i++) {
        stw_allocator *a = away(i) ? NULL : stwt_existing(&stwt.devices[i]);
        if (!a || stwt_pool_record_stream(&stwt.devices[i], p, stream) || stw_size(a, p) == 0)
            continue;
        stw_record_stream(a, p, (uint64_t)(uintptr_t)stream);
        if (stwt.recorder)
            stw_recorder_record_stream(stwt.recorder, p, i, (uint64_t)(uintptr_t)stream);
    }
}

void stw_torch_mark(uint32_t kind, int64_t value, const char *name)
{
    if (stwt.recorder)
        stw_recorder_mark(stwt.recorder, kind, value, name);
    for (int i = 0; i < STWT_SLOTS; i++)
        stw_mark(stwt_existing(&stwt.devices[i]), kind, value, name);
}

/* ---- looking ---- */

size_t stw_torch_report(int index, char *out, size_t room)
{
    return stw_report(stwt_existing(stwt_device_of(index)), out, room);
}

void stw_torch_reset_peaks(int index)
{
    stw_reset_peaks(stwt_existing(stwt_device_of(index)));
}

size_t stw_torch_stats(int index, char *out, size_t room)
{
    stw_allocator *a = stwt_existing(stwt_device_of(index));
    if (!a)
        return (size_t)snprintf(out, out ? room : 0, "{}");
    stw_stats s;
    uint64_t pool_live, pool_reserved;
    stw_get_stats(a, &s);
    stwt_pool_bytes(stwt_device_of(index), &pool_live, &pool_reserved);
    const struct { const char *name; uint64_t value; } all[] = {
#define FIELD(name) {#name, s.name}
        FIELD(requests), FIELD(frees), FIELD(hits), FIELD(conflicts), FIELD(too_large), FIELD(dynamic), FIELD(guests), FIELD(unknown),
        FIELD(slow), FIELD(resyncs), FIELD(restarts), FIELD(zero_size), FIELD(failed), FIELD(bad_free), FIELD(live_bytes), FIELD(peak_live_bytes),
        FIELD(heap_live_bytes), FIELD(heap_peak_bytes), FIELD(reserved_bytes), FIELD(peak_reserved_bytes), FIELD(arena_bytes),
        FIELD(static_fallback_bytes), FIELD(sweeps), FIELD(trims), FIELD(returned_bytes), FIELD(moves), FIELD(moved_bytes),
        FIELD(set_aside), FIELD(event_records), FIELD(event_waits), FIELD(young_waits), FIELD(waited_age), FIELD(event_failures), FIELD(deferred), FIELD(stitched),
        FIELD(stitches), FIELD(stitch_bytes), FIELD(position), FIELD(atoms),
#undef FIELD
        {"pool_live_bytes", pool_live},
        {"pool_reserved_bytes", pool_reserved},
        {"strangers", __atomic_load_n(&stwt.strangers, __ATOMIC_RELAXED)},
        {"canary_faults", stwt_canary_faults()},
        {"ns_malloc", median_time(0)},
        {"ns_free", median_time(1)},
    };
    size_t n = 0, count = sizeof all / sizeof *all;
    static_assert(sizeof all / sizeof *all == sizeof s / sizeof s.requests + 6, "a counter is not told");
    for (size_t i = 0; i < count; i++)
        n += (size_t)snprintf(n < room ? out + n : NULL, n < room ? room - n : 0, "%s\"%s\":%llu%s", i ? "," : "{", all[i].name,
                              (unsigned long long)all[i].value, i + 1 < count ? "" : "}");
    return n;
}

void stw_torch_close(void)
{
    static bool closed;
    char text[STWT_PATH + 200];
    if (__atomic_exchange_n(&closed, true, __ATOMIC_RELAXED) || away(0) == STWT_FORKED)
        return;
    for (int i = 0; i < STWT_SLOTS; i++) {
        stw_allocator *a = stwt_existing(&stwt.devices[i]);
        stw_stats s;
        if (!a)
            continue;
        stw_get_stats(a, &s);
        stw_recorder_held(stwt.recorder, recorded_device(stwt.devices[i].index), s.peak_reserved_bytes);
        if (stwt.conf.report) {
            stw_report(a, text, sizeof text);
            stwt_say(&stwt.devices[i], text);
        }
    }
    if (!stwt.recorder)
        return;
    stw_record_stats r;
    bool whole = stw_recorder_finish(stwt.recorder, text, sizeof text) == 0;
    stw_recorder_get_stats(stwt.recorder, &r);
    if (whole)
        snprintf(text, sizeof text, "recorded %llu events in %s", (unsigned long long)r.events, stwt.conf.record);
    if (!whole || stwt.conf.report)
        stwt_say(NULL, text);
}
