/* test_double.c: the double of libcuda itself: it does what it is asked, and every rule that it is there for is enforced,
 * or the tests that lean on it prove nothing.
 */
#include "../cuda_driver.h"
#include "cuda_scene.h"

static cuda c;
static const cu_prop ours = {.type = CU_PINNED, .location = {CU_ON_DEVICE, 0}};
static const cu_access all = {{CU_ON_DEVICE, 0}, CU_READ_WRITE};

static void begin(bool late)
{
    double_config d = small_device();
    cu_context context;
    d.late = late;
    gpu->reset(&d);
    CHECK_EQ(c.cu.primary_retain(&context, 0), CU_OK);
    CHECK_EQ(c.cu.push(context), CU_OK);
}

static void end(void)
{
    cu_context context;
    CHECK_EQ(c.cu.pop(&context), CU_OK);
    CHECK_EQ(c.cu.primary_release(0), CU_OK);
    check_clean("the double");
}

/* What breaks a rule is refused and counted, and why is said. */
static void refused_at(int line, cu_result r, const char *word)
{
    const char *why = "";
    bool seen = gpu->misuse(&why) == 1 && r != CU_OK && strstr(why, word) != NULL;
    if (!check_one(seen, __FILE__, line, word, r, (long long)gpu->misuse(NULL)))
        printf("  %s\n", why);
    gpu->forgive();
}

#define REFUSED(call, word) refused_at(__LINE__, call, word)

static cu_ptr reserve(size_t granules)
{
    cu_ptr p = 0;
    CHECK_EQ(c.cu.reserve(&p, granules * GRANULE, 0, 0, 0), CU_OK);
    return p;
}

static cu_handle create(size_t granules)
{
    cu_handle h = 0;
    CHECK_EQ(c.cu.create(&h, granules * GRANULE, &ours, 0), CU_OK);
    return h;
}

static void test_memory(void)
{
    begin(false);
    cu_ptr p = reserve(8), q = reserve(8), none;
    cu_handle one = create(1), two = create(2), bad;
    CHECK_EQ(c.cu.map(p, GRANULE, 0, one, 0), CU_OK);
    REFUSED(c.cu.map(p, GRANULE, 0, one, 0), "something is mapped");
    REFUSED(c.cu.map(p + 512, GRANULE, 0, one, 0), "arguments");
    REFUSED(c.cu.map(p + GRANULE, GRANULE, 0, two, 0), "arguments");            /* a part of an allocation */
    REFUSED(c.cu.map(p + GRANULE, GRANULE, GRANULE, two, 0), "arguments");      /* its second part */
    REFUSED(c.cu.map(p + 7 * GRANULE, 2 * GRANULE, 0, two, 0), "arguments");    /* over the end */
    REFUSED(c.cu.map(p + 2 * GRANULE, 2 * GRANULE, 0, 0x1234, 0), "arguments"); /* no such handle */
    CHECK_EQ(c.cu.map(p + GRANULE, 2 * GRANULE, 0, two, 0), CU_OK);
    CHECK_EQ(c.cu.map(q, 2 * GRANULE, 0, two, 0), CU_OK);
    REFUSED(c.cu.set_access(p, 4 * GRANULE, &all, 1), "nothing is mapped");
    REFUSED(c.cu.set_access(p + 2 * GRANULE, GRANULE, &all, 1), "part of a mapping");
    CHECK_EQ(c.cu.set_access(p, 3 * GRANULE, &all, 1), CU_OK);
    CHECK_EQ(c.cu.set_access(q, 2 * GRANULE, &all, 1), CU_OK);
    *(char *)(uintptr_t)(p + GRANULE + 5) = 42; /* one piece, two addresses */
    CHECK_EQ(*(char *)(uintptr_t)(q + 5), 42);
    CHECK(gpu->same((void *)(uintptr_t)(p + 2 * GRANULE), (void *)(uintptr_t)(q + GRANULE)));
    REFUSED(c.cu.unmap(p + GRANULE, GRANULE), "part of a mapping");
    REFUSED(c.cu.unmap(p, 2 * GRANULE), "part of a mapping");
    REFUSED(c.cu.unmap(p, 4 * GRANULE), "nothing is mapped");
    REFUSED(c.cu.unreserve(p, 8 * GRANULE), "something is mapped");
    CHECK_EQ(c.cu.unmap(p, 3 * GRANULE), CU_OK); /* two mappings at once, both whole */
    CHECK_EQ(gpu->live().memory, 3 * GRANULE);
    CHECK_EQ(c.cu.release(one), CU_OK);
    CHECK_EQ(gpu->live().memory, 2 * GRANULE);
    CHECK_EQ(c.cu.release(two), CU_OK); /* its memory lives as long as a mapping does */
    CHECK_EQ(gpu->live().memory, 2 * GRANULE);
    REFUSED(c.cu.release(two), "released already");
    REFUSED(c.cu.map(p, 2 * GRANULE, 0, two, 0), "arguments");
    CHECK_EQ(*(char *)(uintptr_t)(q + 5), 42);
    CHECK_EQ(c.cu.unmap(q, 2 * GRANULE), CU_OK);
    CHECK_EQ(gpu->live().memory, 0);
    REFUSED(c.cu.release(one), "no such handle");
    REFUSED(c.cu.unreserve(p, 4 * GRANULE), "not a whole reservation");
    REFUSED(c.cu.unreserve(p + GRANULE, 7 * GRANULE), "not a whole reservation");
    CHECK_EQ(c.cu.unreserve(p, 8 * GRANULE) + c.cu.unreserve(q, 8 * GRANULE), CU_OK);
    REFUSED(c.cu.create(&bad, GRANULE / 2, &ours, 0), "arguments");
    REFUSED(c.cu.reserve(&none, 1000, 0, 0, 0), "arguments");
    CHECK_EQ(c.cu.create(&bad, (size_t)1 << 40, &ours, 0), CU_OUT_OF_MEMORY);
    CHECK_EQ(c.cu.alloc(&p, 1000), CU_OK);
    REFUSED(c.cu.free(p + 512), "not an allocation");
    CHECK_EQ(c.cu.free(p), CU_OK);
    end();
}

