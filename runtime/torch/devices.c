/* devices.c: from what the user asked for to one stw_allocator for each device.
 *
 * A device's allocator is made at its first request, when the program has chosen its device and a plan's
 * memory is really wanted. Once published it never changes and is never destroyed, so the hot path reads one
 * pointer and no lock, and a tensor that is freed by the last static destructor finds everything in place.
 *
 * Fork. Nothing is locked here while allocators run, and the child begins with a lock of its own: a device
 * that another thread was making at that moment is not published and never will be, there. Device
 * memory is not a child's to use (CUDA's rule): its copies of tensors are freed into the void.
 */
#define _GNU_SOURCE
#include "process.h"

#include "../stw_cuda.h"
#include "../old_dl.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

stwt_process stwt;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of setting up */
static bool ready;      /* under the lock */
static bool plan_given; /* under the lock: the plan of a path without {device} has its device */
static int log_file = STDERR_FILENO;
static pid_t owner;     /* the process that was set up; a forked child is another */

/* ---- words ---- */

/* Line by line, each with who says it. One write each, so that lines of several processes stay whole. */
void stwt_say(void *ctx, const char *text)
{
    const stwt_device *d = ctx;
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
    __atomic_store_n(&stwt.away, STWT_ENDING, __ATOMIC_RELAXED);
}

