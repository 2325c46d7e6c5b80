/* libcuda_double.c: a double of the CUDA driver for tests, over memory of this machine.
 *
 * Physical memory is a file in memory; a piece of it is a range of that file, and mapping it is mmap of that
 * range, so that one piece mapped at two addresses is one piece. Address space is memory without access.
 *
 * It holds its caller to the driver's rules, as documented, and to a few that the driver lets pass: a context is current;
 * sizes and addresses are multiples of the granularity; an allocation is mapped and unmapped whole, onto nothing that is mapped;
 * address space is given back whole and empty; nothing is released twice; what is destroyed is not used; work that runs
 * finds its memory mapped, and accessible to its device; a captured stream is not asked for, and while one captures nothing is
 * synchronised, nor anything unsafe called by a thread that did not say so. What breaks a rule is answered with an error and
 * counted as misuse.
 */
#define _GNU_SOURCE
#include "libcuda_double_internal.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

double_config double_is = {.devices = 1, .granularity = (size_t)2 << 20, .memory = (size_t)1 << 40};
double_live double_now;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static context primary[MAX_DEVICES];
static context *contexts; /* the dead ones, too */
static unsigned long misuses;
static char why[200];
static __thread context *current[DEPTH];
static __thread int depth;
static const char *const names[CALLS + 1] = {
#define X(field, name, arguments) name,
    CU_CALLS(X)
#undef X
};
static long calls[CALLS], fail_left;
static int fail_call, fail_code, failed = -1;
static bool fail_forever;

int double_held(void)
{
    pthread_mutex_lock(&lock);
    return 0;
}

void double_let_go(const int *held)
{
    (void)held;
    pthread_mutex_unlock(&lock);
}

cu_result double_misuse(const char *call, const char *what, cu_result code)
{
    if (misuses++ == 0)
        snprintf(why, sizeof why, "%s: %s", call, what);
    return code;
}

cu_result double_entered(int call)
{
    calls[call]++;
    if ((fail_call == CALLS || fail_call == call) && fail_left > 0 && --fail_left == 0) {
        fail_left = fail_forever;
        failed = call;
        return fail_code;
    }
    return CU_OK;
}

context *double_top(void)
{
    return depth > 0 ? current[depth - 1] : NULL;
}

context *double_primary(void)
{
    return &primary[0];
}

cu_result double_need_context(const char *call)
{
    if (!double_top())
        return double_misuse(call, "no context is current", INVALID_CONTEXT);
    return double_top()->dead ? double_misuse(call, "the context is dead", CU_CONTEXT_IS_DESTROYED) : CU_OK;
}

/* ---- device and context ---- */

STW_API cu_result cuInit(unsigned flags)
{
    BEGIN(init);
    return flags == 0 ? CU_OK : double_misuse("cuInit", "flags", INVALID);
}

STW_API cu_result cuGetErrorName(cu_result e, const char **s)
{
    BEGIN(error_name);
    *s = e == CU_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : e == 999 ? "CUDA_ERROR_UNKNOWN" : NULL;
    return *s ? CU_OK : INVALID;
}

STW_API cu_result cuGetErrorString(cu_result e, const char **s)
{
    BEGIN(error_string);
    *s = e == CU_OUT_OF_MEMORY ? "out of memory" : NULL;
    return *s ? CU_OK : INVALID;
}

STW_API cu_result cuDeviceGetCount(int *n)
{
    BEGIN(device_count);
    *n = double_is.devices;
    return CU_OK;
}

STW_API cu_result cuDeviceGet(cu_device *d, int ordinal)
{
    BEGIN(device);
    *d = ordinal;
    return ordinal >= 0 && ordinal < double_is.devices ? CU_OK : 101;
}

STW_API cu_result cuDeviceGetAttribute(int *v, int which, cu_device d)
{
    BEGIN(device_attribute);
    (void)d;
    *v = which == CU_HAS_VMM ? !double_is.no_vmm : which == CU_HAS_SHARE_FD ? !double_is.no_fd : which == CU_HAS_RDMA ? !double_is.no_rdma
         : which == CU_HAS_SHARE_FABRIC ? double_is.fabric : -1;
    return *v < 0 ? double_misuse("cuDeviceGetAttribute", "unknown", INVALID) : CU_OK;
}

STW_API cu_result cuDeviceTotalMem_v2(size_t *n, cu_device d)
{
    BEGIN(device_memory);
    (void)d;
    *n = double_is.memory;
    return CU_OK;
}

