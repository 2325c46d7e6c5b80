/* plan_load.c: with plan_check.c the only code that reads untrusted bytes. One pass, front to back, over a
 * copy of the file: each rule (plan_check.c) is checked before anything that relies on it is read, and after it
 * the hot path checks nothing about the file.
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
#include "plan_load.h"

#include <stdio.h>
#include <string.h>

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "plans are little-endian, and read as they lie");

static stw_status no_memory(const stw_plan_loader *l)
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
static stw_status check_streams(const stw_plan_loader *l, uint64_t *keys, uint64_t *tmp)
{
    const stw_plan_stream *streams = l->section[STW_SECTION_STREAMS];
    size_t n = 0;
    for (uint32_t i = 0; i < l->header.n_streams; i++) {
        const stw_plan_stream *s = &streams[i];
        if (s->begin % STW_PLAN_ALIGN != 0 || s->end % STW_PLAN_ALIGN != 0 || s->begin > s->end ||
            s->end > l->header.arena_bytes)
            return stwi_plan_refuse(l, P_STREAM_RANGE, i);
        if (s->begin < s->end)
            keys[n++] = s->begin >> STW_UNIT_SHIFT << 32 | i;
    }
    radix_sort(keys, tmp, n);
    for (size_t i = 1; i < n && l->header.shared_age == 0; i++)
        if (streams[(uint32_t)keys[i - 1]].end > streams[(uint32_t)keys[i]].begin)
            return stwi_plan_refuse(l, P_STREAM_OVERLAP, (uint32_t)keys[i]);
    return STW_OK;
}

static stw_status load_slots(const stw_plan_loader *l, uint64_t *keys, uint64_t *tmp)
{
    const stw_plan_slot *in = l->section[STW_SECTION_SLOTS];
    const stw_plan_stream *streams = l->section[STW_SECTION_STREAMS];
    stw_slot *out = l->plan->slots;
    size_t n = 0;
    for (uint32_t i = 0; i < l->header.n_slots; i++) {
        const stw_plan_slot *s = &in[i];
        out[i] = (stw_slot){.lo = s->lo, .hi = s->hi, .stream = s->stream, .flags = s->flags, .varies = s->flags & STW_SLOT_PLANNED ? s->aux : 0};
        if (s->stream >= l->header.n_streams)
            return stwi_plan_refuse(l, P_SLOT_STREAM, i);
        bool planned = s->flags & STW_SLOT_PLANNED;
        if (l->strict && s->flags & ~(STW_SLOT_PLANNED | STW_SLOT_OPTIONAL | (planned ? STW_SLOT_KEPT : 0)))
            return stwi_plan_refuse(l, P_SLOT_UNUSED, i);
        if (!planned) {
            if (s->lo > s->hi)
                return stwi_plan_refuse(l, P_SLOT_SIZES, i);
            if (s->aux > l->plan->n_lists)
                return stwi_plan_refuse(l, P_SLOT_LIST, i);
            out[i].list = s->aux;
            continue;
        }
        const stw_plan_stream *own = &streams[s->stream];
        uint64_t end = (uint64_t)s->lo + s->hi; /* units; below 2^32 once it is inside the arena */
        if (s->hi == 0)
            return stwi_plan_refuse(l, P_SLOT_EMPTY, i);
        if (s->lo < own->begin >> STW_UNIT_SHIFT || end > own->end >> STW_UNIT_SHIFT)
            return stwi_plan_refuse(l, P_SLOT_PLACE, i);
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

/* What the plan says of its rules: lines "rules-digest: <hex digits>" and "rule: …". It is for the report
 * alone, so it is read leniently: what is not there is not said. */
static void read_rules(const stw_plan_loader *l, stw_plan *p)
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
    stw_plan_loader l = {.plan = out, .bytes = n, .err = err_bytes ? err : NULL, .err_bytes = err_bytes};
    if (!copy_file(out, bytes, n))
        return no_memory(&l);
    l.file = out->bytes;

    stw_status s = stwi_plan_check_header(&l);
    if (s == STW_OK)
        s = stwi_plan_check_sections(&l);
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
            s = stwi_plan_check_needs(&l);
        if (s == STW_OK)
            s = load_slots(&l, keys, keys + room);
        stwi_unmap(keys, keys_bytes);
    }
    if (s == STW_OK)
        s = stwi_plan_check_entries(&l);
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
