/* test_cuda.c: the CUDA backend on a double of the driver: what it asks for, what it refuses, that a failed commit
 * leaves nothing, plain memory, memory at two addresses, and the whole core on it.
 */
#include "cuda_scene.h"

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

/* A program that keeps to its plan maps nothing after its first step and waits for nothing on the host. */
static void test_steady(void)
{
    for (int shared = 0; shared < 2; shared++) {
        double_config d = small_device();
        start(&d);
        stw_backend b;
        stw_allocator *a;
        size_t n;
        uint8_t *file = cuda_plan(shared, &n);
        CHECK_EQ(open_with(&b, (stw_cuda_options){.primary = 1}), STW_OK);
        CHECK_EQ(stw_create(&a, file, n, &(stw_options){.heap_bytes = 16 << 20}, &b, message, sizeof message), STW_OK);
        free(file);
        void *live[ENTRIES] = {0};
        uint64_t other = gpu->stream();
        long calls = 0, memory = 0;
        for (int i = 0; i < 10 * ENTRIES; i++) {
            int k = i % ENTRIES;
            CHECK_EQ(stw_free(a, live[(k + ENTRIES / 2) % ENTRIES]), 0);
            live[(k + ENTRIES / 2) % ENTRIES] = NULL;
            live[k] = stw_malloc(a, (200 + 7 * (size_t)(k % (ENTRIES / 2))) * 512, shared && k >= ENTRIES / 2 ? other : 0);
            if (i == ENTRIES - 1) {
                calls = gpu->calls(NULL);
                memory = gpu->calls("cuMemCreate") + gpu->calls("cuMemMap") + gpu->calls("cuMemUnmap") + gpu->calls("cuCtxSynchronize");
            }
        }
        stw_stats s;
        stw_get_stats(a, &s);
        CHECK_EQ(s.hits, 10 * ENTRIES);
        CHECK_EQ(gpu->calls("cuMemCreate") + gpu->calls("cuMemMap") + gpu->calls("cuMemUnmap") + gpu->calls("cuCtxSynchronize"), memory);
        CHECK(shared || gpu->calls(NULL) - calls <= 9 * 6); /* whether the stream captures, at each lap, in our context */
        stw_destroy(a);
        stw_backend_cuda_close(&b);
        check_clean("steady");
    }
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
        const bool still = seed % 3 != 0; /* else memory moves, and such a program has its plan set aside */
        CHECK_EQ(stw_create(&a, file, n, &(stw_options){.heap_bytes = 16 << 20, .still = still}, &b, message, sizeof message), STW_OK);
        free(file);
        uint64_t streams[2] = {0, gpu->stream()};
        run_program(a, &b, streams, seed & 1, 12, seed, &t);
        check_sound(a);
        stw_stats s;
        stw_get_stats(a, &s);
        CHECK(still ? s.hits > 100 && s.trims > 0 : s.moves > 0 && s.set_aside == 1);
        for (uint64_t order = seed; gpu->progress(&order);) {
        }
        stw_destroy(a);
        stw_backend_cuda_close(&b);
        check_clean("core");
    }
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
    test_undo();
    test_plain();
    test_alias();
    test_steady();
    test_core();
    return check_end("test_cuda");
}
