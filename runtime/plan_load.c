/* plan_load.c: the only code that reads untrusted bytes. One pass, front to back, over a copy of
 * the file: each rule below is checked before anything that relies on it is read, and after it the
 * hot path checks nothing about the file.
 *
 * It builds what the hot path needs: for each planned slot the atoms it covers. Atoms are the
 * pieces of the arena between neighbouring planned boundaries:
 *
 *     slots      |--------A--------|            |--C--|
 *                |--B--|                 |-------D--------|
 *     atoms      |  0  |     1     |  2  |  3   |  4  | 5 |       A = [0,2)  C = [4,5)
 *
 * Boundaries are radix-sorted, so the pass is linear. Two slots overlap exactly where they share
 * an atom, which makes occupancy one bit for each atom.
 */
#include "stw_internal.h"

#include <stdio.h>
#include <string.h>

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "plans are little-endian, and read as they lie");

typedef enum {
    P_SHORT = 1, P_MAGIC, P_MAJOR, P_HEADER_BYTES, P_FILE_BYTES, P_CRC, P_ALIGN, P_N_ENTRIES, P_N_STREAMS,
    P_N_SLOTS, P_LOOP_START, P_ARENA, P_RESERVED, P_TABLE, P_SECTION_FLAGS, P_SECTION_PLACE, P_GAP,
    P_SECTION_UNKNOWN, P_SECTION_TWICE, P_SECTION_SIZE, P_STREAM_RANGE, P_STREAM_OVERLAP, P_SLOT_STREAM,
    P_SLOT_UNUSED, P_SLOT_EMPTY, P_SLOT_PLACE, P_SLOT_SIZES, P_ENTRY_SLOT, P_ENTRY_NF, P_MARK_ORDER,
    P_MARK_KIND, P_MARK_UNUSED, P_NEEDS_SIZE, P_NEEDS_RANGE, P_SLOT_LIST,
} rule;

static const struct {
    const char *sentence, *place;
} rules[] = {
    [P_SHORT] = {"the file is shorter than a plan's header", "bytes"},
    [P_MAGIC] = {"not a plan: it does not begin with a plan's magic bytes", NULL},
    [P_MAJOR] = {"the plan has a format version that this library does not know; compile it again or update the library", "major version"},
    [P_HEADER_BYTES] = {"the header does not have its size of 128 bytes", "bytes"},
    [P_FILE_BYTES] = {"the file is not as long as its header says: cut short, or something follows it", "bytes by the header"},
    [P_CRC] = {"the checksum does not match: the file is damaged", NULL},
    [P_ALIGN] = {"the alignment is not 512", "alignment"},
    [P_N_ENTRIES] = {"too many entries", "entries"},
    [P_N_STREAMS] = {"too many streams", "streams"},
    [P_N_SLOTS] = {"too many slots", "slots"},
    [P_LOOP_START] = {"the loop starts after the last entry", "loop_start"},
    [P_ARENA] = {"the arena is not a multiple of 512 below 2 TiB", "bytes"},
    [P_RESERVED] = {"reserved bytes of the header are not zero", NULL},
    [P_TABLE] = {"the section table does not fit in the file", "sections"},
    [P_SECTION_FLAGS] = {"a section has unknown flags", "section"},
    [P_SECTION_PLACE] = {"a section is misaligned, overlaps what comes before it, or ends after the file", "section"},
    [P_GAP] = {"bytes that no section owns are not zero", "byte"},
    [P_SECTION_UNKNOWN] = {"a required section is of a kind that this library does not know", "kind"},
    [P_SECTION_TWICE] = {"a kind of section is there twice", "kind"},
    [P_SECTION_SIZE] = {"a section does not have the size that the header's count asks for", "kind"},
    [P_STREAM_RANGE] = {"a stream's range is misaligned, reversed or outside the arena", "stream"},
    [P_STREAM_OVERLAP] = {"the ranges of two streams overlap, and the plan does not say that streams share", "stream"},
    [P_SLOT_STREAM] = {"a slot names a stream that is not there", "slot"},
    [P_SLOT_UNUSED] = {"a slot has unknown flags", "slot"},
    [P_SLOT_EMPTY] = {"a planned slot has no size", "slot"},
    [P_SLOT_PLACE] = {"a planned slot is not inside its stream's range", "slot"},
    [P_SLOT_SIZES] = {"a dynamic slot's largest size is below its smallest", "slot"},
    [P_ENTRY_SLOT] = {"an entry names a slot that is not there", "entry"},
    [P_ENTRY_NF] = {"an entry's most frees are below its least", "entry"},
    [P_MARK_ORDER] = {"a mark is out of order or after the last entry", "mark"},
    [P_MARK_KIND] = {"a mark is of an unknown kind", "mark"},
    [P_MARK_UNUSED] = {"a mark has a field set that its kind does not use", "mark"},
    [P_NEEDS_SIZE] = {"the needs do not have the size that their lists ask for", "lists"},
    [P_NEEDS_RANGE] = {"a list of needs is out of order or leaves the arena", "list"},
    [P_SLOT_LIST] = {"a slot names a list of needs that is not there", "slot"},
};

