/* fuzz_load.c [ROUNDS [SEED]]: plans, mutated at random in many places with the checksum mended: each is refused with a
 * message or is a plan that works. Half of them are what the compiler made (testdata/plans, which a test of package
 * compiler keeps as they would be made today), the others are made up with every part that the format has.
 * Deterministic: a failure is repeated by its numbers. Run it in the top folder, as make does.
 */
#define _POSIX_C_SOURCE 200809L
#include "check.h"
#include "support.h"

#include <glob.h>
#include <stdlib.h>
#include <string.h>

#define KEPT_PLANS "testdata/plans/*.plan"
#define MOST_KEPT 32

typedef struct {
    uint8_t *bytes;
    size_t n;
} plan_file;

static plan_file kept[MOST_KEPT];
static size_t n_kept;

/* Reads the kept plans, in the order of their names. */
static bool read_kept(void)
{
    glob_t found;
    if (glob(KEPT_PLANS, 0, NULL, &found) != 0)
        return false;
    for (; n_kept < found.gl_pathc && n_kept < MOST_KEPT; n_kept++) {
        FILE *f = fopen(found.gl_pathv[n_kept], "rb");
        plan_file *k = &kept[n_kept];
        if (!f || fseek(f, 0, SEEK_END) != 0 || !(k->bytes = malloc(k->n = (size_t)ftell(f))))
            return false;
        rewind(f);
        bool whole = fread(k->bytes, 1, k->n, f) == k->n;
        fclose(f);
        if (!whole)
            return false;
    }
    globfree(&found);
    return n_kept > 0;
}

static uint32_t below(uint64_t *seed, uint32_t n)
{
    return (uint32_t)(check_random(seed) % n);
}

/* Up to four lists of ranges of the arena, as NEEDS has them, to words[0..64); returns their bytes. */
static size_t random_needs(const builder *b, uint64_t *seed, uint32_t lists, uint32_t *words)
{
    uint32_t n = 0, *range = words + lists + 2;
    words[0] = lists;
    for (uint32_t i = 0; i < lists; i++) {
        words[1 + i] = n;
        for (uint32_t low = 0, top = (uint32_t)b->arena_units, k = below(seed, 4); k > 0 && low < top; k--, n++) {
            range[2 * n] = low + below(seed, top - low);
            range[2 * n + 1] = low = range[2 * n] + 1 + below(seed, top - range[2 * n]);
        }
    }
    words[1 + lists] = n;
    return (lists + 2 + 2 * n) * sizeof *words;
}

static plan_file random_plan(uint64_t *seed)
{
    builder b = {0};
    uint32_t streams = 1 + below(seed, 3), entries = below(seed, 40), lists = below(seed, 5), words[64], id;
    b.shared_age = below(seed, 3) ? 0 : 1 + below(seed, 40);
    for (uint32_t i = 0; i < streams; i++)
        builder_stream(&b, i * 17, b.shared_age ? 0 : i * 100, b.shared_age ? streams * 100 : (i + 1) * 100);
    for (uint32_t i = 0; i < entries; i++) {
        uint64_t r = check_random(seed);
        uint32_t stream = (uint32_t)(r % streams), size = 1 + (uint32_t)(r >> 8) % 20, at = stream * 100 + (uint32_t)(r >> 16) % 80;
        if (r >> 60 > 2) {
            id = builder_planned(&b, stream, at, size);
            b.slots[id].aux = r >> 56 & 1 ? (uint16_t)check_random(seed) : 0;
        } else {
            id = builder_dynamic(&b, stream, size, 2 * size);
            b.slots[id].aux = (uint16_t)below(seed, lists + 1);
        }
        if (r >> 57 & 1)
            b.slots[id].flags |= STW_SLOT_OPTIONAL;
        builder_entry_nf(&b, (uint32_t)(r >> 40) % (id + 1), (uint32_t)(r >> 32) % 50 | (r >> 58 & 1 ? STW_ENTRY_FIRM : 0), 0,
                         (uint32_t)(r >> 62));
        if ((r >> 52 & 15) == 0) { /* no entry's: nobody's */
            id = builder_planned(&b, stream, at, size);
            b.slots[id].flags |= STW_SLOT_KEPT;
        }
    }
    b.loop_start = entries / 3;
    builder_mark(&b, 0, STW_MARK_ITERATION, -1, NULL);
    builder_mark(&b, b.loop_start, STW_MARK_ITERATION, 0, NULL);
    builder_mark(&b, entries / 2, STW_MARK_PHASE, 0, "a");
    b.extra_flags = STW_SECTION_OPTIONAL;
    if (lists) {
        b.extra_kind = STW_SECTION_NEEDS;
        b.extra_text = words;
        b.extra_bytes = random_needs(&b, seed, lists, words);
    } else {
        b.extra_kind = STW_SECTION_INFO;
        b.extra_text = "rules-digest: 0123456789abcdef\nrule: x.rules:1:1: keep (size = 1KiB)\n";
    }
    plan_file f;
    f.bytes = builder_finish(&b, &f.n);
    return f;
}