static void in_child(void)
{
    __atomic_store_n(&stwt.away, STWT_FORKED, __ATOMIC_RELAXED);
    pthread_mutex_init(&lock, NULL);
    stwt_pools_in_child();
    stwt_canary_in_child();
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

/* An allocator for the plan at path; NULL: a sentence in err. */
static stw_allocator *allocator_of_plan(const char *path, const stw_options *options, const stw_backend *backend, char *err,
                                        size_t err_bytes)
{
    size_t bytes;
    stw_allocator *a = NULL;
    void *plan = read_plan(path, &bytes, err, err_bytes);
    if (!plan)
        return NULL;
    int n = snprintf(err, err_bytes, "plan %s: ", path);
    if (n < 0 || (size_t)n >= err_bytes)
        n = 0;
    stw_create(&a, plan, bytes, options, backend, err + n, err_bytes - (size_t)n);
    munmap(plan, bytes);
    return a;
}

/* Whether the plan is one: an allocator over address space that nobody uses tries it. */
static bool plan_is_good(const char *path, char *err, size_t err_bytes)
{
    stw_backend host = stw_backend_host(0);
    stw_allocator *a = allocator_of_plan(path, NULL, &host, err, err_bytes);
    stw_destroy(a);
    return a != NULL;
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
    stw_record_options r = {.say = stwt_say, .allocator = "stweaver heap"};
    if (c.mode == STWT_RECORD && stw_recorder_open(&stwt.recorder, c.record, &r, err, err_bytes) != 0) {
        if (fd != STDERR_FILENO)
            close(fd);
        return false;
    }
    stwt.conf = c;
    log_file = fd;
    owner = getpid();
    for (int i = 0; i < STWT_SLOTS; i++)
        stwt.devices[i].index = i < STWT_DEVICES ? i : STW_TORCH_HOST;
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
    stwt_say(NULL, err);
    stwt_say(NULL, "going on without a plan, by the heap");
    if (!set_up_locked("heap", "", NULL, err, sizeof err)) /* its conf may be what is wrong */
        set_up_locked("heap", "", "", err, sizeof err);
}

/* ---- a device's allocator ---- */

/* Bytes of device memory in all, as the driver says; 0: unknown. */
static uint64_t device_memory(int index)
{
    void *driver = dlopen(*stwt.conf.library ? stwt.conf.library : "libcuda.so.1", RTLD_LAZY);
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
static uint64_t capacity_locked(stwt_device *d)
{
    uint64_t all = d->index >= 0 && (stwt.conf.headroom || d->fraction > 0) ? device_memory(d->index) : 0, limit = stwt.conf.capacity;
    if (stwt.conf.headroom && all > stwt.conf.headroom)
        limit = least_limit(limit, all - stwt.conf.headroom);
    else if (stwt.conf.headroom && d->index >= 0 && !d->a)
        stwt_say(d, "headroom: the device's size is not known, or smaller than that; there is no limit");
    if (all && d->fraction > 0)
        limit = least_limit(limit, (uint64_t)((double)all * d->fraction));
    return limit;
}

static uint64_t left_locked(stwt_device *d, uint64_t elsewhere)
{
    uint64_t limit = capacity_locked(d);
    return !limit ? 0 : limit > elsewhere ? limit - elsewhere : 1;
}

uint64_t stwt_left(stwt_device *d, uint64_t elsewhere)
{
    pthread_mutex_lock(&lock);
    set_up_by_environment_locked();
    uint64_t left = left_locked(d, elsewhere);
    pthread_mutex_unlock(&lock);
    return left;
}

static bool make_backend(stwt_device *d, stw_backend *b, char *err, size_t err_bytes)
{
    if (stwt_is_host(d)) {
        *b = stw_backend_host(stwt.conf.granularity);
        return true;
    }
    stw_cuda_options o = {.device = d->index >= 0 ? d->index : 0, .primary = 1, .plain = stwt.conf.plain, .granularity = stwt.conf.granularity,
                          .library = *stwt.conf.library ? stwt.conf.library : NULL, .say = stwt_say, .say_ctx = d};
    return stw_backend_cuda(b, &o, err, err_bytes) == STW_OK;
}

void stwt_drop_backend(const stwt_device *d, stw_backend *b)
{
    if (!stwt_is_host(d))
        stw_backend_cuda_close(b);
}

static int always(void *ctx, uint64_t stream)
{
    (void)ctx, (void)stream;
    return 1;
}

stw_allocator *stwt_make_heap(stwt_device *d, uint64_t capacity, stw_backend *backend)
{
    char err[300];
    stw_allocator *a = NULL;
    pthread_mutex_lock(&lock);
    set_up_by_environment_locked();
    /* What is idle must keep its memory: a graph goes on using it. */
    stw_options options = {.capacity_bytes = capacity, .still = 1,
                           .heap_bytes = stwt_is_host(d) ? 0 : device_memory(d->index)}; /* there may be many */
    bool made = make_backend(d, backend, err, sizeof err);
    backend->capturing = always; /* also under pressure */
    if (made && stw_create(&a, NULL, 0, &options, backend, err, sizeof err) != STW_OK)
        stwt_drop_backend(d, backend);
    if (!a)
        stwt_say(d, err);
    pthread_mutex_unlock(&lock);
    return a;
}

static stw_allocator *make_locked(stwt_device *d)
{
    char path[STWT_PATH], err[STWT_PATH + 300] = "";
    stw_allocator *a = NULL;
    stw_backend backend;
    if (!make_backend(d, &backend, err, sizeof err)) {
        stwt_say(d, err);
        return NULL;
    }
    stw_options options = {.capacity_bytes = capacity_locked(d), .stitch_bytes = backend.alias ? stwt.conf.stitch : 0, .say = stwt_say, .say_ctx = d, .still = stwt.conf.plain};
    if (stwt.conf.stitch && !backend.alias && d->index >= 0)
        stwt_say(d, "stitch: memory of this kind cannot be mapped twice; no request is made of pieces");
    if (stwt.conf.mode == STWT_PLAN && plan_given)
        stwt_say(d, "the plan is another device's; this one has the heap ({device} in the plan's path gives each its own)");
    else if (stwt.conf.mode == STWT_PLAN) {
        plan_given = !strstr(stwt.conf.plan, "{device}");
        if (stwt_replace(path, stwt.conf.plan, "{device}", d->index >= 0 ? d->index : 0))
            a = allocator_of_plan(path, &options, &backend, err, sizeof err);
        if (!a) {
            stwt_say(d, err);
            stwt_say(d, "going on without a plan, by the heap");
        }
    }
    if (!a && stw_create(&a, NULL, 0, &options, &backend, err, sizeof err) != STW_OK)
        stwt_say(d, err);
    return a;
}

stw_allocator *stwt_first_request(stwt_device *d)
{
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

void stw_torch_memory_fraction(double fraction, int index)
{
    stwt_device *d = stwt_device_of(index);
    if (!d || index < 0)
        return;
    uint64_t live, pools;
    stwt_pool_bytes(d, &live, &pools);
    pthread_mutex_lock(&lock);
    set_up_by_environment_locked();
    d->fraction = fraction < 1 ? fraction : 0; /* all of it is no limit */
    if (__atomic_load_n(&d->open, __ATOMIC_ACQUIRE))
        stwt_say(d, "memory fraction: not while a graph is captured; the limit stays as it was");
    else if (d->a && stw_set_capacity(d->a, left_locked(d, pools)) != 0)
        stwt_say(d, "memory fraction: more than that is held already; the limit stays as it was");
    pthread_mutex_unlock(&lock);
}