typedef struct {
    stw_plan *plan;
    const uint8_t *file;
    uint64_t bytes;
    stw_plan_header header;
    const void *section[STW_SECTION_NEEDS + 1]; /* by kind; NULL where absent */
    uint64_t needs_bytes, info_bytes;
    bool strict;                               /* unused bytes must be zero: our own minor */
    char *err;
    size_t err_bytes;
} loader;

static stw_status fail(const loader *l, rule r, uint64_t where)
{
    if (l->err && !rules[r].place)
        snprintf(l->err, l->err_bytes, "plan: P%d: %s", (int)r, rules[r].sentence);
    else if (l->err)
        snprintf(l->err, l->err_bytes, "plan: P%d: %s (%s %llu)", (int)r, rules[r].sentence, rules[r].place,
                 (unsigned long long)where);
    return r == P_MAJOR ? STW_E_VERSION : STW_E_PLAN;
}

static stw_status no_memory(const loader *l)
{
    if (l->err)
        snprintf(l->err, l->err_bytes, "plan: no memory for a plan of %llu bytes", (unsigned long long)l->bytes);
    return STW_E_MEMORY;
}

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#endif

/* A copy, aligned and nobody else's to change. Under ASan the rest of its last page is forbidden,
 * so that the tests see a read past the end. */
static bool copy_file(stw_plan *p, const void *bytes, size_t n)
{
    *p = (stw_plan){.file_bytes = n, .mapped_bytes = (n / 4096 + 1) * 4096};
    if ((p->bytes = stwi_map(p->mapped_bytes)) == NULL)
        return false;
    memcpy(p->bytes, bytes, n);
    ASAN_POISON_MEMORY_REGION((char *)p->bytes + n, p->mapped_bytes - n);
    return true;
}

static stw_status check_header(loader *l)
{
    stw_plan_header *h = &l->header;
    const size_t version_end = offsetof(stw_plan_header, header_bytes);
    if (l->bytes < version_end)
        return fail(l, P_SHORT, l->bytes);
    memcpy(h, l->file, version_end); /* enough to name a version whose header is another one */
    if (memcmp(h->magic, STW_PLAN_MAGIC, sizeof h->magic) != 0)
        return fail(l, P_MAGIC, 0);
    if (h->major != STW_PLAN_MAJOR)
        return fail(l, P_MAJOR, h->major);
    if (l->bytes < sizeof *h)
        return fail(l, P_SHORT, l->bytes);
    memcpy(h, l->file, sizeof *h);
    if (h->header_bytes != sizeof *h)
        return fail(l, P_HEADER_BYTES, h->header_bytes);
    if (h->file_bytes != l->bytes)
        return fail(l, P_FILE_BYTES, h->file_bytes);
    const size_t at = offsetof(stw_plan_header, crc32c);
    const uint8_t zero[4] = {0};
    uint32_t crc = stwi_crc32c(0, l->file, at);
    crc = stwi_crc32c(crc, zero, sizeof zero);
    if (stwi_crc32c(crc, l->file + at + 4, l->bytes - at - 4) != h->crc32c)
        return fail(l, P_CRC, 0);
    l->strict = h->minor <= STW_PLAN_MINOR;
    if (h->align != STW_PLAN_ALIGN)
        return fail(l, P_ALIGN, h->align);
    if (h->n_entries >= STW_PLAN_MAX_ENTRIES)
        return fail(l, P_N_ENTRIES, h->n_entries);
    if (h->n_streams > STW_PLAN_MAX_STREAMS)
        return fail(l, P_N_STREAMS, h->n_streams);
    if (h->n_slots >= STW_PLAN_MAX_ENTRIES)
        return fail(l, P_N_SLOTS, h->n_slots);
    if (h->loop_start > h->n_entries)
        return fail(l, P_LOOP_START, h->loop_start);
    if (h->arena_bytes % STW_PLAN_ALIGN != 0 || h->arena_bytes >= STW_MAX_RANGE)
        return fail(l, P_ARENA, h->arena_bytes);
    if (l->strict && (h->reserved[0] | h->reserved[1] | h->reserved[2]) != 0)
        return fail(l, P_RESERVED, 0);
    return STW_OK;
}

