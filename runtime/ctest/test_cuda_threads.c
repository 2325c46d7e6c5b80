/* test_cuda_threads.c: the CUDA backend and the threads that call it: whatever context and capture mode they have, they
 * have again; a context that dies; captures; several devices and threads at once.
 */
#include "cuda_scene.h"

#include <pthread.h>

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

/* A stream that is no more captures nothing: memory is given back, moved and lent to others as before. */
static void test_destroyed_stream(void)
{
    double_config d = small_device();
    start(&d);
    stw_backend b;
    stw_allocator *a;
    CHECK_EQ(open_with(&b, (stw_cuda_options){.primary = 1}), STW_OK);
    CHECK_EQ(stw_create(&a, NULL, 0, &(stw_options){.heap_bytes = 24 << 20}, &b, message, sizeof message), STW_OK);
    uint64_t streams[2] = {gpu->stream(), gpu->stream()};
    void *p = stw_malloc(a, 16 << 20, streams[0]);
    CHECK(p && stw_free(a, p) == 0);
    gpu->destroy_stream(streams[0]);
    CHECK_EQ(b.capturing(b.ctx, streams[0]), 0);
    CHECK(b.event_record(b.ctx, streams[0]) == NULL); /* nor is it used */
    p = stw_malloc(a, 16 << 20, streams[1]); /* only with what the other one had */
    CHECK(p != NULL);
    CHECK_EQ(stw_free(a, p), 0);
    CHECK_EQ(stw_trim(a), 16 << 20);
    gpu->capture(streams[1]);
    CHECK_EQ(b.capturing(b.ctx, streams[0]), 0);
    CHECK_EQ(b.capturing(b.ctx, streams[1]), 1); /* the others still may */
    CHECK(gpu->capture_end(streams[1]));
    gpu->fail("cuStreamIsCapturing", 1, 999, false); /* whatever else the driver answers may be a capture */
    CHECK_EQ(b.capturing(b.ctx, streams[1]), 1);
    stw_destroy(a);
    stw_backend_cuda_close(&b);
    check_clean("destroyed stream");
}

/* A range of pieces that cannot be made while a stream captures: the request is served by new memory, and the capture goes on. */
static void test_stitch_in_capture(void)
{
    static const char *const call[] = {"cuMemMap", "cuMemSetAccess"};
    for (int i = 0; i < 2; i++) {
        double_config d = small_device();
        start(&d);
        stw_backend b;
        stw_allocator *a;
        void *teeth[8];
        CHECK_EQ(open_with(&b, (stw_cuda_options){.primary = 1}), STW_OK);
        CHECK_EQ(stw_create(&a, NULL, 0, &(stw_options){.heap_bytes = 8 << 20, .stitch_bytes = 4 << 20}, &b, message, sizeof message), STW_OK);
        uint64_t stream = gpu->stream();
        for (int k = 0; k < 8; k++)
            teeth[k] = stw_malloc(a, 2 * GRANULE, stream);
        for (int k = 0; k < 8; k += 2)
            CHECK_EQ(stw_free(a, teeth[k]), 0);
        gpu->capture(stream);
        gpu->fail(call[i], i == 0 ? 3 : 1, 999, false);
        void *p = stw_malloc(a, 5 * GRANULE, stream);
        stw_stats s;
        stw_get_stats(a, &s);
        CHECK(p != NULL && s.stitched == 0 && gpu->failed() != NULL);
        CHECK(gpu->capture_end(stream));
        CHECK_EQ(stw_check(a, message, sizeof message), 0);
        stw_destroy(a);
        stw_backend_cuda_close(&b);
        check_clean("stitch in capture");
    }
}

/* Memory that could not be given back, because the device could not be waited for, is no reason to wait in a capture. */
static void test_kept_in_capture(void)
{
    double_config d = small_device();
    start(&d);
    stw_backend b;
    CHECK_EQ(open_with(&b, (stw_cuda_options){.primary = 1}), STW_OK);
    uint64_t stream = gpu->stream();
    char *p = b.reserve(b.ctx, 8 * GRANULE);
    CHECK_EQ(b.commit(b.ctx, p, 4 * GRANULE), 0);
    memset(p, 5, 4 * GRANULE);
    gpu->fail("cuCtxSynchronize", 1, 999, false);
    b.decommit(b.ctx, p, 4 * GRANULE);
    gpu->capture(stream);
    gpu->fail("cuMemCreate", 3, 2, false);
    CHECK_EQ(b.commit(b.ctx, p, 8 * GRANULE), -1);
    CHECK(gpu->capture_end(stream));
    CHECK_EQ(gpu->live().memory, 4 * GRANULE); /* what work may still use, and nothing new */
    CHECK(p[4 * GRANULE - 1] == 5);
    CHECK_EQ(b.commit(b.ctx, p, 8 * GRANULE), 0);
    b.decommit(b.ctx, p, 8 * GRANULE);
    CHECK_EQ(gpu->live().memory, 0);
    b.release(b.ctx, p, 8 * GRANULE);
    stw_backend_cuda_close(&b);
    check_clean("kept in capture");
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
            CHECK_EQ(stw_create(&u[i].a, NULL, 0, &(stw_options){.heap_bytes = 16 << 20, .stitch_bytes = 4 << 20}, &b[i], message, sizeof message), STW_OK);
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

int main(void)
{
    if (!gpu_load())
        return 1;
    test_contexts();
    test_capture();
    test_destroyed_stream();
    test_stitch_in_capture();
    test_kept_in_capture();
    test_devices();
    return check_end("test_cuda_threads");
}
