/* phantom_cuda.c: the allocator on whatever driver is there, or the library named. It asks, gives back and asks again on
 * two streams, with granules given back in between, and looks at what it has written; ends with 1 where anything was wrong.
 *
 *     phantom_cuda --touch [LIBRARY]   on a phantom device, whose memory the host can touch, and which checks how virtual
 *                                      memory is used
 *     phantom_cuda --copy [LIBRARY]    on a GPU: by copies; and one piece of memory at two addresses is one piece
 */
#include "../stw_cuda.h"
#include "check.h"

#include <dlfcn.h>
#include <string.h>

enum { HELD = 200 };

static int (*to_device)(unsigned long long, const void *, size_t), (*from_device)(void *, unsigned long long, size_t);

static void put(unsigned char *p, unsigned char v)
{
    if (to_device)
        CHECK_EQ(to_device((unsigned long long)(uintptr_t)p, &v, 1), 0);
    else
        *p = v;
}

static unsigned char look(const unsigned char *p)
{
    unsigned char v = 0;
    if (!from_device)
        return *p;
    CHECK_EQ(from_device(&v, (unsigned long long)(uintptr_t)p, 1), 0);
    return v;
}

/* By copies in the device's primary context. */
static bool by_copies(const char *library)
{
    int (*init)(unsigned), (*retain)(void **, int), (*set)(void *);
    void *lib = dlopen(library, RTLD_NOW), *context;
    const struct { void *to; const char *name; } find[] = {{&init, "cuInit"}, {&retain, "cuDevicePrimaryCtxRetain"},
        {&set, "cuCtxSetCurrent"}, {&to_device, "cuMemcpyHtoD_v2"}, {&from_device, "cuMemcpyDtoH_v2"}};
    for (int i = 0; i < 5; i++) {
        void *f = lib ? dlsym(lib, find[i].name) : NULL;
        if (!CHECK(f != NULL))
            return false;
        memcpy(find[i].to, &f, sizeof f);
    }
    return CHECK_EQ(init(0), 0) && CHECK_EQ(retain(&context, 0), 0) && CHECK_EQ(set(context), 0);
}

static void alias(void)
{
    char message[300];
    stw_backend b;
    if (!CHECK_EQ(stw_backend_cuda(&b, &(stw_cuda_options){.primary = 1}, message, sizeof message), STW_OK))
        return;
    const size_t g = b.granularity;
    unsigned char *p = b.reserve(b.ctx, 8 * g), *q;
    if (CHECK(p != NULL && b.commit(b.ctx, p, 4 * g) == 0)) {
        void *pieces[3] = {p + 3 * g, p, p + 2 * g};
        q = b.alias(b.ctx, pieces, 3);
        for (size_t i = 0; CHECK(q != NULL) && i < 3; i++) {
            put((unsigned char *)pieces[i] + 7, (unsigned char)(50 + i));
            CHECK_EQ(look(q + i * g + 7), 50 + i);
            put(q + i * g + 9, (unsigned char)(90 + i));
            CHECK_EQ(look((unsigned char *)pieces[i] + 9), 90 + i);
        }
        if (q)
            b.unalias(b.ctx, q);
        b.decommit(b.ctx, p, 4 * g);
        b.release(b.ctx, p, 8 * g);
    }
    stw_backend_cuda_close(&b);
}

static void say(void *ctx, const char *text)
{
    (void)ctx;
    printf("  %s\n", text);
}

static void run(stw_cuda_options o, const char *library)
{
    char message[300];
    stw_backend b;
    stw_allocator *a = NULL;
    uint64_t seed = 3, units[HELD] = {0};
    unsigned char *p[HELD] = {0};
    o.say = say;
    o.library = library;
    if (!CHECK_EQ(stw_backend_cuda(&b, &o, message, sizeof message), STW_OK) ||
        !CHECK_EQ(stw_create(&a, NULL, 0, &(stw_options){.capacity_bytes = UINT64_C(2) << 30, .heap_bytes = o.plain ? UINT64_C(4) << 30 : 0, .say = say}, &b,
                             message, sizeof message), STW_OK)) {
        printf("  %s\n", message);
        stw_backend_cuda_close(&b);
        return;
    }
    for (int i = 0; i < 4000; i++) {
        uint64_t r = check_random(&seed), k = r % HELD;
        if (p[k])
            CHECK(look(p[k]) == (unsigned char)k && look(p[k] + units[k] * 512 - 1) == (unsigned char)k);
        CHECK_EQ(stw_free(a, p[k]), 0);
        units[k] = 1 + (r >> 8) % (r >> 63 ? 100 : 60000);
        p[k] = stw_malloc(a, units[k] * 512, 0);
        if (r >> 62 == 3)
            CHECK_EQ(stw_record_stream(a, p[k], 2), 0); /* CUDA's name for each thread's own default stream */
        if (p[k]) {
            put(p[k], (unsigned char)k);
            put(p[k] + units[k] * 512 - 1, (unsigned char)k);
        }
        if (r >> 56 == 0)
            stw_trim(a);
    }
    void *e = b.event_record(b.ctx, 2);
    if (CHECK(e && b.event_wait(b.ctx, 0, e) == 0))
        b.event_drop(b.ctx, e);
    if (!CHECK_EQ(stw_check(a, message, sizeof message), 0))
        printf("  %s\n", message);
    stw_stats s;
    stw_get_stats(a, &s);
    printf("%s: %llu requests, %llu failed, %llu trims gave back %.2f GiB, peak allocated %.2f GiB, reserved %.2f GiB, granules of %zu KiB; %llu events, %llu waits\n",
           o.plain ? "plain" : "virtual", (unsigned long long)s.requests, (unsigned long long)s.failed, (unsigned long long)s.trims,
           (double)s.returned_bytes / (1 << 30), (double)s.peak_live_bytes / (1 << 30), (double)s.peak_reserved_bytes / (1 << 30), b.granularity >> 10,
           (unsigned long long)s.event_records, (unsigned long long)s.event_waits);
    stw_destroy(a);
    stw_backend_cuda_close(&b);
}

int main(int argc, char **argv)
{
    const char *library = argc > 2 ? argv[2] : NULL;
    if (argc < 2 || (strcmp(argv[1], "--touch") != 0 && strcmp(argv[1], "--copy") != 0)) {
        fprintf(stderr, "usage: phantom_cuda --touch|--copy [LIBRARY]\n");
        return 2;
    }
    if (strcmp(argv[1], "--copy") == 0 && by_copies(library ? library : "libcuda.so.1"))
        alias();
    run((stw_cuda_options){.primary = 1}, library);
    run((stw_cuda_options){.primary = 1, .granularity = 16 << 20, .share = STW_CUDA_SHARE_FABRIC}, library);
    run((stw_cuda_options){.primary = 1, .plain = 1, .plain_bytes = UINT64_C(4) << 30}, library);
    return check_end("phantom_cuda");
}
