/* plug.c: PyTorch's calls -> one stw_allocator for each device.
 *
 * A device's allocator is made at its first request, when the program has chosen its device and a plan's
 * memory is really wanted. Once published it never changes and is never destroyed, so the hot path reads one
 * pointer and no lock, and a tensor that is freed by the last static destructor finds everything in place.
 *
 * Fork. Nothing here is locked while allocators run, and the child begins with a lock of its own: a device
 * that another thread was making at that moment is not published and never will be, there. Device
 * memory is not a child's to use (CUDA's rule); its copies of tensors are freed into the void.
 */
#define _GNU_SOURCE
#include "conf.h"

#include "../stw_cuda.h"
#include "../stw_plan.h"
#include "../stw_record.h"
#include "old_dl.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define DEVICES 64 /* of CUDA; the host comes after them */
#define SLOTS (DEVICES + 1)

typedef struct {
    stw_allocator *a; /* atomic: NULL until it is made, then for ever */
    bool refused;     /* under the lock: there is no such device, it has been said */
    int index;        /* as PyTorch calls it */
    double fraction;  /* of the device's memory; 0: not said. Under the lock */
    uint64_t calls[2], ns[2]; /* atomic, with time:1: of malloc, of free */
} device;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of setting up */
static device devices[SLOTS];
static stwt_conf conf;        /* constant once `ready` */
static bool ready;            /* under the lock */
static bool plan_given;       /* under the lock: the plan of a path without {device} has its device */
static stw_recorder *recorder; /* constant once `ready`; NULL: none */
static int log_file = STDERR_FILENO;
static pid_t owner;           /* the process that was set up; a forked child is another */
static bool forked, exiting;  /* atomic */
static uint64_t strangers;    /* atomic: frees of what is not ours */

/* ---- words ---- */

/* Line by line, each with who says it. One write each, so that lines of several processes stay whole. */
static void say(void *ctx, const char *text)
{
    const device *d = ctx;
    char line[700], who[32] = "";
    if (d && d->index >= 0)
        snprintf(who, sizeof who, " cuda:%d", d->index);
    else if (d)
        snprintf(who, sizeof who, " cpu");
    for (size_t n; *text; text += n + (text[n] == '\n')) {
        n = strcspn(text, "\n");
        int bytes = snprintf(line, sizeof line, "stweaver%s: %.*s\n", who, n > 600 ? 600 : (int)n, text);
        ssize_t written = write(log_file, line, (size_t)bytes);
        (void)written; /* nobody left to tell */
    }
}

/* ---- setting up ---- */

static void at_exit(void)
{
    if (getpid() == owner)
        stw_torch_close();
    __atomic_store_n(&exiting, true, __ATOMIC_RELAXED);
}

static void in_child(void)
{
    __atomic_store_n(&forked, true, __ATOMIC_RELAXED);
    pthread_mutex_init(&lock, NULL);
}

/* The whole file in memory of its own; NULL: a sentence in err. */
static void *read_plan(const char *path, size_t *bytes, char *err, size_t err_bytes)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    off_t size = fd >= 0 ? lseek(fd, 0, SEEK_END) : 0; /* fstat would ask for a new libc */
    void *p = size > 0 ? mmap(NULL, *bytes = (size_t)size, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
    if (p == MAP_FAILED)
        snprintf(err, err_bytes, "plan %s: %s", path, fd < 0 ? "cannot be opened; `stweaver compile PROFILE -o PLAN` makes one" : "cannot be read, or is empty");
    if (fd >= 0)
        close(fd);
    return p == MAP_FAILED ? NULL : p;
}