static void test_contexts(void)
{
    begin(false);
    cu_context ours_too, dead = gpu->context(0);
    cu_ptr p;
    CHECK_EQ(c.cu.push(dead), CU_OK);
    gpu->destroy_context(dead);
    REFUSED(c.cu.reserve(&p, GRANULE, 0, 0, 0), "dead");
    REFUSED(c.cu.synchronize(), "dead");
    CHECK_EQ(c.cu.pop(&ours_too), CU_OK);
    CHECK_EQ(c.cu.push(dead), CU_CONTEXT_IS_DESTROYED);
    CHECK_EQ(c.cu.pop(&ours_too), CU_OK);
    REFUSED(c.cu.alloc(&p, GRANULE), "no context");
    REFUSED(c.cu.pop(&dead), "nothing was pushed");
    CHECK_EQ(c.cu.push(ours_too), CU_OK);
    REFUSED(c.cu.primary_release(1), "more often than retained");
    end();
}

/* Work, events and captures. */
static void test_work(void)
{
    begin(true);
    uint64_t a = gpu->stream(), b = gpu->stream(), seed = 1;
    cu_stream of_a = (cu_stream)(uintptr_t)a, of_b = (cu_stream)(uintptr_t)b;
    cu_event e, other;
    cu_handle h = create(1);
    cu_ptr p = reserve(1);
    void *at = (void *)(uintptr_t)p;
    CHECK_EQ(c.cu.map(p, GRANULE, 0, h, 0) + c.cu.set_access(p, GRANULE, &all, 1), CU_OK);
    CHECK_EQ(c.cu.event_create(&e, CU_NO_TIMING) + c.cu.event_create(&other, CU_NO_TIMING), CU_OK);
    REFUSED(c.cu.event_query(e), "never recorded");
    REFUSED(c.cu.stream_wait(of_b, e, 0), "never recorded");
    gpu->launch(a, at, GRANULE, 3, false); /* the other stream looks at what this one writes, in order … */
    CHECK_EQ(c.cu.event_record(e, of_a) + c.cu.stream_wait(of_b, e, 0), CU_OK);
    gpu->launch(b, at, GRANULE, 3, true);
    CHECK_EQ(c.cu.event_query(e), CU_NOT_READY);
    while (gpu->progress(&seed)) {
    }
    CHECK_EQ(c.cu.event_query(e), CU_OK);
    CHECK_EQ(gpu->wrong(), 0);
    unsigned long caught = 0; /* … and, without the wait, in either */
    for (int i = 0; i < 20; i++) {
        gpu->launch(a, at, GRANULE, (uint8_t)(10 + i), false);
        gpu->launch(b, at, GRANULE, (uint8_t)(10 + i), true);
        while (gpu->progress(&seed)) {
        }
        caught = gpu->wrong();
    }
    CHECK(caught > 0 && caught < 20);
    gpu->launch(a, at, GRANULE, 5, false); /* memory that is unmapped under work */
    CHECK_EQ(c.cu.unmap(p, GRANULE), CU_OK);
    CHECK_EQ(c.cu.synchronize(), CU_OK);
    REFUSED(1, "not mapped");

    gpu->capture(a);
    REFUSED(c.cu.synchronize(), "breaks a capture");
    CHECK(!gpu->capture_end(a));
    gpu->capture(a);
    REFUSED(c.cu.event_query(e), "breaks a capture"); /* of another stream's work, too, unless the thread says */
    CHECK(!gpu->capture_end(a));
    gpu->capture(a);
    int mode = CU_RELAXED;
    CHECK_EQ(c.cu.capture_mode(&mode), CU_OK);
    CHECK_EQ(mode, 0);
    CHECK_EQ(c.cu.event_query(e), CU_OK);
    REFUSED(c.cu.event_record(e, of_a), "in a capture");
    CHECK_EQ(c.cu.capture_mode(&mode), CU_OK);
    CHECK(gpu->capture_end(a));
    gpu->launch(b, at, GRANULE, 9, false);
    gpu->destroy_stream(b);
    CHECK_EQ(c.cu.is_capturing(of_b, &mode), CU_INVALID_HANDLE);
    REFUSED(c.cu.event_record(e, of_b), "no more");
    REFUSED(c.cu.stream_wait(of_b, e, 0), "no more");
    CHECK_EQ(c.cu.synchronize(), CU_OK);
    REFUSED(1, "not mapped"); /* its work was still to be done */
    CHECK_EQ(c.cu.event_destroy(e), CU_OK);
    REFUSED(c.cu.event_query(e), "dead");
    REFUSED(c.cu.event_record(e, of_a), "dead");
    REFUSED(c.cu.event_destroy(e), "dead");
    CHECK_EQ(c.cu.event_destroy(other) + c.cu.release(h) + c.cu.unreserve(p, GRANULE), CU_OK);
    gpu->forgive();
    end();
}

