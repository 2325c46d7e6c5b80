/* stw_lent.c: the parts of the arena that a request without an address may have: all but what its list of needs
 * names (stw_plan.h) and what is kept. A list is stored as the ranges that are left, in atoms, with their sizes beside them: there are
 * few, three to eight in the mean and 43 at most in the plans of our logs, of up to 30,000 atoms.
 */
#include "stw_internal.h"

#include <string.h>

/* Adds the ranges of atoms that are not in the bitmap. */
static bool add_ranges(stw_plan *p, const uint64_t *needed)
{
    stw_parts *l = &p->lent;
    for (uint64_t at = 0;;) {
        const uint64_t from = stwi_bits_next(needed, at, p->n_atoms, false);
        if (from == p->n_atoms)
            return true;
        at = stwi_bits_next(needed, from, p->n_atoms, true);
        if (l->n == l->cap) {
            stw_atoms *grown = stwi_double(l->range, &l->cap, sizeof *l->range);
            if (!grown)
                return false;
            l->range = grown;
        }
        l->range[l->n++] = (stw_atoms){(uint32_t)from, (uint32_t)at};
    }
}

static bool add_lists(stw_plan *p, const uint32_t *needs, uint64_t *needed, size_t bytes)
{
    const uint32_t *start = needs + 1, *range = start + p->n_lists + 1;
    for (uint32_t i = 0; i < p->n_lists; i++) {
        memcpy(needed, p->kept, bytes);
        for (uint32_t r = start[i]; r < start[i + 1]; r++) {
            const uint32_t from = stwi_atom_at(p, (uint64_t)range[2 * r] + 1), to = stwi_atom_at(p, range[2 * r + 1]);
            stwi_bits_set(needed, from > 0 ? from - 1 : 0, to < p->n_atoms ? to : p->n_atoms, true);
        }
        if (!add_ranges(p, needed))
            return false;
        p->lent.first[i + 1] = p->lent.n;
    }
    return true;
}

static void find_streams(stw_plan *p)
{
    for (uint32_t i = 0; i < p->n_streams && p->n_atoms > 0; i++) {
        const uint32_t begin = stwi_atom_at(p, p->streams[i].begin >> STW_UNIT_SHIFT), stop = stwi_atom_at(p, (p->streams[i].end >> STW_UNIT_SHIFT) + 1);
        if (stop > begin + 1) /* the last bound at or below the stream's end is the one before it */
            p->within[i] = (stw_atoms){begin, stop - 1};
    }
}

bool stwi_lent_make(stw_plan *p, const uint32_t *needs)
{
    stw_parts *l = &p->lent;
    const size_t bytes = (p->n_atoms / 64 + (size_t)1) * sizeof *p->kept;
    p->kept_mapped_bytes = bytes;
    p->within_mapped_bytes = p->n_streams * sizeof *p->within + 1;
    if ((p->kept = stwi_map(bytes)) == NULL || (p->within = stwi_map(p->within_mapped_bytes)) == NULL)
        return false;
    for (uint32_t i = 0; i < p->n_slots; i++)
        if (p->slots[i].flags & STW_SLOT_KEPT)
            stwi_bits_set(p->kept, p->slots[i].atom_begin, p->slots[i].atom_end, true);
    find_streams(p);
    if (p->n_lists == 0)
        return true;
    uint64_t *needed = stwi_map(bytes);
    l->cap = 256;
    l->first_mapped_bytes = (p->n_lists + (size_t)1) * sizeof *l->first;
    bool made = needed && (l->first = stwi_map(l->first_mapped_bytes)) != NULL && (l->range = stwi_map(l->cap * sizeof *l->range)) != NULL &&
                add_lists(p, needs, needed, bytes);
    l->classes_mapped_bytes = (l->n + (size_t)STW_CLASS_PAD) * sizeof *l->classes;
    made = made && (l->classes = stwi_map(l->classes_mapped_bytes)) != NULL;
    for (uint32_t i = 0; made && i < l->n; i++)
        l->classes[i] = stwi_class(p->bounds[l->range[i].end] - p->bounds[l->range[i].begin]);
    stwi_unmap(needed, bytes);
    return made;
}

void stwi_lent_drop(stw_plan *p)
{
    stwi_unmap(p->kept, p->kept_mapped_bytes);
    stwi_unmap(p->within, p->within_mapped_bytes);
    stwi_unmap(p->lent.first, p->lent.first_mapped_bytes);
    stwi_unmap(p->lent.range, p->lent.cap * sizeof *p->lent.range);
    stwi_unmap(p->lent.classes, p->lent.classes_mapped_bytes);
}