static stw_status check_gap(const loader *l, uint64_t begin, uint64_t end)
{
    for (uint64_t i = begin; l->strict && i < end; i++)
        if (l->file[i] != 0)
            return fail(l, P_GAP, i);
    return STW_OK;
}

static stw_status check_sections(loader *l)
{
    const stw_plan_header *h = &l->header;
    const uint64_t want[STW_SECTION_INFO] = {
        [STW_SECTION_SLOTS] = h->n_slots * (uint64_t)sizeof(stw_plan_slot),
        [STW_SECTION_ENTRIES] = h->n_entries * (uint64_t)sizeof(stw_plan_entry),
        [STW_SECTION_STREAMS] = h->n_streams * (uint64_t)sizeof(stw_plan_stream),
        [STW_SECTION_MARKS] = h->n_marks * (uint64_t)sizeof(stw_plan_mark),
    };
    uint64_t got[STW_SECTION_NEEDS + 1] = {0}, end = sizeof *h + h->n_sections * (uint64_t)sizeof(stw_plan_section);
    if (end > l->bytes)
        return fail(l, P_TABLE, h->n_sections);
    for (uint32_t i = 0; i < h->n_sections; i++) {
        stw_plan_section s;
        memcpy(&s, l->file + sizeof *h + i * sizeof s, sizeof s);
        if (l->strict && s.flags & ~STW_SECTION_OPTIONAL)
            return fail(l, P_SECTION_FLAGS, i);
        if (s.offset % 8 != 0 || s.offset < end || s.offset > l->bytes || s.bytes > l->bytes - s.offset)
            return fail(l, P_SECTION_PLACE, i);
        stw_status gap = check_gap(l, end, s.offset);
        if (gap != STW_OK)
            return gap;
        end = s.offset + s.bytes;
        if (s.kind == 0 || s.kind > STW_SECTION_NEEDS) {
            if (!(s.flags & STW_SECTION_OPTIONAL))
                return fail(l, P_SECTION_UNKNOWN, s.kind);
            continue;
        }
        if (l->section[s.kind])
            return fail(l, P_SECTION_TWICE, s.kind);
        l->section[s.kind] = l->file + s.offset;
        got[s.kind] = s.bytes;
    }
    for (uint32_t kind = STW_SECTION_SLOTS; kind < STW_SECTION_INFO; kind++)
        if (got[kind] != want[kind])
            return fail(l, P_SECTION_SIZE, kind);
    l->needs_bytes = got[STW_SECTION_NEEDS];
    l->info_bytes = got[STW_SECTION_INFO];
    return check_gap(l, end, l->bytes);
}

/* Sorts n keys by their upper 32 bits, least significant digit first; tmp has room for n. Four
 * passes, so that the result is in keys again. */
static void radix_sort(uint64_t *keys, uint64_t *tmp, size_t n)
{
    for (int shift = 32; shift < 64; shift += 8) {
        size_t at[257] = {0};
        for (size_t i = 0; i < n; i++)
            at[(keys[i] >> shift & 0xff) + 1]++;
        for (int d = 0; d < 256; d++)
            at[d + 1] += at[d];
        for (size_t i = 0; i < n; i++)
            tmp[at[keys[i] >> shift & 0xff]++] = keys[i];
        uint64_t *swap = keys;
        keys = tmp;
        tmp = swap;
    }
}

/* keys and tmp lie in one mapping; begins of streams are sorted to find overlaps. */
static stw_status check_streams(const loader *l, uint64_t *keys, uint64_t *tmp)
{
    const stw_plan_stream *streams = l->section[STW_SECTION_STREAMS];
    size_t n = 0;
    for (uint32_t i = 0; i < l->header.n_streams; i++) {
        const stw_plan_stream *s = &streams[i];
        if (s->begin % STW_PLAN_ALIGN != 0 || s->end % STW_PLAN_ALIGN != 0 || s->begin > s->end ||
            s->end > l->header.arena_bytes)
            return fail(l, P_STREAM_RANGE, i);
        if (s->begin < s->end)
            keys[n++] = s->begin >> STW_UNIT_SHIFT << 32 | i;
    }
    radix_sort(keys, tmp, n);
    for (size_t i = 1; i < n && l->header.shared_age == 0; i++)
        if (streams[(uint32_t)keys[i - 1]].end > streams[(uint32_t)keys[i]].begin)
            return fail(l, P_STREAM_OVERLAP, (uint32_t)keys[i]);
    return STW_OK;
}

