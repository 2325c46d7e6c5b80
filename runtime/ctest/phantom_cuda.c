/* phantom_cuda.c: the allocator on whatever driver is there, or the library named. Run on a phantom device, which checks how
 * virtual memory is used and whose memory the host can touch: phantom_cuda --touch libcuda_phantom.so. It asks, gives back and
 * asks again on two streams, with granules given back in between; ends with 1 where anything was wrong.
 */
#include "../stw_cuda.h"
#include "check.h"

#include <string.h>

enum { HELD = 200 };

static void say(void *ctx, const char *text)
{
    (void)ctx;
    printf("  %s\n", text);
}

static void run(stw_cuda_options o, const char *library, bool touch)
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
        if (p[k] && touch)
            CHECK(p[k][0] == (unsigned char)k && p[k][units[k] * 512 - 1] == (unsigned char)k);
        CHECK_EQ(stw_free(a, p[k]), 0);
        units[k] = 1 + (r >> 8) % (r >> 63 ? 100 : 60000);
        p[k] = stw_malloc(a, units[k] * 512, 0);
        if (r >> 62 == 3)
            CHECK_EQ(stw_record_stream(a, p[k], 2), 0); /* CUDA's name for each thread's own default stream */
        if (p[k] && touch)
            p[k][0] = p[k][units[k] * 512 - 1] = (unsigned char)k;
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
    bool touch = argc > 1 && strcmp(argv[1], "--touch") == 0;
    run((stw_cuda_options){.primary = 1}, library, touch);
    run((stw_cuda_options){.primary = 1, .granularity = 16 << 20, .share = STW_CUDA_SHARE_FABRIC}, library, touch);
    run((stw_cuda_options){.primary = 1, .plain = 1, .plain_bytes = UINT64_C(4) << 30}, library, touch);
    return check_end("phantom_cuda");
}