/* The k-th call fails, once or from then on; it does nothing, and is counted. */
static void test_faults(void)
{
    begin(false);
    cu_handle h;
    gpu->fail("cuMemCreate", 2, 999, false);
    CHECK_EQ(c.cu.create(&h, GRANULE, &ours, 0), CU_OK);
    CHECK_EQ(c.cu.release(h), CU_OK);
    CHECK_EQ(c.cu.create(&h, GRANULE, &ours, 0), 999);
    CHECK(strcmp(gpu->failed(), "cuMemCreate") == 0);
    CHECK_EQ(gpu->live().handles, 0);
    CHECK_EQ(c.cu.create(&h, GRANULE, &ours, 0), CU_OK);
    CHECK_EQ(gpu->calls("cuMemCreate"), 3);
    gpu->fail(NULL, 1, 2, true);
    CHECK_EQ(c.cu.release(h), 2);
    CHECK_EQ(c.cu.synchronize(), 2);
    gpu->fail(NULL, 0, 0, false);
    CHECK_EQ(c.cu.release(h), CU_OK);
    end();
}

int main(void)
{
    if (!gpu_load() || !CHECK(stwi_cuda_load(&c, "libcuda.so.1")))
        return 1;
    test_memory();
    test_contexts();
    test_work();
    test_faults();
    return check_end("test_double");
}
