/* test_load.c: the loader against every way a plan file can be wrong: cut short, damaged, forged,
 * of another version; and that each of its numbered errors can be reached.
 */
#include "check.h"
#include "support.h"

#include <stdlib.h>
#include <string.h>

static test_backend memory;
static char message[300];

static stw_status load(const void *file, size_t bytes)
{
    stw_backend b = test_backend_make(&memory, true, 0);
    stw_options o = {.heap_bytes = 1 << 20};
    stw_allocator *a = NULL;
    stw_status s = stw_create(&a, file, bytes, &o, &b, message, sizeof message);
    CHECK((s == STW_OK) == (a != NULL));
    CHECK((s == STW_OK) == (message[0] == 0));
    if (a) { /* whatever was accepted must also be usable */
        void *p = stw_malloc(a, 1000, 0), *q = stw_malloc(a, 70000, 7);
        stw_mark(a, STW_MARK_ITERATION, 3, NULL);
        stw_mark(a, STW_MARK_PHASE, 0, "forward");
        for (int i = 0; i < 8; i++)
            stw_malloc(a, (size_t)1024 << i, (uint64_t)i % 2 * 7);
        stw_free(a, p);
        stw_free(a, q);
        CHECK_EQ(stw_check(a, message, sizeof message), 0);
        stw_destroy(a);
    }
    CHECK_EQ(memory.reserved, 0);
    CHECK_EQ(memory.committed, 0);
    return s;
}

/* A small plan with something of everything. */
static uint8_t *sample(size_t *bytes)
{
    builder b = {0};
    builder_stream(&b, 0, 0, 20);
    builder_stream(&b, 7, 20, 30);
    builder_planned(&b, 0, 0, 2);
    builder_planned(&b, 0, 1, 4);
    builder_planned(&b, 1, 20, 10);
    builder_dynamic(&b, 0, 1, 9);
    for (uint32_t i = 0; i < 8; i++)
        builder_entry_nf(&b, i % 4, 2, i % 2, 2);
    b.loop_start = 2;
    builder_mark(&b, 0, STW_MARK_ITERATION, -1, NULL);
    builder_mark(&b, 2, STW_MARK_ITERATION, 0, NULL);
    builder_mark(&b, 3, STW_MARK_PHASE, 0, "forward");
    b.extra_kind = STW_SECTION_INFO;
    b.extra_flags = STW_SECTION_OPTIONAL;
    b.extra_text = "tool: some test\n";
    return builder_finish(&b, bytes);
}

#define SECTION(i) (sizeof(stw_plan_header) + (i) * sizeof(stw_plan_section))
#define FIELD(type, field) offsetof(type, field)

static uint64_t section_at(const uint8_t *file, size_t i)
{
    stw_plan_section s;
    memcpy(&s, file + SECTION(i), sizeof s);
    return s.offset;
}

static void expect(int rule, const char *place)
{
    char want[16];
    snprintf(want, sizeof want, ": P%d: ", rule);
    if (!CHECK(strstr(message, want) != NULL) || !CHECK(strstr(message, place) != NULL))
        printf("  wanted P%d and \"%s\", got \"%s\"\n", rule, place, message);
}