/* Whether the plan is one: an allocator over address space that nobody uses tries it. */
static bool plan_is_good(const char *path, char *err, size_t err_bytes)
{
    size_t bytes, n;
    void *plan = read_plan(path, &bytes, err, err_bytes);
    if (!plan)
        return false;
    stw_backend host = stw_backend_host(0);
    stw_allocator *a = NULL;
    int head = snprintf(err, err_bytes, "plan %s: ", path);
    n = head < 0 || (size_t)head >= err_bytes ? 0 : (size_t)head;
    stw_status s = stw_create(&a, plan, bytes, NULL, &host, err + n, err_bytes - n);
    munmap(plan, bytes);
    stw_destroy(a);
    return s == STW_OK;
}

static bool set_up_locked(const char *mode, const char *plan, const char *text, char *err, size_t err_bytes)
{
    stwt_conf c;
    if (!stwt_conf_read(&c, mode, plan, text, err, err_bytes))
        return false;
    if (c.mode == STWT_PLAN && !strstr(c.plan, "{device}") && !plan_is_good(c.plan, err, err_bytes))
        return false;
    if (c.canary && !stwt_canary_start()) {
        snprintf(err, err_bytes, "canary: no address space of 64 GiB to be had (overcommit, ulimit -v)");
        return false;
    }
    int fd = STDERR_FILENO;
    if (*c.log && (fd = open(c.log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666)) < 0) {
        snprintf(err, err_bytes, "log %s: cannot be opened for writing", c.log);
        return false;
    }
    stw_record_options r = {.say = say, .allocator = "stweaver heap"};
    if (c.mode == STWT_RECORD && stw_recorder_open(&recorder, c.record, &r, err, err_bytes) != 0) {
        if (fd != STDERR_FILENO)
            close(fd);
        return false;
    }
    conf = c;
    log_file = fd;
    owner = getpid();
    for (int i = 0; i < SLOTS; i++)
        devices[i].index = i < DEVICES ? i : STW_TORCH_HOST;
    pthread_atfork(NULL, NULL, in_child);
    atexit(at_exit);
    return ready = true;
}

int stw_torch_setup(const char *mode, const char *plan, const char *text, char *err, size_t err_bytes)
{
    pthread_mutex_lock(&lock);
    bool done = !ready && set_up_locked(mode, plan, text, err, err_bytes);
    if (!done && ready)
        snprintf(err, err_bytes, "the allocator is set up already: this must come before the first request for memory, and once");
    pthread_mutex_unlock(&lock);
    return done ? 0 : -1;
}

/* From the environment; whatever is wrong with it, there is a heap afterwards. */
static void set_up_by_environment_locked(void)
{
    char err[STWT_PATH + 300] = "";
    if (ready || set_up_locked(NULL, NULL, NULL, err, sizeof err))
        return;
    say(NULL, err);
    say(NULL, "going on without a plan, by the heap");
    if (!set_up_locked("heap", "", NULL, err, sizeof err)) /* its conf may be what is wrong */
        set_up_locked("heap", "", "", err, sizeof err);
}

/* ---- a device's allocator ---- */

/* Bytes of device memory in all, as the driver says; 0: unknown. */
static uint64_t device_memory(int index)
{
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY);
    int (*get)(int *, int) = NULL, (*total)(size_t *, int) = NULL, ordinal;
    size_t bytes = 0;
    if (driver) {
        *(void **)&get = dlsym(driver, "cuDeviceGet");
        *(void **)&total = dlsym(driver, "cuDeviceTotalMem_v2");
    }
    return get && total && get(&ordinal, index) == 0 && total(&bytes, ordinal) == 0 ? bytes : 0;
}

static uint64_t least_limit(uint64_t a, uint64_t b)
{
    return a && (!b || a < b) ? a : b;
}

/* Most that d may hold; 0: no limit. */
static uint64_t capacity_locked(device *d)
{
    uint64_t all = d->index >= 0 && (conf.headroom || d->fraction > 0) ? device_memory(d->index) : 0, limit = conf.capacity;
    if (conf.headroom && all > conf.headroom)
        limit = least_limit(limit, all - conf.headroom);
    else if (conf.headroom && d->index >= 0)
        say(d, "headroom: the device's size is not known, or smaller than that; there is no limit");
    if (all && d->fraction > 0)
        limit = least_limit(limit, (uint64_t)((double)all * d->fraction));
    return limit;
}

