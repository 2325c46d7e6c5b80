/* fuzz_load.c [ROUNDS [SEED]]: valid plans, mutated at random in many places with the checksum
 * mended: each is refused with a message or is a plan that works. Deterministic: a failure is
 * repeated by its numbers.
 */
#include "check.h"
#include "support.h"

#include <stdlib.h>
#include <string.h>

static uint8_t *random_plan(uint64_t *seed, size_t *bytes)
{
    builder b = {0};
    uint32_t streams = 1 + (uint32_t)(check_random(seed) % 3), entries = (uint32_t)(check_random(seed) % 40);
    for (uint32_t i = 0; i < streams; i++)
        builder_stream(&b, i * 17, i * 100, (i + 1) * 100);
    for (uint32_t i = 0; i < entries; i++) {
        uint64_t r = check_random(seed);
        uint32_t stream = (uint32_t)(r % streams), size = 1 + (uint32_t)(r >> 8) % 20, id;
        id = r >> 60 ? builder_planned(&b, stream, stream * 100 + (uint32_t)(r >> 16) % 80, size)
                     : builder_dynamic(&b, stream, size, 2 * size);
        if (r >> 61 == 5)
            b.slots[id].flags |= STW_SLOT_OPTIONAL;
        builder_entry_nf(&b, (uint32_t)(r >> 40) % (id + 1), (uint32_t)(r >> 32) % 50, 0, (uint32_t)(r >> 62));
    }
    b.loop_start = entries / 3;
    builder_mark(&b, 0, STW_MARK_ITERATION, -1, NULL);
    builder_mark(&b, b.loop_start, STW_MARK_ITERATION, 0, NULL);
    builder_mark(&b, entries / 2, STW_MARK_PHASE, 0, "a");
    b.extra_kind = STW_SECTION_INFO + (uint32_t)(check_random(seed) % 2);
    b.extra_flags = STW_SECTION_OPTIONAL;
    b.extra_text = "words";
    return builder_finish(&b, bytes);
}

static void use(stw_allocator *a, uint64_t *seed)
{
    void *live[32] = {0};
    char message[200];
    for (int i = 0; i < 100; i++) {
        uint64_t r = check_random(seed);
        stw_free(a, live[r % 32]);
        live[r % 32] = stw_malloc(a, 1 + (r >> 8) % 12000, (r >> 32) % 4 * 17);
        if (r >> 59 == 0)
            stw_mark(a, 1 + (r >> 50 & 1), (int64_t)(r >> 40 & 3) - 1, "a");
    }
    if (!CHECK_EQ(stw_check(a, message, sizeof message), 0))
        printf("  %s\n", message);
}

int main(int argc, char **argv)
{
    long rounds = argc > 1 ? atol(argv[1]) : CHECK_SANITIZED ? 2000 : 10000;
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    unsigned long accepted = 0, refused = 0;
    for (long k = 0; k < rounds; k++) {
        uint64_t seed = first + (uint64_t)k;
        size_t n;
        uint8_t *file = random_plan(&seed, &n);
        for (uint64_t mutations = check_random(&seed) % 4; mutations > 0; mutations--) {
            uint64_t r = check_random(&seed), word = r >> 62 ? check_random(&seed) % 300 : check_random(&seed);
            size_t width = (size_t)1 << (r >> 60 & 3), at = (r & 0xffff) % n;
            /* Half of them in the header and section table, where one value decides the most. */
            if (r >> 59 & 1)
                at = 16 + at % (128 + 5 * 24 - 16);
            at = at / width * width;
            if (at + width <= n)
                plan_poke(file, n, at, word, width);
        }
        test_backend memory;
        stw_backend backend = test_backend_make(&memory, true, 4096);
        stw_options o = {.heap_bytes = 1 << 22, .capacity_bytes = k % 3 ? 0 : 200 << 10};
        char message[300] = "";
        stw_allocator *a;
        stw_status s = stw_create(&a, file, n, &o, &backend, message, sizeof message);
        free(file);
        if (s == STW_OK) {
            accepted++;
            use(a, &seed);
        } else {
            refused++;
            CHECK(a == NULL && strlen(message) > 10);
        }
        stw_destroy(a);
        if (!CHECK(memory.reserved == 0 && memory.committed == 0))
            printf("  seed %llu\n", (unsigned long long)(first + (uint64_t)k));
    }
    CHECK(accepted > 0 && refused > 0);
    printf("%lu plans accepted and used, %lu refused\n", accepted, refused);
    return check_end("fuzz_load");
}
