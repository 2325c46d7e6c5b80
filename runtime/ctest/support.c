/* support.c: see support.h. */
#include "support.h"

#include <stdlib.h>
#include <string.h>

static void *more(void *p, uint32_t n, size_t size)
{
    if (n & (n - 1)) /* room doubles at powers of two */
        return p;
    void *q = realloc(p, (n ? 2 * (size_t)n : 1) * size);
    if (!q)
        abort();
    return q;
}

uint32_t builder_stream(builder *b, uint64_t handle, uint64_t begin_units, uint64_t end_units)
{
    b->streams = more(b->streams, b->n_streams, sizeof *b->streams);
    b->streams[b->n_streams] = (stw_plan_stream){handle, begin_units * 512, end_units * 512};
    if (end_units > b->arena_units)
        b->arena_units = end_units;
    return b->n_streams++;
}

static uint32_t slot(builder *b, stw_plan_slot s)
{
    b->slots = more(b->slots, b->n_slots, sizeof *b->slots);
    b->slots[b->n_slots] = s;
    return b->n_slots++;
}

uint32_t builder_planned(builder *b, uint32_t stream, uint32_t offset_units, uint32_t size_units)
{
    return slot(b, (stw_plan_slot){offset_units, size_units, 0, (uint8_t)stream, STW_SLOT_PLANNED});
}

uint32_t builder_dynamic(builder *b, uint32_t stream, uint32_t lo_units, uint32_t hi_units)
{
    return slot(b, (stw_plan_slot){lo_units, hi_units, 0, (uint8_t)stream, 0});
}

uint32_t builder_entry_nf(builder *b, uint32_t s, uint32_t life, uint32_t nf_min, uint32_t nf_max)
{
    b->entries = more(b->entries, b->n_entries, sizeof *b->entries);
    b->entries[b->n_entries] = (stw_plan_entry){s, life | nf_min << 28 | nf_max << 30};
    return b->n_entries++;
}

uint32_t builder_entry(builder *b, uint32_t s, uint32_t life)
{
    return builder_entry_nf(b, s, life, 0, 3);
}

void builder_mark(builder *b, uint32_t entry, uint32_t kind, int64_t value, const char *name)
{
    uint64_t hash = name ? UINT64_C(0xcbf29ce484222325) : 0;
    for (; name && *name; name++)
        hash = (hash ^ (uint8_t)*name) * UINT64_C(0x100000001b3);
    b->marks = more(b->marks, b->n_marks, sizeof *b->marks);
    b->marks[b->n_marks++] = (stw_plan_mark){entry, kind, value, hash};
}

void plan_fix_crc(uint8_t *file, size_t bytes)
{
    const size_t at = offsetof(stw_plan_header, crc32c);
    memset(file + at, 0, 4);
    uint32_t crc = stw_crc32c(file, bytes);
    memcpy(file + at, &crc, 4);
}

void plan_poke(uint8_t *file, size_t file_bytes, size_t at, uint64_t v, size_t bytes)
{
    memcpy(file + at, &v, bytes);
    plan_fix_crc(file, file_bytes);
}

uint8_t *builder_finish(builder *b, size_t *bytes)
{
    struct {
        uint32_t kind, flags;
        const void *data;
        size_t bytes;
    } part[5] = {
        {STW_SECTION_SLOTS, 0, b->slots, b->n_slots * sizeof *b->slots},
        {STW_SECTION_ENTRIES, 0, b->entries, b->n_entries * sizeof *b->entries},
        {STW_SECTION_STREAMS, 0, b->streams, b->n_streams * sizeof *b->streams},
        {STW_SECTION_MARKS, 0, b->marks, b->n_marks * sizeof *b->marks},
        {b->extra_kind, b->extra_flags, b->extra_text, b->extra_text ? (b->extra_bytes ? b->extra_bytes : strlen(b->extra_text)) : 0},
    };
    uint32_t n = b->extra_kind ? 5 : 4;
    size_t at = sizeof(stw_plan_header) + n * sizeof(stw_plan_section), total = at;
    for (uint32_t i = 0; i < n; i++)
        total += (part[i].bytes + 7) & ~(size_t)7;
    uint8_t *file = calloc(1, total);
    if (!file)
        abort();
    stw_plan_header h = {.major = STW_PLAN_MAJOR, .minor = STW_PLAN_MINOR, .header_bytes = sizeof h, .file_bytes = total,
                         .n_sections = n, .arena_bytes = b->arena_units * 512, .capacity_bytes = b->capacity_bytes, .align = STW_PLAN_ALIGN,
                         .n_streams = b->n_streams, .n_slots = b->n_slots, .n_entries = b->n_entries,
                         .loop_start = b->loop_start, .n_marks = b->n_marks, .shared_age = b->shared_age};
    memcpy(h.magic, STW_PLAN_MAGIC, sizeof h.magic);
    memcpy(file, &h, sizeof h);
    for (uint32_t i = 0; i < n; i++) {
        stw_plan_section s = {part[i].kind, part[i].flags, at, part[i].bytes};
        memcpy(file + sizeof h + i * sizeof s, &s, sizeof s);
        if (part[i].bytes)
            memcpy(file + at, part[i].data, part[i].bytes);
        at += (part[i].bytes + 7) & ~(size_t)7;
    }
    plan_fix_crc(file, total);
    free(b->slots);
    free(b->entries);
    free(b->streams);
    free(b->marks);
    memset(b, 0, sizeof *b);
    *bytes = total;
    return file;
}

static bool refuse(test_backend *t)
{
    return ++t->calls == t->fail_at;
}

static void *test_reserve(void *ctx, size_t bytes)
{
    test_backend *t = ctx;
    void *p = NULL;
    if (refuse(t))
        return NULL;
    if (t->bare) {
        p = (void *)t->next;
        t->next += bytes;
    } else {
        p = t->host.reserve(t->host.ctx, bytes);
    }
    t->reserved += p ? (int64_t)bytes : 0;
    return p;
}

static int test_commit(void *ctx, void *p, size_t bytes)
{
    test_backend *t = ctx;
    if (refuse(t) || (!t->bare && t->host.commit(t->host.ctx, p, bytes) != 0))
        return -1;
    t->committed += (int64_t)bytes;
    return 0;
}

static void test_decommit(void *ctx, void *p, size_t bytes)
{
    test_backend *t = ctx;
    if (!t->bare)
        t->host.decommit(t->host.ctx, p, bytes);
    t->committed -= (int64_t)bytes;
}

static void test_release(void *ctx, void *p, size_t bytes)
{
    test_backend *t = ctx;
    if (!t->bare)
        t->host.release(t->host.ctx, p, bytes);
    t->reserved -= (int64_t)bytes;
}

stw_backend test_backend_make(test_backend *t, bool bare, size_t granularity)
{
    size_t g = granularity ? granularity : 4096;
    *t = (test_backend){.host = stw_backend_host(g), .bare = bare, .next = (uintptr_t)1 << 44};
    return (stw_backend){.ctx = t, .granularity = g, .reserve = test_reserve, .commit = test_commit, .decommit = test_decommit,
                         .release = test_release};
}