static bool make_backend(device *d, stw_backend *b, char *err, size_t err_bytes)
{
    int kind = conf.backend != STWT_BACKEND_AUTO ? conf.backend : d->index >= 0 ? STWT_BACKEND_CUDA : STWT_BACKEND_HOST;
    if (kind == STWT_BACKEND_HOST) {
        *b = stw_backend_host(conf.granularity);
        return true;
    }
    stw_cuda_options o = {.device = d->index >= 0 ? d->index : 0, .primary = 1, .plain = conf.plain, .granularity = conf.granularity,
                          .say = say, .say_ctx = d};
    return stw_backend_cuda(b, &o, err, err_bytes) == STW_OK;
}

static stw_allocator *make_locked(device *d)
{
    char path[STWT_PATH], err[STWT_PATH + 300] = "";
    stw_allocator *a = NULL;
    stw_backend backend;
    void *plan = NULL;
    size_t bytes = 0;
    if (!make_backend(d, &backend, err, sizeof err)) {
        say(d, err);
        return NULL;
    }
    stw_options options = {.capacity_bytes = capacity_locked(d), .say = say, .say_ctx = d};
    if (conf.mode == STWT_PLAN && plan_given)
        say(d, "the plan is another device's; this one has the heap ({device} in the plan's path gives each its own)");
    else if (conf.mode == STWT_PLAN) {
        plan_given = !strstr(conf.plan, "{device}");
        if (stwt_replace(path, conf.plan, "{device}", d->index >= 0 ? d->index : 0))
            plan = read_plan(path, &bytes, err, sizeof err);
        if (plan && stw_create(&a, plan, bytes, &options, &backend, err, sizeof err) != STW_OK)
            say(d, path);
        if (!a) {
            say(d, err);
            say(d, "going on without a plan, by the heap");
        }
        if (plan)
            munmap(plan, bytes);
    }
    if (!a && stw_create(&a, NULL, 0, &options, &backend, err, sizeof err) != STW_OK)
        say(d, err);
    return a;
}

static device *slot_of(int index)
{
    if (index == STW_TORCH_HOST)
        return &devices[DEVICES];
    return index >= 0 && index < DEVICES ? &devices[index] : NULL;
}

/* NULL: none, and none is made. */
static stw_allocator *existing(const device *d)
{
    return d ? __atomic_load_n(&d->a, __ATOMIC_ACQUIRE) : NULL;
}

