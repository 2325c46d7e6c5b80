/* plan_load.h: what plan_load.c and plan_check.c share. Not installed. */
#ifndef PLAN_LOAD_H
#define PLAN_LOAD_H

#include "stw_internal.h"

#pragma GCC visibility push(hidden)

/* The rules of the format: their numbers are P1, P2, … in messages. */
typedef enum {
    P_SHORT = 1, P_MAGIC, P_MAJOR, P_HEADER_BYTES, P_FILE_BYTES, P_CRC, P_ALIGN, P_N_ENTRIES, P_N_STREAMS,
    P_N_SLOTS, P_LOOP_START, P_ARENA, P_RESERVED, P_TABLE, P_SECTION_FLAGS, P_SECTION_PLACE, P_GAP,
    P_SECTION_UNKNOWN, P_SECTION_TWICE, P_SECTION_SIZE, P_STREAM_RANGE, P_STREAM_OVERLAP, P_SLOT_STREAM,
    P_SLOT_UNUSED, P_SLOT_EMPTY, P_SLOT_PLACE, P_SLOT_SIZES, P_ENTRY_SLOT, P_ENTRY_NF, P_MARK_ORDER,
    P_MARK_KIND, P_MARK_UNUSED, P_NEEDS_SIZE, P_NEEDS_RANGE, P_SLOT_LIST,
} stw_plan_rule;

/* A plan file on its way to a plan. */
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
} stw_plan_loader;

/* Says which rule is broken, and where, and returns the status for it. */
stw_status stwi_plan_refuse(const stw_plan_loader *l, stw_plan_rule r, uint64_t where);

/* Each relies on those before it. */
stw_status stwi_plan_check_header(stw_plan_loader *l);
stw_status stwi_plan_check_sections(stw_plan_loader *l);
stw_status stwi_plan_check_needs(const stw_plan_loader *l); /* and counts the lists */
stw_status stwi_plan_check_entries(const stw_plan_loader *l);

#pragma GCC visibility pop
#endif