static stw_status load_slots(const loader *l, uint64_t *keys, uint64_t *tmp)
{
    const stw_plan_slot *in = l->section[STW_SECTION_SLOTS];
    const stw_plan_stream *streams = l->section[STW_SECTION_STREAMS];
    stw_slot *out = l->plan->slots;
    size_t n = 0;
    for (uint32_t i = 0; i < l->header.n_slots; i++) {
        const stw_plan_slot *s = &in[i];
        out[i] = (stw_slot){.lo = s->lo, .hi = s->hi, .stream = s->stream, .flags = s->flags, .varies = s->flags & STW_SLOT_PLANNED ? s->aux : 0};
        if (s->stream >= l->header.n_streams)
            return fail(l, P_SLOT_STREAM, i);
        bool planned = s->flags & STW_SLOT_PLANNED;
        if (l->strict && s->flags & ~(STW_SLOT_PLANNED | STW_SLOT_OPTIONAL | (planned ? STW_SLOT_KEPT : 0)))
            return fail(l, P_SLOT_UNUSED, i);
        if (!planned) {
            if (s->lo > s->hi)
                return fail(l, P_SLOT_SIZES, i);
            if (s->aux > l->plan->n_lists)
                return fail(l, P_SLOT_LIST, i);
            out[i].list = s->aux;
            continue;
        }
        const stw_plan_stream *own = &streams[s->stream];
        uint64_t end = (uint64_t)s->lo + s->hi; /* units; below 2^32 once it is inside the arena */
        if (s->hi == 0)
            return fail(l, P_SLOT_EMPTY, i);
        if (s->lo < own->begin >> STW_UNIT_SHIFT || end > own->end >> STW_UNIT_SHIFT)
            return fail(l, P_SLOT_PLACE, i);
        keys[n++] = (uint64_t)s->lo << 32 | 2 * i;
        keys[n++] = end << 32 | (2 * i + 1);
    }
    radix_sort(keys, tmp, n);
    uint32_t atom = 0;
    for (size_t i = 0; i < n; i++) {
        atom += i > 0 && keys[i] >> 32 != keys[i - 1] >> 32;
        l->plan->bounds[atom] = (uint32_t)(keys[i] >> 32);
        stw_slot *s = &out[(uint32_t)keys[i] / 2];
        *(keys[i] & 1 ? &s->atom_end : &s->atom_begin) = atom;
    }
    l->plan->n_atoms = atom;
    for (uint32_t i = 0; i < l->header.n_slots; i++)
        if (out[i].flags & STW_SLOT_PLANNED)
            out[i].atoms = stwi_mask_of(out[i].atom_begin, out[i].atom_end);
    return STW_OK;
}

/* Words of NEEDS: the count of lists, their starts, their ranges. */
static stw_status check_needs(const loader *l)
{
    const uint32_t *w = l->section[STW_SECTION_NEEDS];
    if (!w)
        return STW_OK;
    uint64_t words = l->needs_bytes / 4, n = words ? w[0] : 0;
    if (l->needs_bytes % 4 != 0 || n + 2 > words)
        return fail(l, P_NEEDS_SIZE, n);
    const uint32_t *start = w + 1, *range = w + n + 2;
    for (uint64_t i = 0; i < n; i++)
        if (start[i] > start[i + 1])
            return fail(l, P_NEEDS_RANGE, i);
    if (start[0] != 0 || words != n + 2 + 2 * (uint64_t)start[n])
        return fail(l, P_NEEDS_SIZE, n);
    for (uint64_t i = 0; i < n; i++) {
        uint32_t low = 0;
        for (uint32_t r = start[i]; r < start[i + 1]; r++) {
            uint32_t begin = range[2 * r], end = range[2 * r + 1];
            if (begin < low || begin >= end || end > l->header.arena_bytes >> STW_UNIT_SHIFT)
                return fail(l, P_NEEDS_RANGE, i);
            low = end;
        }
    }
    l->plan->n_lists = (uint32_t)n;
    return STW_OK;
}

static stw_status check_entries_and_marks(const loader *l)
{
    const stw_plan_entry *entries = l->section[STW_SECTION_ENTRIES];
    const stw_plan_mark *marks = l->section[STW_SECTION_MARKS];
    for (uint32_t i = 0; i < l->header.n_entries; i++) {
        if (entries[i].slot >= l->header.n_slots)
            return fail(l, P_ENTRY_SLOT, i);
        if ((entries[i].life_nf >> 28 & 3) > entries[i].life_nf >> 30)
            return fail(l, P_ENTRY_NF, i);
    }
    for (uint32_t i = 0; i < l->header.n_marks; i++) {
        const stw_plan_mark *m = &marks[i];
        if (m->entry > l->header.n_entries || (i > 0 && m->entry < marks[i - 1].entry))
            return fail(l, P_MARK_ORDER, i);
        if (m->kind != STW_MARK_ITERATION && m->kind != STW_MARK_PHASE)
            return fail(l, P_MARK_KIND, i);
        if (l->strict && (m->kind == STW_MARK_ITERATION ? m->name != 0 : m->value != 0))
            return fail(l, P_MARK_UNUSED, i);
    }
    return STW_OK;
}