static const void *section_of(const uint8_t *file, uint32_t i, stw_plan_section *s)
{
    memcpy(s, file + sizeof(stw_plan_header) + i * sizeof *s, sizeof *s);
    return file + s->offset;
}

/* Changes one value of 1 to 8 bytes somewhere in a file that may be changed already. The header and the table
 * have a third of the changes, for one value decides the most there; each section has an equal part of the others. */
static void mutate(plan_file f, const plan_file *whole, uint64_t *seed)
{
    stw_plan_header h;
    stw_plan_section s;
    memcpy(&h, whole->bytes, sizeof h);
    uint64_t r = check_random(seed), word, old = 0;
    size_t width = (size_t)1 << (r & 3), head = sizeof h + h.n_sections * sizeof s, begin = 16, end = head;
    if ((r >> 2 & 0xff) % 3) {
        section_of(whole->bytes, (uint32_t)(r >> 10) % h.n_sections, &s);
        begin = s.offset;
        end = s.offset + s.bytes;
    }
    if (begin == end)
        return;
    size_t at = (begin + check_random(seed) % (end - begin)) / width * width;
    if (at + width > f.n)
        return;
    memcpy(&old, f.bytes + at, width);
    switch (r >> 62) {
    case 0:
        word = check_random(seed);
        break;
    case 1:
        word = check_random(seed) % 300;
        break;
    case 2:
        word = old + (r >> 40 & 3) - 2;
        break;
    default: /* what another place has */
        word = 0;
        memcpy(&word, f.bytes + check_random(seed) % (f.n / width) * width, width);
    }
    plan_poke(f.bytes, f.n, at, word, width);
}

/* A backend whose events are reached at random. */
static void *event_record(void *ctx, uint64_t stream)
{
    (void)stream;
    return ctx;
}

static int event_wait(void *ctx, uint64_t stream, void *event)
{
    return (void)ctx, (void)stream, (void)event, 0;
}

static int event_done(void *ctx, void *event)
{
    (void)event;
    test_backend *t = ctx;
    return (int)(++t->calls & 1);
}

static void event_drop(void *ctx, void *event)
{
    (void)ctx, (void)event;
}

typedef struct {
    uintptr_t at;
    size_t bytes;
    bool marked; /* by stw_record_stream: it may stay live for ever once it is freed, where there are more streams than can be ordered */
} block;

static uintptr_t left[1 << 16]; /* freed blocks that were marked */
static size_t n_left;

/* What no program should do, and what it rarely does: nothing of it changes what is live. */
static void misuse(stw_allocator *a, block *live, uint32_t n, uint64_t *seed)
{
    static const size_t absurd[] = {0, SIZE_MAX, (size_t)1 << 60, ((size_t)1 << 60) + 1, (size_t)1 << 41, ((size_t)1 << 41) - 512, (size_t)1 << 32};
    uint64_t r = check_random(seed), w = check_random(seed);
    block *b = &live[w % n];
    uintptr_t wild = r >> 8 & 1 ? (uintptr_t)stw_arena(a) + (w >> 20) % (1 << 21) * 512 : r >> 9 & 1 ? b->at + 512 * (1 + (w >> 8) % 30) : (uintptr_t)w;
    char text[40];
    for (uint32_t i = 0; i < n; i++)
        if (live[i].at == wild)
            return;
    for (size_t i = 0; i < n_left; i++)
        if (left[i] == wild)
            return;
    switch (r & 15) {
    case 0:
    case 1:
        CHECK_EQ(stw_free(a, (void *)wild), wild ? -1 : 0);
        break;
    case 2:
        CHECK_EQ(stw_record_stream(a, (void *)wild, w % 7), wild ? -1 : 0);
        break;
    case 3:
        CHECK_EQ(stw_size(a, (void *)wild), 0);
        break;
    case 4: { /* one that is served after all is given back */
        void *p = stw_malloc(a, absurd[w % (sizeof absurd / sizeof *absurd)], (w >> 20) % 4 * 17);
        CHECK_EQ(stw_free(a, p), 0);
        CHECK_EQ(stw_free(a, p), p ? -1 : 0);
        break;
    }
    case 5:
        stw_mark(a, (uint32_t)(w % 4), (int64_t)(w >> 8) - (1 << 20), w & 64 ? "a" : w & 128 ? "" : NULL);
        break;
    case 6:
        stw_set_capacity(a, w & 1 ? 0 : w >> (1 + (w >> 1) % 62));
        break;
    case 7:
        stw_trim(a);
        break;
    case 8:
        stw_reset_peaks(a);
        break;
    case 9:
        stw_report(a, text, (size_t)(w % sizeof text));
        break;
    case 10: /* more streams than can be ordered, each once */
        CHECK_EQ(stw_free(a, stw_malloc(a, 512, w)), 0);
        break;
    case 11:
        if (b->at && (b->marked = true))
            CHECK_EQ(stw_record_stream(a, (void *)b->at, w), 0);
        break;
    default:
        break;
    }
}