STW_API cu_result cuDeviceCanAccessPeer(int *can, cu_device from, cu_device to)
{
    BEGIN(device_reaches);
    int lone = double_is.devices - 1;
    *can = from != to && from != lone && to != lone;
    return CU_OK;
}

STW_API cu_result cuDevicePrimaryCtxRetain(cu_context *c, cu_device d)
{
    BEGIN(primary_retain);
    primary[d].device = d;
    primary[d].retained++;
    double_now.primaries++;
    *c = &primary[d];
    return CU_OK;
}

STW_API cu_result cuDevicePrimaryCtxRelease_v2(cu_device d)
{
    BEGIN(primary_release);
    NEED(primary[d].retained > 0, "cuDevicePrimaryCtxRelease", "more often than retained");
    primary[d].retained--;
    double_now.primaries--;
    return CU_OK;
}

STW_API cu_result cuCtxGetCurrent(cu_context *c)
{
    BEGIN(context);
    *c = double_top();
    return CU_OK;
}

STW_API cu_result cuCtxGetDevice(cu_device *d)
{
    BEGIN(context_device);
    TRY(double_need_context("cuCtxGetDevice"));
    *d = double_top()->device;
    return CU_OK;
}

STW_API cu_result cuCtxPushCurrent_v2(cu_context c)
{
    BEGIN(push);
    NEED(c && depth < DEPTH, "cuCtxPushCurrent", "null, or too deep");
    if (((context *)c)->dead)
        return CU_CONTEXT_IS_DESTROYED; /* the program's own doing */
    current[depth++] = c;
    return CU_OK;
}

STW_API cu_result cuCtxPopCurrent_v2(cu_context *c)
{
    BEGIN(pop);
    NEED(depth > 0, "cuCtxPopCurrent", "nothing was pushed");
    *c = current[--depth];
    return CU_OK;
}

/* ---- the tests' side ---- */

static void reset(const double_config *c)
{
    double_held();
    double_work_reset();
    for (context *k = contexts, *next; k; k = next) {
        next = k->next;
        free(k);
    }
    contexts = NULL;
    double_memory_reset();
    double_is = *c;
    double_now = (double_live){0};
    memset(primary, 0, sizeof primary);
    memset(calls, 0, sizeof calls);
    misuses = 0;
    fail_left = depth = 0;
    failed = -1;
    double_let_go(NULL);
}

static int call_of(const char *name)
{
    int i = 0;
    while (i < CALLS && name && strcmp(names[i], name) != 0)
        i++;
    return name ? i : CALLS;
}

static void fail(const char *name, long k, int code, bool forever)
{
    double_held();
    fail_call = call_of(name);
    fail_left = k;
    fail_code = code;
    fail_forever = forever;
    failed = -1;
    double_let_go(NULL);
}

static long count(const char *name)
{
    long n = 0;
    double_held();
    for (int i = 0; i < CALLS; i++)
        n += !name || strcmp(names[i], name) == 0 ? calls[i] : 0;
    double_let_go(NULL);
    return n;
}

static const char *call_name(int i)
{
    return i >= 0 && i < CALLS ? names[i] : NULL;
}

static const char *what_failed(void)
{
    return call_name(failed);
}

static double_live how_many(void)
{
    double_held();
    double_live l = double_now;
    double_let_go(NULL);
    return l;
}

static unsigned long misuse(const char **text)
{
    double_held();
    unsigned long n = misuses;
    if (text)
        *text = why;
    double_let_go(NULL);
    return n;
}

static void forgive(void)
{
    double_held();
    misuses = 0;
    double_work_forgive();
    double_let_go(NULL);
}

static void *context_make(int device)
{
    context *c = calloc(1, sizeof *c);
    if (!c)
        abort();
    double_held();
    *c = (context){.next = contexts, .device = device};
    contexts = c;
    double_let_go(NULL);
    return c;
}

static void context_kill(void *c)
{
    double_held();
    ((context *)c)->dead = true; /* its record stays, so that its use is seen */
    double_let_go(NULL);
}

STW_API const double_api double_control;
const double_api double_control = {
    reset,        fail,          count,         call_name,             what_failed,   how_many,        misuse,       forgive,
    context_make, context_kill,  double_stream, double_destroy_stream, double_launch, double_progress, double_wrong, double_capture,
    double_capture_end, double_reach, double_share, double_same,
};
