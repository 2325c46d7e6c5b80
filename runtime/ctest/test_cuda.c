/* test_cuda.c: the CUDA backend on a double of the driver: what it asks for, what it refuses, whose context it
 * leaves behind, captures, events, plain memory, several devices at once.
 */
#include "cuda_scene.h"

#include <pthread.h>

static void start(const double_config *c)
{
    gpu->reset(c);
}

static stw_status open_with(stw_backend *b, stw_cuda_options o)
{
    return stw_backend_cuda(b, &o, message, sizeof message);
}

/* Each wish that cannot be met is refused with a sentence that says which, and leaves nothing behind. */
static void test_refusals(void)
{
    const double_config normal = small_device();
    double_config old = normal, closed = normal;
    old.no_vmm = true;
    closed.no_fd = true;
    const struct {
        const double_config *device;
        stw_cuda_options o;
        stw_status status;
        const char *word;
    } cases[] = {
        {&normal, {.primary = 1, .library = "libnothing.so.9"}, STW_E_DEVICE, "libnothing.so.9"},
        {&normal, {.primary = 1, .library = "libc.so.6"}, STW_E_DEVICE, "cuInit"},
        {&normal, {.primary = 1, .device = 3}, STW_E_DEVICE, "there are 3"},
        {&normal, {.primary = 1, .device = -1}, STW_E_DEVICE, "device -1"},
        {&normal, {.primary = 0}, STW_E_DEVICE, "no context"},
        {&normal, {.primary = 1, .granularity = 3 << 16}, STW_E_ARG, "power of two"},
        {&normal, {.primary = 1, .granularity = 4096}, STW_E_ARG, "65536"},
        {&normal, {.primary = 1, .n_peers = 65}, STW_E_ARG, "peers"},
        {&normal, {.primary = 1, .n_peers = 2, .peers = {1, 2}}, STW_E_DEVICE, "device 2 cannot reach"},
        {&normal, {.primary = 1, .n_peers = 1, .peers = {7}}, STW_E_DEVICE, "cuDeviceGet"},
        {&normal, {.primary = 1, .plain = 1, .rdma = 1}, STW_E_ARG, "plain"},
        {&old, {.primary = 1}, STW_E_DEVICE, "plain"},
        {&closed, {.primary = 1, .share = STW_CUDA_SHARE_FD}, STW_E_DEVICE, "file descriptors"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        stw_backend b;
        start(cases[i].device);
        bool right = CHECK_EQ(open_with(&b, cases[i].o), cases[i].status) & CHECK(strstr(message, cases[i].word) != NULL) & CHECK(b.ctx == NULL);
        if (!right)
            printf("  case %zu: %s\n", i, message);
        stw_backend_cuda_close(&b);
        check_clean("a refusal");
    }
    stw_backend b;
    CHECK_EQ(stw_backend_cuda(NULL, NULL, NULL, 0), STW_E_ARG);
    CHECK_EQ(stw_backend_cuda(&b, NULL, message, 3), STW_E_ARG);
    CHECK_EQ(strlen(message), 2);
    stw_backend_cuda_close(NULL);
}

/* The properties of memory, as asked; a fabric that is not permitted is done without. */
static void test_properties(void)
{
    for (int fabric = 0; fabric < 3; fabric++) {
        double_config d = small_device();
        stw_backend b;
        d.fabric = fabric > 0;
        d.fabric_permitted = fabric > 1;
        start(&d);
        CHECK_EQ(open_with(&b, (stw_cuda_options){.primary = 1, .device = 1, .rdma = 1, .share = STW_CUDA_SHARE_FABRIC, .n_peers = 1, .peers = {0}}), STW_OK);
        CHECK_EQ(b.granularity, GRANULE);
        char *p = b.reserve(b.ctx, 8 * GRANULE);
        CHECK(p && b.commit(b.ctx, p + GRANULE, 2 * GRANULE) == 0);
        CHECK_EQ(gpu->reach(p + GRANULE), 3);
        CHECK_EQ(gpu->reach(p), 0);
        CHECK_EQ(gpu->share(p + 2 * GRANULE), 16 + (fabric == 2 ? STW_CUDA_SHARE_FABRIC : STW_CUDA_SHARE_FD));
        b.decommit(b.ctx, p + GRANULE, 2 * GRANULE);
        b.release(b.ctx, p, 8 * GRANULE);
        stw_backend_cuda_close(&b);
        check_clean("properties");
    }
    double_config d = small_device();
    stw_backend b;
    d.no_rdma = true;
    start(&d);
    CHECK_EQ(open_with(&b, (stw_cuda_options){.primary = 1, .rdma = 1, .granularity = 4 * GRANULE}), STW_OK);
    char *p = b.reserve(b.ctx, 8 * GRANULE);
    CHECK(p && (uintptr_t)p % (4 * GRANULE) == 0 && b.commit(b.ctx, p, 8 * GRANULE) == 0);
    CHECK_EQ(gpu->live().handles, 2);
    CHECK_EQ(gpu->share(p), 0);
    stw_backend_cuda_close(&b); /* with memory of its own still there */
    check_clean("no RDMA");
}

static void *entry(const char *name)
{
    return dlsym(dlopen("libcuda.so.1", RTLD_NOW), name);
}

static void *current_context(void)
{
    void *(*get)(void **), *c = NULL, *f = entry("cuCtxGetCurrent");
    memcpy(&get, &f, sizeof get);
    get(&c);
    return c;
}

static void set_context(void *c) /* NULL: none */
{
    int (*push)(void *), (*pop)(void **);
    void *f = entry("cuCtxPushCurrent_v2"), *g = entry("cuCtxPopCurrent_v2"), *old;
    memcpy(&push, &f, sizeof push);
    memcpy(&pop, &g, sizeof pop);
    while (current_context())
        pop(&old);
    if (c)
        push(c);
}

/* The calling thread's stream capture mode becomes `mode`; returns what it was. */
static int set_mode(int mode)
{
    int (*exchange)(int *);
    void *f = entry("cuThreadExchangeStreamCaptureMode");
    memcpy(&exchange, &f, sizeof exchange);
    exchange(&mode);
    return mode;
}

/* The contexts of the calling thread: the backend's own, another device's, none. */
static void test_contexts(void)
{
    double_config d = small_device();
    start(&d);
    void *own = gpu->context(1), *other = gpu->context(0);
    stw_backend b;
    set_context(other);
    CHECK_EQ(open_with(&b, (stw_cuda_options){.device = 1}), STW_E_DEVICE);
    CHECK(strstr(message, "another device's") != NULL);
    CHECK(current_context() == other);
    set_context(own);
    CHECK_EQ(open_with(&b, (stw_cuda_options){.device = 1}), STW_OK);
    uint64_t stream = gpu->stream();
    void *const callers[] = {own, other, NULL};
    for (int i = 0; i < 3; i++) {
        set_context(callers[i]);
        set_mode(i);
        char *p = b.reserve(b.ctx, 4 * GRANULE);
        CHECK(p && b.commit(b.ctx, p, 4 * GRANULE) == 0);
        void *e = b.event_record(b.ctx, stream);
        CHECK(e && b.event_wait(b.ctx, stream, e) == 0);
        CHECK_EQ(b.event_done(b.ctx, e), 1);
        b.event_drop(b.ctx, e);
        b.decommit(b.ctx, p, 4 * GRANULE);
        b.release(b.ctx, p, 4 * GRANULE);
        CHECK(current_context() == callers[i]);
        CHECK_EQ(set_mode(0), i);
    }
    CHECK_EQ(gpu->calls("cuEventCreate"), 1);
    stw_backend_cuda_close(&b);
    CHECK(current_context() == NULL);
    check_clean("contexts");

    /* A context that dies first: requests fail, nothing crashes, nobody uses it. */
    start(&d);
    own = gpu->context(1);
    set_context(own);
    CHECK_EQ(open_with(&b, (stw_cuda_options){.device = 1}), STW_OK);
    stw_allocator *a;
    CHECK_EQ(stw_create(&a, NULL, 0, &(stw_options){.heap_bytes = 8 << 20}, &b, message, sizeof message), STW_OK);
    void *p = stw_malloc(a, 100, 0);
    CHECK(p != NULL);
    set_context(NULL);
    gpu->destroy_context(own);
    CHECK(stw_malloc(a, 1 << 20, 0) == NULL);
    CHECK_EQ(stw_free(a, p), 0);
    stw_trim(a);
    stw_destroy(a);
    stw_backend_cuda_close(&b);
    CHECK_EQ(gpu->misuse(NULL), 0);
}

/* A commit that fails leaves nothing, whichever of its calls it was. */
static void test_undo(void)
{
    static const char *const calls[] = {"cuMemCreate", "cuMemMap", "cuMemSetAccess"};
    for (int f = 0; f < 3; f++)
        for (long k = 1; k <= (f == 2 ? 1 : 8); k++) {
            double_config d = small_device();
            stw_backend b;
            start(&d);
            CHECK_EQ(open_with(&b, (stw_cuda_options){.primary = 1}), STW_OK);
            char *p = b.reserve(b.ctx, 16 * GRANULE);
            CHECK_EQ(b.commit(b.ctx, p + 8 * GRANULE, GRANULE), 0);
            gpu->fail(calls[f], k, 2, false);
            CHECK_EQ(b.commit(b.ctx, p, 8 * GRANULE), -1);
            CHECK_EQ(gpu->live().memory, GRANULE);
            CHECK_EQ(gpu->live().mappings, 1);
            CHECK_EQ(gpu->live().handles, 1);
            CHECK_EQ(b.commit(b.ctx, p, 8 * GRANULE), 0);
            memset(p, 1, 9 * GRANULE);
            b.decommit(b.ctx, p, 9 * GRANULE);
            CHECK_EQ(gpu->live().handles, 0);
            b.release(b.ctx, p, 16 * GRANULE);
            CHECK_EQ(gpu->live().ranges, 0);
            stw_backend_cuda_close(&b);
            check_clean("undo");
        }
}

/* While a stream captures, nothing that a request does may break that. */
static void test_capture(void)
{
    double_config d = small_device();
    start(&d);
    stw_backend b;
    stw_allocator *a;
    CHECK_EQ(open_with(&b, (stw_cuda_options){.primary = 1}), STW_OK);
    CHECK_EQ(stw_create(&a, NULL, 0, &(stw_options){.heap_bytes = 8 << 20}, &b, message, sizeof message), STW_OK);
    uint64_t streams[2] = {gpu->stream(), gpu->stream()};
    void *p = stw_malloc(a, 3 << 20, streams[0]), *q = stw_malloc(a, 1 << 20, streams[1]);
    CHECK(p && q && stw_free(a, p) == 0);
    void *before = b.event_record(b.ctx, streams[1]);
    gpu->capture(streams[0]);
    CHECK_EQ(b.capturing(b.ctx, streams[0]), 1);
    CHECK_EQ(b.capturing(b.ctx, streams[1]), 0);
    CHECK_EQ(b.capturing(b.ctx, 0), 1); /* it would be drawn in */
    CHECK_EQ(stw_trim(a), 0);
    p = stw_malloc(a, 5 << 20, streams[0]); /* by new memory */
    CHECK(p != NULL);
    CHECK(b.event_record(b.ctx, streams[0]) == NULL);
    CHECK_EQ(b.event_wait(b.ctx, streams[0], before), -1);
    CHECK_EQ(b.event_done(b.ctx, before), 1);
    CHECK_EQ(stw_record_stream(a, q, streams[0]), 0);
    CHECK_EQ(stw_free(a, q), 0);
    CHECK(gpu->capture_end(streams[0]));
    b.event_drop(b.ctx, before);
    CHECK_EQ(stw_free(a, p), 0);
    CHECK(stw_trim(a) > 0);
    stw_destroy(a);
    stw_backend_cuda_close(&b);
    check_clean("capture");
}

static void test_plain(void)
{
    double_config d = small_device();
    d.no_vmm = true;
    start(&d);
    stw_backend b;
    stw_allocator *a;
    size_t n;
    uint8_t *file = cuda_plan(false, &n);
    CHECK_EQ(open_with(&b, (stw_cuda_options){.primary = 1, .plain = 1, .plain_bytes = 2 << 20}), STW_OK);
    CHECK_EQ(stw_create(&a, file, n, NULL, &b, message, sizeof message), STW_OK);
    CHECK_EQ(gpu->live().allocs, 1);
    uint64_t other = gpu->stream();
    void *p = stw_malloc(a, 200 * 512, 0), *q = stw_malloc(a, 1 << 20, other);
    CHECK(p == stw_arena(a) && q != NULL);
    CHECK_EQ(gpu->live().allocs, 2);
    CHECK(stw_malloc(a, 3 << 20, other) == NULL); /* the heap has two */
    CHECK(gpu->live().memory < 9 << 20);
    stw_destroy(a);
    stw_backend_cuda_close(&b);
    check_clean("plain");
    free(file);
}

/* The whole core on it, work done late and in any order between streams; nothing is unmapped under it. */
static void test_core(void)
{
    for (uint64_t seed = 1; seed <= 8; seed++) {
        double_config d = small_device();
        tally t = {0};
        d.late = seed > 2;
        d.memory = seed & 4 ? 256 << 20 : 13 << 20; /* in 13 MiB, heaps give back under pressure */
        start(&d);
        stw_backend b;
        stw_allocator *a;
        size_t n;
        uint8_t *file = cuda_plan(seed & 1, &n);
        CHECK_EQ(open_with(&b, (stw_cuda_options){.primary = 1}), STW_OK);
        CHECK_EQ(stw_create(&a, file, n, &(stw_options){.heap_bytes = 16 << 20}, &b, message, sizeof message), STW_OK);
        free(file);
        uint64_t streams[2] = {0, gpu->stream()};
        run_program(a, &b, streams, seed & 1, 12, seed, &t);
        stw_stats s;
        stw_get_stats(a, &s);
        CHECK(s.hits > 100 && s.trims > 0);
        for (uint64_t order = seed; gpu->progress(&order);) {
        }
        stw_destroy(a);
        stw_backend_cuda_close(&b);
        check_clean("core");
    }
}

typedef struct {
    int device;
    pthread_t thread;
    stw_allocator *a;
    bool ok;
} user;

static void *use(void *arg)
{
    user *u = arg;
    uint64_t seed = (uint64_t)u->device + 5;
    void *p[16] = {0};
    u->ok = true;
    for (int i = 0; i < (CHECK_SANITIZED ? 500 : 3000); i++) {
        uint64_t r = check_random(&seed);
        size_t k = r % 16;
        u->ok &= stw_free(u->a, p[k]) == 0;
        p[k] = stw_malloc(u->a, 1 + (r >> 8) % 300000, 0);
        if (p[k])
            *(volatile char *)p[k] = (char)r;
        if (r >> 56 == 0)
            stw_trim(u->a);
    }
    for (int i = 0; i < 16; i++)
        u->ok &= stw_free(u->a, p[i]) == 0;
    return NULL;
}

/* Two devices, four threads: two threads an allocator. */
static void test_devices(void)
{
    double_config d = small_device();
    start(&d);
    stw_backend b[2];
    user u[4];
    for (int i = 0; i < 4; i++) {
        u[i] = (user){.device = i};
        if (i < 2) {
            CHECK_EQ(open_with(&b[i], (stw_cuda_options){.device = i, .primary = 1}), STW_OK);
            CHECK_EQ(stw_create(&u[i].a, NULL, 0, &(stw_options){.heap_bytes = 16 << 20}, &b[i], message, sizeof message), STW_OK);
        } else {
            u[i].a = u[i - 2].a;
        }
    }
    for (int i = 0; i < 4; i++)
        pthread_create(&u[i].thread, NULL, use, &u[i]);
    for (int i = 0; i < 4; i++)
        CHECK(pthread_join(u[i].thread, NULL) == 0 && u[i].ok);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(stw_check(u[i].a, message, sizeof message), 0);
        stw_destroy(u[i].a);
        stw_backend_cuda_close(&b[i]);
    }
    check_clean("devices");
}

