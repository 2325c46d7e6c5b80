/* plan_check.c: the rules of the plan file, by number, and those checks that only look: the header, the section table, needs,
 * entries and marks. Streams and slots are checked where they are read (plan_load.c).
 */
#include "plan_load.h"

#include <stdio.h>
#include <string.h>

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

stw_status stwi_plan_refuse(const stw_plan_loader *l, stw_plan_rule r, uint64_t where)
{
    if (l->err && !rules[r].place)
        snprintf(l->err, l->err_bytes, "plan: P%d: %s", (int)r, rules[r].sentence);
    else if (l->err)
        snprintf(l->err, l->err_bytes, "plan: P%d: %s (%s %llu)", (int)r, rules[r].sentence, rules[r].place,
                 (unsigned long long)where);
    return r == P_MAJOR ? STW_E_VERSION : STW_E_PLAN;
}

stw_status stwi_plan_check_header(stw_plan_loader *l)
{
    stw_plan_header *h = &l->header;
    const size_t version_end = offsetof(stw_plan_header, header_bytes);
    if (l->bytes < version_end)
        return stwi_plan_refuse(l, P_SHORT, l->bytes);
    memcpy(h, l->file, version_end); /* enough to name a version whose header is another one */
    if (memcmp(h->magic, STW_PLAN_MAGIC, sizeof h->magic) != 0)
        return stwi_plan_refuse(l, P_MAGIC, 0);
    if (h->major != STW_PLAN_MAJOR)
        return stwi_plan_refuse(l, P_MAJOR, h->major);
    if (l->bytes < sizeof *h)
        return stwi_plan_refuse(l, P_SHORT, l->bytes);
    memcpy(h, l->file, sizeof *h);
    if (h->header_bytes != sizeof *h)
        return stwi_plan_refuse(l, P_HEADER_BYTES, h->header_bytes);
    if (h->file_bytes != l->bytes)
        return stwi_plan_refuse(l, P_FILE_BYTES, h->file_bytes);
    const size_t at = offsetof(stw_plan_header, crc32c);
    const uint8_t zero[4] = {0};
    uint32_t crc = stwi_crc32c(0, l->file, at);
    crc = stwi_crc32c(crc, zero, sizeof zero);
    if (stwi_crc32c(crc, l->file + at + 4, l->bytes - at - 4) != h->crc32c)
        return stwi_plan_refuse(l, P_CRC, 0);
    l->strict = h->minor <= STW_PLAN_MINOR;
    if (h->align != STW_PLAN_ALIGN)
        return stwi_plan_refuse(l, P_ALIGN, h->align);
    if (h->n_entries >= STW_PLAN_MAX_ENTRIES)
        return stwi_plan_refuse(l, P_N_ENTRIES, h->n_entries);
    if (h->n_streams > STW_PLAN_MAX_STREAMS)
        return stwi_plan_refuse(l, P_N_STREAMS, h->n_streams);
    if (h->n_slots >= STW_PLAN_MAX_ENTRIES)
        return stwi_plan_refuse(l, P_N_SLOTS, h->n_slots);
    if (h->loop_start > h->n_entries)
        return stwi_plan_refuse(l, P_LOOP_START, h->loop_start);
    if (h->arena_bytes % STW_PLAN_ALIGN != 0 || h->arena_bytes >= STW_MAX_RANGE)
        return stwi_plan_refuse(l, P_ARENA, h->arena_bytes);
    if (l->strict && (h->reserved[0] | h->reserved[1] | h->reserved[2]) != 0)
        return stwi_plan_refuse(l, P_RESERVED, 0);
    return STW_OK;
}

static stw_status check_gap(const stw_plan_loader *l, uint64_t begin, uint64_t end)
{
    for (uint64_t i = begin; l->strict && i < end; i++)
        if (l->file[i] != 0)
            return stwi_plan_refuse(l, P_GAP, i);
    return STW_OK;
}

