/* test_faults.c: every call that the CUDA backend makes of the driver fails once, one after the other, under a
 * program that diverges from its plan, with streams that lie apart, with streams that share, with requests made of several pieces, and in plain memory. Each time a request that fails is served when it is asked for again, and
 * when all is over nothing is left with the driver. Prints the table of faults. Then the same with a driver that
 * from the k-th call on refuses everything, until it works again.
 */
#include "cuda_scene.h"

enum { ROWS = 64, UNKNOWN = 999, APART = 0, SHARED, STITCHED, PLAIN };

typedef struct {
    unsigned long faults, refused, failed, served, leaks, misuse;
} row;

static row rows[ROWS];

static row *row_of(const char *name)
{
    for (int i = 0; i < ROWS && gpu->call_name(i); i++)
        if (name && strcmp(gpu->call_name(i), name) == 0)
            return &rows[i];
    return &rows[ROWS - 1];
}

/* Creation is tried again once. */
static stw_allocator *set_up(stw_backend *b, int way, row *r)
{
    stw_allocator *a = NULL;
    size_t n;
    uint8_t *file = cuda_plan(way == SHARED || way == STITCHED, &n);
    for (int i = 0; i < 2 && !a; i++) {
        r->refused += (unsigned)i;
        const stw_cuda_options o = {.primary = 1, .share = way == PLAIN ? STW_CUDA_SHARE_NONE : STW_CUDA_SHARE_FABRIC, .plain = way == PLAIN};
        if (stw_backend_cuda(b, &o, message, sizeof message) != STW_OK) {
            CHECK(strlen(message) > 10);
            continue;
        }
        stw_create(&a, file, n, &(stw_options){.heap_bytes = 16 << 20, .stitch_bytes = way == STITCHED ? 2 << 20 : 0}, b, message, sizeof message);
        if (!a)
            stw_backend_cuda_close(b);
    }
    free(file);
    return a;
}

static bool one(long k, int way, bool forever, row *r)
{
    double_config d = small_device();
    d.fabric = true;
    if (way == PLAIN)
        d.memory = 64 << 20;
    gpu->reset(&d);
    gpu->fail(NULL, k, UNKNOWN, forever);
    stw_backend b;
    tally t = {0};
    stw_allocator *a = set_up(&b, way, r);
    if (!a) { /* what was made cannot be given back to a driver that refuses that, too */
        CHECK(forever);
        return true;
    }
    uint64_t streams[2] = {0, gpu->stream()};
    run_program(a, &b, streams, way == SHARED || way == STITCHED, way == STITCHED ? 4 : 2, 7, &t);
    check_sound(a);
    bool hit = gpu->failed() != NULL;
    if (forever) {
        gpu->fail(NULL, 0, 0, false);
        void *p = stw_malloc(a, 300000, 0);
        CHECK(p != NULL); /* it works again */
        stw_free(a, p);
    }
    stw_destroy(a);
    stw_backend_cuda_close(&b);
    hit = hit || gpu->failed() != NULL;
    double_live l = gpu->live();
    const char *why = "";
    r->faults += hit;
    r->failed += t.failed;
    r->served += t.served_again;
    r->leaks += (unsigned long)(l.handles + l.mappings + l.ranges + l.allocs + l.events + l.primaries) + l.memory + l.address_space;
    r->misuse += gpu->misuse(&why) + gpu->wrong();
    if (!CHECK_EQ(gpu->misuse(NULL), 0))
        printf("  call %ld (%s): %s\n", k, hit ? gpu->failed() : "", why);
    return hit;
}

static void table(void)
{
    row all = {0};
    printf("%-34s %7s %9s %9s %9s %6s %7s\n", "driver call that failed once", "faults", "creations", "requests", "served on", "left", "misuse");
    printf("%-34s %7s %9s %9s %9s %6s %7s\n", "", "", "refused", "failed", "retry", "over", "");
    for (int i = 0; i < ROWS; i++) {
        const row *r = &rows[i];
        if (r->faults == 0)
            continue;
        printf("%-34s %7lu %9lu %9lu %9lu %6lu %7lu\n", gpu->call_name(i), r->faults, r->refused, r->failed, r->served, r->leaks, r->misuse);
        all = (row){all.faults + r->faults, all.refused + r->refused, all.failed + r->failed,
                    all.served + r->served, all.leaks + r->leaks,     all.misuse + r->misuse};
    }
    printf("%-34s %7lu %9lu %9lu %9lu %6lu %7lu\n", "all", all.faults, all.refused, all.failed, all.served, all.leaks, all.misuse);
    CHECK_EQ(all.failed, all.served);
    CHECK_EQ(all.leaks, 0);
    CHECK(all.faults > 500 || CHECK_THREADS_ONLY);
}

int main(void)
{
    if (!gpu_load())
        return 1;
    for (int way = APART; way <= PLAIN; way++) {
        row r = {0};
        for (long k = 1; one(k, way, false, &r); k += CHECK_THREADS_ONLY ? 50 : 1, r = (row){0}) {
            row *in = row_of(gpu->failed());
            *in = (row){in->faults + r.faults, in->refused + r.refused, in->failed + r.failed,
                        in->served + r.served, in->leaks + r.leaks,     in->misuse + r.misuse};
            CHECK_EQ(r.failed, r.served);
            CHECK_EQ(r.leaks, 0);
        }
    }
    table();
    row r = {0};
    for (long k = 1; one(k, STITCHED, true, &r); k += CHECK_THREADS_ONLY ? 350 : 7) {
    }
    CHECK_EQ(r.leaks, 0);
    return check_end("test_faults");
}