static void test_rules(void)
{
    size_t n;
    uint8_t *good = sample(&n), *bad = malloc(n + 16);
    CHECK_EQ(load(good, n), STW_OK);
    const size_t slots = section_at(good, 0), entries = section_at(good, 1), streams = section_at(good, 2),
                 marks = section_at(good, 3);
#define H(field) FIELD(stw_plan_header, field)
#define S(i, field) (SECTION(i) + FIELD(stw_plan_section, field))
#define SLOT(i, field) (slots + (i) * sizeof(stw_plan_slot) + FIELD(stw_plan_slot, field))
#define MARK(i, field) (marks + (i) * sizeof(stw_plan_mark) + FIELD(stw_plan_mark, field))
#define STREAM(i, field) (streams + (i) * sizeof(stw_plan_stream) + FIELD(stw_plan_stream, field))
    const struct {
        int rule;
        size_t at, bytes;
        uint64_t value;
        const char *place;
    } cases[] = {
        {2, H(magic) + 3, 1, 'X', "magic"},
        {4, H(header_bytes), 4, 136, "136"},
        {5, H(file_bytes), 8, n + 8, "bytes"},
        {7, H(align), 4, 256, "256"},
        {8, H(n_entries), 4, STW_PLAN_MAX_ENTRIES, "entries"},
        {9, H(n_streams), 4, 65536, "65536"},
        {10, H(n_slots), 4, UINT32_MAX, "slots"},
        {11, H(loop_start), 4, 9, "loop_start 9"},
        {12, H(arena_bytes), 8, 30 * 512 + 1, "arena"},
        {12, H(arena_bytes), 8, UINT64_C(1) << 41, "arena"},
        {13, H(reserved), 1, 1, "reserved"},
        {13, H(reserved) + 8, 1, 1, "reserved"},
        {14, H(n_sections), 4, UINT32_MAX, "sections"},
        {15, S(4, flags), 4, 3, "section 4"},
        {16, S(1, offset), 8, entries + 4, "section 1"},
        {16, S(1, offset), 8, slots, "section 1"},
        {16, S(4, bytes), 8, UINT64_MAX, "section 4"},
        {16, S(0, offset), 8, 0, "section 0"},
        {17, S(4, bytes), 8, 8, "byte"},
        {18, S(4, kind), 4, 77, "kind 77"}, /* and required: flags are poked below */
        {19, S(4, kind), 4, STW_SECTION_MARKS, "kind 4"},
        {20, H(n_marks), 4, 2, "kind 4"},
        {20, H(n_entries), 4, 7, "kind 2"},
        {21, STREAM(1, begin), 8, 20 * 512 + 8, "stream 1"},
        {21, STREAM(1, end), 8, 31 * 512, "stream 1"},
        {21, STREAM(1, begin), 8, 30 * 512 + 512, "stream 1"},
        {22, STREAM(1, begin), 8, 19 * 512, "stream 1"},
        {23, SLOT(2, stream), 1, 2, "slot 2"},
        {24, SLOT(1, flags), 1, 8 | STW_SLOT_PLANNED, "slot 1"},
        {24, SLOT(1, flags), 1, STW_SLOT_KEPT, "slot 1"},
        {25, SLOT(1, hi), 4, 0, "slot 1"},
        {26, SLOT(1, hi), 4, 20, "slot 1"},
        {26, SLOT(2, lo), 4, 19, "slot 2"},
        {26, SLOT(2, hi), 4, UINT32_MAX, "slot 2"},
        {27, SLOT(3, lo), 4, 10, "slot 3"},
        {28, entries + 5 * sizeof(stw_plan_entry), 4, 4, "entry 5"},
        {29, entries + 5 * sizeof(stw_plan_entry) + 4, 4, 3u << 28, "entry 5"},
        {30, MARK(2, entry), 4, 9, "mark 2"},
        {30, MARK(2, entry), 4, 1, "mark 2"},
        {31, MARK(2, kind), 4, 3, "mark 2"},
        {32, MARK(1, name), 8, 5, "mark 1"},
        {32, MARK(2, value), 8, 5, "mark 2"},
    };
    bool reached[33] = {false};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        memcpy(bad, good, n);
        if (cases[i].rule == 18)
            plan_poke(bad, n, S(4, flags), 0, 4);
        plan_poke(bad, n, cases[i].at, cases[i].value, cases[i].bytes);
        CHECK_EQ(load(bad, n), STW_E_PLAN);
        expect(cases[i].rule, cases[i].place);
        reached[cases[i].rule] = true;
    }

    CHECK_EQ(load(good, 11), STW_E_PLAN);
    expect(1, "bytes 11");
    CHECK_EQ(load(good, 127), STW_E_PLAN);
    expect(1, "bytes 127");
    memcpy(bad, good, n);
    plan_poke(bad, n, H(major), 2, 2);
    CHECK_EQ(load(bad, n), STW_E_VERSION);
    expect(3, "major version 2");
    CHECK_EQ(load(bad, 12), STW_E_VERSION); /* named even where the rest is unknown */
    memcpy(bad, good, n);
    bad[entries] ^= 1; /* checksum not mended */
    CHECK_EQ(load(bad, n), STW_E_PLAN);
    expect(6, "checksum");
    memcpy(bad, good, n);
    memset(bad + n, 0, 8);
    CHECK_EQ(load(bad, n + 8), STW_E_PLAN);
    expect(5, "bytes");
    reached[1] = reached[3] = reached[6] = true;
    memcpy(bad, good, n);
    plan_poke(bad, n, STREAM(1, begin), 19 * 512, 8);
    plan_poke(bad, n, H(shared_age), 1, 4); /* ranges of streams that share may overlap */
    CHECK_EQ(load(bad, n), STW_OK);
    for (int r = 1; r <= 32; r++)
        if (!CHECK(reached[r]))
            printf("  P%d is never reached\n", r);
    free(good);
    free(bad);
}