stw_status stwi_plan_check_sections(stw_plan_loader *l)
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
        return stwi_plan_refuse(l, P_TABLE, h->n_sections);
    for (uint32_t i = 0; i < h->n_sections; i++) {
        stw_plan_section s;
        memcpy(&s, l->file + sizeof *h + i * sizeof s, sizeof s);
        if (l->strict && s.flags & ~STW_SECTION_OPTIONAL)
            return stwi_plan_refuse(l, P_SECTION_FLAGS, i);
        if (s.offset % 8 != 0 || s.offset < end || s.offset > l->bytes || s.bytes > l->bytes - s.offset)
            return stwi_plan_refuse(l, P_SECTION_PLACE, i);
        stw_status gap = check_gap(l, end, s.offset);
        if (gap != STW_OK)
            return gap;
        end = s.offset + s.bytes;
        if (s.kind == 0 || s.kind > STW_SECTION_NEEDS) {
            if (!(s.flags & STW_SECTION_OPTIONAL))
                return stwi_plan_refuse(l, P_SECTION_UNKNOWN, s.kind);
            continue;
        }
        if (l->section[s.kind])
            return stwi_plan_refuse(l, P_SECTION_TWICE, s.kind);
        l->section[s.kind] = l->file + s.offset;
        got[s.kind] = s.bytes;
    }
    for (uint32_t kind = STW_SECTION_SLOTS; kind < STW_SECTION_INFO; kind++)
        if (got[kind] != want[kind])
            return stwi_plan_refuse(l, P_SECTION_SIZE, kind);
    l->needs_bytes = got[STW_SECTION_NEEDS];
    l->info_bytes = got[STW_SECTION_INFO];
    return check_gap(l, end, l->bytes);
}

/* Words of NEEDS: the count of lists, their starts, their ranges. */
stw_status stwi_plan_check_needs(const stw_plan_loader *l)
{
    const uint32_t *w = l->section[STW_SECTION_NEEDS];
    if (!w)
        return STW_OK;
    uint64_t words = l->needs_bytes / 4, n = words ? w[0] : 0;
    if (l->needs_bytes % 4 != 0 || n + 2 > words)
        return stwi_plan_refuse(l, P_NEEDS_SIZE, n);
    const uint32_t *start = w + 1, *range = w + n + 2;
    for (uint64_t i = 0; i < n; i++)
        if (start[i] > start[i + 1])
            return stwi_plan_refuse(l, P_NEEDS_RANGE, i);
    if (start[0] != 0 || words != n + 2 + 2 * (uint64_t)start[n])
        return stwi_plan_refuse(l, P_NEEDS_SIZE, n);
    for (uint64_t i = 0; i < n; i++) {
        uint32_t low = 0;
        for (uint32_t r = start[i]; r < start[i + 1]; r++) {
            uint32_t begin = range[2 * r], end = range[2 * r + 1];
            if (begin < low || begin >= end || end > l->header.arena_bytes >> STW_UNIT_SHIFT)
                return stwi_plan_refuse(l, P_NEEDS_RANGE, i);
            low = end;
        }
    }
    l->plan->n_lists = (uint32_t)n;
    return STW_OK;
}

stw_status stwi_plan_check_entries(const stw_plan_loader *l)
{
    const stw_plan_entry *entries = l->section[STW_SECTION_ENTRIES];
    const stw_plan_mark *marks = l->section[STW_SECTION_MARKS];
    for (uint32_t i = 0; i < l->header.n_entries; i++) {
        if (entries[i].slot >= l->header.n_slots)
            return stwi_plan_refuse(l, P_ENTRY_SLOT, i);
        if ((entries[i].life_nf >> 28 & 3) > entries[i].life_nf >> 30)
            return stwi_plan_refuse(l, P_ENTRY_NF, i);
    }
    for (uint32_t i = 0; i < l->header.n_marks; i++) {
        const stw_plan_mark *m = &marks[i];
        if (m->entry > l->header.n_entries || (i > 0 && m->entry < marks[i - 1].entry))
            return stwi_plan_refuse(l, P_MARK_ORDER, i);
        if (m->kind != STW_MARK_ITERATION && m->kind != STW_MARK_PHASE)
            return stwi_plan_refuse(l, P_MARK_KIND, i);
        if (l->strict && (m->kind == STW_MARK_ITERATION ? m->name != 0 : m->value != 0))
            return stwi_plan_refuse(l, P_MARK_UNUSED, i);
    }
    return STW_OK;
}