/* What the plan says of its rules: lines "rules-digest: <hex digits>" and "rule: …". It is for the report
 * alone, so it is read leniently: what is not there is not said. */
static void read_rules(const loader *l, stw_plan *p)
{
    static const char digest[] = "rules-digest: ", rule_line[] = "rule: ";
    const char *at = l->section[STW_SECTION_INFO], *end = at ? at + l->info_bytes : NULL;
    p->n_rules = 0;
    memset(p->rules, 0, sizeof p->rules);
    while (at < end) {
        const char *next = memchr(at, '\n', (size_t)(end - at));
        size_t n = (size_t)((next ? next : end) - at);
        if (n > sizeof rule_line - 1 && memcmp(at, rule_line, sizeof rule_line - 1) == 0)
            p->n_rules++;
        if (n > sizeof digest - 1 && memcmp(at, digest, sizeof digest - 1) == 0)
            for (size_t i = 0; i + 1 < sizeof p->rules && i + sizeof digest - 1 < n; i++) {
                char c = at[i + sizeof digest - 1];
                if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')))
                    break;
                p->rules[i] = c;
            }
        at = next ? next + 1 : end;
    }
}

stw_status stwi_plan_load(stw_plan *out, const void *bytes, size_t n, char *err, size_t err_bytes)
{
    loader l = {.plan = out, .bytes = n, .err = err_bytes ? err : NULL, .err_bytes = err_bytes};
    if (!copy_file(out, bytes, n))
        return no_memory(&l);
    l.file = out->bytes;

    stw_status s = check_header(&l);
    if (s == STW_OK)
        s = check_sections(&l);
    if (s == STW_OK) {
        const stw_plan_header *h = &l.header;
        size_t room = 2 * (size_t)h->n_slots > h->n_streams ? 2 * (size_t)h->n_slots : h->n_streams;
        size_t keys_bytes = 2 * room * sizeof(uint64_t) + 1;
        uint64_t *keys = stwi_map(keys_bytes);
        out->slots_mapped_bytes = h->n_slots * sizeof *out->slots + 1;
        out->slots = stwi_map(out->slots_mapped_bytes);
        out->bounds_mapped_bytes = (2 * (size_t)h->n_slots + 1) * sizeof *out->bounds;
        out->bounds = stwi_map(out->bounds_mapped_bytes);
        s = keys && out->slots && out->bounds ? check_streams(&l, keys, keys + room) : no_memory(&l);
        if (s == STW_OK)
            s = check_needs(&l);
        if (s == STW_OK)
            s = load_slots(&l, keys, keys + room);
        stwi_unmap(keys, keys_bytes);
    }
    if (s == STW_OK)
        s = check_entries_and_marks(&l);
    if (s != STW_OK) {
        stwi_plan_drop(out);
        return s;
    }
    out->arena_bytes = l.header.arena_bytes;
    out->capacity_bytes = l.header.capacity_bytes;
    out->n_entries = l.header.n_entries;
    out->n_slots = l.header.n_slots;
    out->n_streams = l.header.n_streams;
    out->n_marks = l.header.n_marks;
    out->loop_start = l.header.loop_start;
    out->shared_age = l.header.shared_age;
    out->entries = l.section[STW_SECTION_ENTRIES];
    out->streams = l.section[STW_SECTION_STREAMS];
    out->marks = l.section[STW_SECTION_MARKS];
    read_rules(&l, out);
    if (!stwi_lent_make(out, l.section[STW_SECTION_NEEDS])) {
        stwi_plan_drop(out);
        return no_memory(&l);
    }
    return STW_OK;
}

void stwi_plan_drop(stw_plan *p)
{
    if (p->bytes)
        ASAN_UNPOISON_MEMORY_REGION(p->bytes, p->mapped_bytes);
    stwi_unmap(p->bytes, p->mapped_bytes);
    stwi_unmap(p->slots, p->slots_mapped_bytes);
    stwi_unmap(p->bounds, p->bounds_mapped_bytes);
    stwi_lent_drop(p);
    *p = (stw_plan){0};
}