static void test_versions(void)
{
    size_t n;
    uint8_t *file = sample(&n);
    plan_poke(file, n, S(4, kind), 77, 4); /* unknown, optional */
    CHECK_EQ(load(file, n), STW_OK);
    const size_t slots = section_at(file, 0);
    plan_poke(file, n, SLOT(1, flags), 8 | STW_SLOT_PLANNED, 1);
    CHECK_EQ(load(file, n), STW_E_PLAN);
    plan_poke(file, n, H(minor), 3, 2); /* a later minor may use that field */
    CHECK_EQ(load(file, n), STW_OK);
    free(file);

    builder b = {0}; /* a plan of nothing */
    file = builder_finish(&b, &n);
    CHECK_EQ(load(file, n), STW_OK);
    plan_poke(file, n, H(n_sections), 0, 4);
    CHECK_EQ(load(file, n), STW_E_PLAN); /* the table is still there, and nobody's */
    expect(17, "byte");
    memset(file + SECTION(0), 0, n - SECTION(0));
    plan_fix_crc(file, n);
    CHECK_EQ(load(file, n), STW_OK); /* a section of nothing may be absent */
    free(file);
}

/* Every length, aligned and not. */
static void test_truncation(void)
{
    size_t n;
    uint8_t *file = sample(&n);
    for (size_t len = 0; len < n; len++) {
        uint8_t *copy = malloc(len + 1);
        memcpy(copy + 1, file, len); /* an odd address, and nothing after the end */
        CHECK(load(copy + 1, len) != STW_OK);
        if (len >= sizeof(stw_plan_header)) { /* also with a header that agrees */
            plan_poke(copy + 1, len, H(file_bytes), len, 8);
            CHECK(load(copy + 1, len) != STW_OK);
        }
        free(copy);
    }
    uint8_t *odd = malloc(n + 1);
    memcpy(odd + 1, file, n);
    CHECK_EQ(load(odd + 1, n), STW_OK);
    free(odd);
    free(file);
}

/* Every byte, wrong in many ways, checksum mended: an error or a plan that works, never a crash. */
static void test_corruption(void)
{
    size_t n, accepted = 0, refused = 0;
    uint8_t *good = sample(&n), *bad = malloc(n);
    for (size_t at = 0; at < n; at++)
        for (unsigned flip = 1; flip < 256; flip += CHECK_SANITIZED ? flip : 1) {
            memcpy(bad, good, n);
            bad[at] ^= (uint8_t)flip;
            if (flip == 1)
                CHECK(load(bad, n) != STW_OK);
            if (at >= H(crc32c) && at < H(crc32c) + 4)
                continue;
            plan_fix_crc(bad, n);
            if (load(bad, n) == STW_OK)
                accepted++;
            else
                refused++;
        }
    printf("corruption: %zu refused, %zu accepted and usable\n", refused, accepted);
    CHECK(refused > accepted && accepted > 0);
    free(good);
    free(bad);
}

/* Values that everyone's CRC-32C gives (RFC 3720 B.4), at every alignment. */
static void test_crc(void)
{
    uint8_t bytes[64] = {0};
    CHECK_EQ(stw_crc32c("123456789", 9), 0xe3069283u);
    CHECK_EQ(stw_crc32c(bytes, 32), 0x8a9136aau);
    memset(bytes, 0xff, sizeof bytes);
    for (size_t i = 0; i < 8; i++)
        CHECK_EQ(stw_crc32c(bytes + i, 32), 0x62a8ab43u);
    CHECK_EQ(stw_crc32c(bytes, 0), 0);
}

int main(void)
{
    test_crc();
    test_rules();
    test_versions();
    test_truncation();
    test_corruption();
    return check_end("test_load");
}