/* Requests that mostly follow the plan, which is valid, and frees at random; nothing that is live overlaps. */
static void use(stw_allocator *a, const uint8_t *file, uint64_t *seed, int requests)
{
    stw_plan_header h;
    const stw_plan_slot *slots = NULL;
    const stw_plan_entry *entries = NULL;
    const stw_plan_stream *streams = NULL;
    memcpy(&h, file, sizeof h);
    for (uint32_t i = 0; i < h.n_sections; i++) {
        stw_plan_section s;
        const void *p = section_of(file, i, &s);
        if (s.kind == STW_SECTION_SLOTS)
            slots = p;
        else if (s.kind == STW_SECTION_ENTRIES)
            entries = p;
        else if (s.kind == STW_SECTION_STREAMS)
            streams = p;
    }
    block live[32] = {0};
    n_left = 0;
    char message[200];
    uint32_t k = 0;
    for (int i = 0; i < requests; i++) {
        uint64_t r = check_random(seed), stream = (r >> 32) % 4 * 17;
        size_t bytes = 1 + (r >> 8) % 12000;
        if (h.n_entries > 0 && r >> 60 > 1) {
            const stw_plan_slot *s = &slots[entries[k].slot];
            stream = streams[s->stream].handle;
            bytes = s->flags & STW_SLOT_PLANNED ? (size_t)s->hi * 512 : (size_t)(s->lo + (r >> 40) % (s->hi - s->lo + UINT64_C(1))) * 512;
            if (++k == h.n_entries)
                k = h.loop_start % h.n_entries;
        } else if (r >> 60 == 1) {
            stw_mark(a, 1 + (r >> 50 & 1), (int64_t)(r >> 40 & 3) - 1, "a");
        }
        misuse(a, live, 32, seed);
        uint32_t to = (uint32_t)(r % 32);
        if ((r >> 56 & 7) == 0 && (live[to].marked = true))
            CHECK_EQ(stw_record_stream(a, (void *)live[to].at, (r >> 48) % 3 * 17), 0);
        CHECK(stw_free(a, (void *)live[to].at) == 0);
        if (live[to].marked && n_left < sizeof left / sizeof *left)
            left[n_left++] = live[to].at;
        live[to] = (block){(uintptr_t)stw_malloc(a, bytes, stream), bytes, false};
        for (uint32_t j = 0; j < 32 && live[to].at; j++)
            if (j != to && live[j].at && live[j].at < live[to].at + bytes && live[to].at < live[j].at + live[j].bytes)
                CHECK(!"two live allocations overlap");
    }
    if (!CHECK_EQ(stw_check(a, message, sizeof message), 0))
        printf("  %s\n", message);
    CHECK(stw_report(a, message, sizeof message) > 0);
}

int main(int argc, char **argv)
{
    long rounds = argc > 1 ? atol(argv[1]) : CHECK_THREADS_ONLY ? 300 : CHECK_SANITIZED ? 2000 : 5000;
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    unsigned long accepted[2] = {0}, refused[2] = {0};
    if (!CHECK(read_kept())) {
        printf("fuzz_load: no plans at %s: run it in the top folder\n", KEPT_PLANS);
        return 1;
    }
    for (long k = 0; k < rounds; k++) {
        uint64_t seed = first + (uint64_t)k, events = k & 2;
        plan_file whole, f;
        if (k & 1) {
            whole = random_plan(&seed);
        } else {
            whole = kept[(size_t)k / 2 % n_kept];
            whole.bytes = memcpy(malloc(whole.n), whole.bytes, whole.n);
        }
        f = whole;
        f.bytes = memcpy(malloc(f.n), whole.bytes, f.n); /* of exactly that size: a read past its end is seen */
        for (uint32_t mutations = below(&seed, 4); mutations > 0; mutations--)
            mutate(f, &whole, &seed);
        test_backend memory;
        stw_backend backend = test_backend_make(&memory, true, 4096);
        if (events) {
            backend.event_record = event_record;
            backend.event_wait = event_wait;
            backend.event_done = event_done;
            backend.event_drop = event_drop;
        }
        stw_options o = {.heap_bytes = UINT64_C(1) << 31, .capacity_bytes = k % 3 ? 0 : UINT64_C(1) << (k & 1 ? 18 : 31)};
        char message[300] = "";
        stw_allocator *a;
        stw_status s = stw_create(&a, f.bytes, f.n, &o, &backend, message, sizeof message);
        if (s == STW_OK) {
            accepted[k & 1]++;
            use(a, f.bytes, &seed, 100);
        } else {
            refused[k & 1]++;
            CHECK(a == NULL && strlen(message) > 10);
        }
        stw_destroy(a);
        free(f.bytes);
        free(whole.bytes);
        if (!CHECK(memory.reserved == 0 && memory.committed == 0) || check_failed)
            return printf("  seed %llu\n", (unsigned long long)(first + (uint64_t)k)), check_end("fuzz_load");
    }
    for (size_t i = 0; i < n_kept; i++)
        free(kept[i].bytes);
    CHECK(accepted[0] > 0 && refused[0] > 0 && accepted[1] > 0 && refused[1] > 0);
    printf("of %zu kept plans %lu accepted and used, %lu refused; of made-up ones %lu and %lu\n", n_kept, accepted[0], refused[0], accepted[1],
           refused[1]);
    return check_end("fuzz_load");
}