static __attribute__((noinline)) stw_allocator *first_request(device *d)
{
    if (!d)
        return NULL;
    pthread_mutex_lock(&lock);
    set_up_by_environment_locked();
    if (!d->a && !d->refused) {
        stw_allocator *a = make_locked(d);
        d->refused = a == NULL;
        __atomic_store_n(&d->a, a, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&lock);
    return d->a;
}

/* A child has no devices, and a process that is ending none that can be relied on. */
static bool out_of_reach(int index, const bool *flag)
{
    return index != STW_TORCH_HOST && __builtin_expect(__atomic_load_n(flag, __ATOMIC_RELAXED), 0);
}

/* ---- the calls ---- */

static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void clocked(device *d, int which, uint64_t began)
{
    __atomic_fetch_add(&d->ns[which], now() - began, __ATOMIC_RELAXED);
    __atomic_fetch_add(&d->calls[which], 1, __ATOMIC_RELAXED);
}

static int recorded_device(int index)
{
    return index < 0 ? 0 : index;
}

static bool host_can_write(int index)
{
    return conf.backend == STWT_BACKEND_HOST || (conf.backend == STWT_BACKEND_AUTO && index == STW_TORCH_HOST);
}

static double gib(uint64_t bytes)
{
    return (double)bytes / (1 << 30);
}

/* The words that programs look for come first ("CUDA out of memory."). */
static void refuse(const device *d, stw_allocator *a, size_t size, int index)
{
    char text[500];
    if (out_of_reach(index, &exiting))
        return;
    if (out_of_reach(index, &forked))
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

void *stw_torch_malloc(size_t size, int index, void *stream)
{
    if (size == 0)
        return NULL;
    device *d = slot_of(index);
    stw_allocator *a = existing(d);
    if (__builtin_expect(!a, 0))
        a = out_of_reach(index, &forked) || out_of_reach(index, &exiting) ? NULL : first_request(d);
    else if (out_of_reach(index, &forked) || out_of_reach(index, &exiting))
        a = NULL;
    uint64_t began = a && conf.time ? now() : 0;
    void *p = a ? stw_malloc(a, size, (uint64_t)(uintptr_t)stream) : NULL;
    if (began)
        clocked(d, 0, began);
    if (recorder && a)
        stw_recorder_malloc(recorder, p, size, recorded_device(index), (uint64_t)(uintptr_t)stream);
    if (__builtin_expect(!p, 0))
        refuse(d, a, size, index);
    else if (__builtin_expect(conf.canary, 0))
        stwt_canary_taken(p, size, host_can_write(index));
    return p;
}

/* Frees p if it is alive on d. */
static bool release(device *d, void *p)
{
    stw_allocator *a = existing(d);
    if (!a)
        return false;
    size_t bytes = conf.canary || recorder ? stw_size(a, p) : 1;
    if (bytes == 0)
        return false;
    if (conf.canary)
        stwt_canary_given(p, bytes);
    if (recorder)
        stw_recorder_free(recorder, p, recorded_device(d->index));
    uint64_t began = conf.time ? now() : 0;
    bool freed = stw_free(a, p) == 0;
    if (began)
        clocked(d, 1, began);
    return freed;
}

int stw_torch_release(void *p, int index)
{
    if (!p || out_of_reach(index, &forked) || out_of_reach(index, &exiting))
        return 0;
    return release(slot_of(index), p) ? 0 : -1;
}

void stw_torch_free(void *p, size_t size, int index, void *stream)
{
    (void)size, (void)stream;
    if (stw_torch_release(p, index) == 0)
        return;
    for (int i = 0; i < SLOTS; i++) /* whoever calls may be wrong about the device */
        if (&devices[i] != slot_of(index) && stw_size(existing(&devices[i]), p) > 0 && release(&devices[i], p))
            return;
    if (__atomic_fetch_add(&strangers, 1, __ATOMIC_RELAXED) == 0)
        say(NULL, "an address was freed that is not alive here: ignored, as all later ones are (strangers in the statistics)");
}

void stw_torch_reset(void)
{
    for (int i = 0; i < DEVICES; i++)
        if (!out_of_reach(i, &forked))
            stw_trim(existing(&devices[i]));
}

void stw_torch_memory_fraction(double fraction, int index)
{
    device *d = slot_of(index);
    if (!d || index < 0)
        return;
    pthread_mutex_lock(&lock);
    set_up_by_environment_locked();
    d->fraction = fraction < 1 ? fraction : 0; /* all of it is no limit */
    if (d->a && stw_set_capacity(d->a, capacity_locked(d)) != 0)
        say(d, "memory fraction: more than that is held already; the limit stays as it was");
    pthread_mutex_unlock(&lock);
}

void *stw_torch_base_alloc(void *p, size_t *size)
{
    for (int i = 0; i < SLOTS; i++) {
        size_t bytes = stw_size(existing(&devices[i]), p);
        if (bytes > 0 && size)
            *size = bytes;
    }
    return p;
}

void stw_torch_record_stream(void *p, void *stream)
{
    for (int i = 0; i < DEVICES; i++) {
        stw_allocator *a = existing(&devices[i]);
        if (out_of_reach(i, &forked) || stw_size(a, p) == 0)
            continue;
        stw_record_stream(a, p, (uint64_t)(uintptr_t)stream);
        if (recorder)
            stw_recorder_record_stream(recorder, p, i, (uint64_t)(uintptr_t)stream);
        return;
    }
}

void stw_torch_mark(uint32_t kind, int64_t value, const char *name)
{
    if (recorder)
        stw_recorder_mark(recorder, kind, value, name);
    for (int i = 0; i < SLOTS; i++)
        stw_mark(existing(&devices[i]), kind, value, name);
}

/* ---- looking ---- */

size_t stw_torch_report(int index, char *out, size_t room)
{
    return stw_report(existing(slot_of(index)), out, room);
}

void stw_torch_reset_peaks(int index)
{
    stw_reset_peaks(existing(slot_of(index)));
}

size_t stw_torch_stats(int index, char *out, size_t room)
{
    device *d = slot_of(index);
    stw_allocator *a = existing(d);
    if (!a)
        return (size_t)snprintf(out, out ? room : 0, "{}");
    stw_stats s;
    stw_get_stats(a, &s);
    uint64_t calls[2];
    for (int i = 0; i < 2; i++)
        calls[i] = __atomic_load_n(&d->calls[i], __ATOMIC_RELAXED);
    const struct { const char *name; uint64_t value; } all[] = {
#define FIELD(name) {#name, s.name}
        FIELD(requests), FIELD(frees), FIELD(hits), FIELD(conflicts), FIELD(too_large), FIELD(dynamic), FIELD(guests), FIELD(unknown),
        FIELD(slow), FIELD(resyncs), FIELD(restarts), FIELD(failed), FIELD(bad_free), FIELD(live_bytes), FIELD(peak_live_bytes),
        FIELD(heap_live_bytes), FIELD(heap_peak_bytes), FIELD(reserved_bytes), FIELD(peak_reserved_bytes), FIELD(arena_bytes),
        FIELD(static_fallback_bytes), FIELD(sweeps), FIELD(trims), FIELD(returned_bytes), FIELD(event_records), FIELD(event_waits),
        FIELD(deferred), FIELD(position), FIELD(atoms),
#undef FIELD
        {"strangers", __atomic_load_n(&strangers, __ATOMIC_RELAXED)},
        {"canary_faults", stwt_canary_faults()},
        {"ns_malloc", calls[0] ? __atomic_load_n(&d->ns[0], __ATOMIC_RELAXED) / calls[0] : 0},
        {"ns_free", calls[1] ? __atomic_load_n(&d->ns[1], __ATOMIC_RELAXED) / calls[1] : 0},
    };
    size_t n = 0, count = sizeof all / sizeof *all;
    for (size_t i = 0; i < count; i++)
        n += (size_t)snprintf(n < room ? out + n : NULL, n < room ? room - n : 0, "%s\"%s\":%llu%s", i ? "," : "{", all[i].name,
                              (unsigned long long)all[i].value, i + 1 < count ? "" : "}");
    return n;
}

void stw_torch_close(void)
{
    static bool closed;
    char text[2000];
    if (__atomic_exchange_n(&closed, true, __ATOMIC_RELAXED) || __atomic_load_n(&forked, __ATOMIC_RELAXED))
        return;
    for (int i = 0; i < SLOTS; i++) {
        stw_allocator *a = existing(&devices[i]);
        stw_stats s;
        if (!a)
            continue;
        stw_get_stats(a, &s);
        stw_recorder_held(recorder, recorded_device(devices[i].index), s.peak_reserved_bytes);
        if (conf.report) {
            stw_report(a, text, sizeof text);
            say(&devices[i], text);
        }
    }
    if (!recorder)
        return;
    stw_record_stats r;
    bool whole = stw_recorder_finish(recorder, text, sizeof text) == 0;
    stw_recorder_get_stats(recorder, &r);
    if (whole)
        snprintf(text, sizeof text, "recorded %llu events in %s", (unsigned long long)r.events, conf.record);
    if (!whole || conf.report)
        say(NULL, text);
}