/* One piece of memory at two addresses is one piece. */
static void test_alias(void)
{
    double_config d = small_device();
    start(&d);
    stw_backend b;
    CHECK_EQ(open_with(&b, (stw_cuda_options){.primary = 1}), STW_OK);
    char *p = b.reserve(b.ctx, 8 * GRANULE);
    CHECK(p && b.commit(b.ctx, p, 4 * GRANULE) == 0);
    void *pieces[3] = {p + 3 * GRANULE, p, p + 2 * GRANULE};
    char *q = b.alias(b.ctx, pieces, 3);
    CHECK(q != NULL);
    for (int i = 0; q && i < 3; i++) {
        CHECK(gpu->same(q + i * GRANULE, pieces[i]));
        *(char *)pieces[i] = (char)(i + 1);
        CHECK_EQ(q[i * GRANULE], i + 1);
    }
    pieces[1] = p + 5 * GRANULE; /* not committed */
    CHECK(b.alias(b.ctx, pieces, 3) == NULL);
    CHECK_EQ(gpu->live().memory, 4 * GRANULE);
    CHECK_EQ(gpu->live().mappings, 7);
    b.decommit(b.ctx, p, 4 * GRANULE);
    CHECK_EQ(gpu->live().memory, 3 * GRANULE); /* the rest lives on */
    CHECK_EQ(q[GRANULE], 2);
    b.unalias(b.ctx, q);
    CHECK_EQ(gpu->live().memory, 0);
    stw_backend_cuda_close(&b);
    check_clean("alias");
}

int main(void)
{
    if (!gpu_load())
        return 1;
    test_refusals();
    test_properties();
    test_contexts();
    test_undo();
    test_capture();
    test_plain();
    test_alias();
    test_core();
    test_devices();
    return check_end("test_cuda");
}
