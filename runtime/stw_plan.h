/* stw_plan.h: the plan file. This comment is the one specification of the format; package ir
 * writes and reads it in Go (ir/planfile.go), plan_load.c reads it in C, and a Go test compares
 * the two struct by struct.
 *
 * A plan is a sequence of expected requests and the arena address of each. All integers are
 * little-endian and fixed-width; sections start at multiples of 8; there are no pointers, so a
 * file is usable straight from mmap. Unused bytes are zero and a reader refuses them otherwise
 * (they are room for later minor versions).
 *
 *   +--------+---------------+-------+---------+---------+-------+------------------+
 *   | header | section table | SLOTS | ENTRIES | STREAMS | MARKS | INFO, NEEDS (opt.) |
 *   +--------+---------------+-------+---------+---------+-------+------------------+
 *
 * The n-th request. The process issues requests r0, r1, r2, …; the plan expects entries
 *
 *       0 .............. loop_start ................ n_entries
 *         once, at start            again and again
 *
 * Entry k says: next comes a request of the size and stream of slots[entry.slot], and it is placed
 * at that slot's offset. Repeated structure is stored once: a training step of 35,000 requests has
 * a few thousand distinct slots, so an entry is 8 bytes and a planned request costs about 9.
 * Where loop_start == n_entries the plan has no loop: the one pass repeats as a whole.
 *
 * Time inside a plan is the index of the entry. Entry k with life n is usually freed before the
 * request of entry k + n (counted round the loop).
 *
 * Sections lie in the order of the table, do not overlap, and have zero bytes between them; one whose
 * count is 0 may be absent. The arena ends below 2 TiB, slots number less than 2^28. An ITERATION mark
 * has name 0, a PHASE mark value 0. That unused bytes are zero is checked for files of minor 0 only.
 *
 * Units are 512 bytes (align): 32-bit unit counts reach 2 TiB.
 *
 * Versions. A reader refuses an unknown major by name. A higher minor may add sections with the
 * OPTIONAL flag, which a reader that does not know them skips, and give meaning to bytes that are
 * zero today only where ignoring them is safe.
 *
 * Validation (plan_load.c, plan_check.c) is one linear pass over untrusted bytes; after it the hot path checks
 * nothing about the file. Rules are numbered P1… in plan_check.c's table of errors.
 */
#ifndef STW_PLAN_H
#define STW_PLAN_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#define STW_PLAN_MAGIC "\x93STW\r\n\x1a\n" /* 8 bytes: not text, breaks under newline translation */
#define STW_PLAN_MAJOR 1
#define STW_PLAN_MINOR 0
#define STW_PLAN_ALIGN 512u
#define STW_PLAN_MAX_ENTRIES (1u << 28)
#define STW_PLAN_MAX_STREAMS 256u

typedef struct {
    uint8_t magic[8];
    uint16_t major, minor;
    uint32_t header_bytes;   /* sizeof(stw_plan_header) */
    uint64_t file_bytes;     /* of the whole file */
    uint32_t crc32c;         /* Castagnoli, of the whole file with this field as zero */
    uint32_t n_sections;
    uint8_t profile[32];     /* digest of the profile's canonical content (ir.Trace.Digest) */
    uint64_t capacity_bytes; /* most that may be held, arena and heaps: the device's less headroom; 0: not stated */
    uint64_t arena_bytes;    /* highest planned address; a multiple of align */
    uint64_t bound_bytes;    /* proved lower bound of arena_bytes, for reports */
    uint32_t align;          /* STW_PLAN_ALIGN */
    uint32_t n_streams;
    uint32_t n_slots;
    uint32_t n_entries;      /* < STW_PLAN_MAX_ENTRIES */
    uint32_t loop_start;     /* <= n_entries */
    uint32_t n_marks;
    uint32_t shared_age;     /* 0: streams lie apart; else 1 + AGE: they share the arena, see stw_plan_stream */
    uint32_t reserved[3];    /* zero */
} stw_plan_header;           /* 128 bytes, followed by n_sections stw_plan_section */

typedef struct {
    uint32_t kind;   /* STW_SECTION_* ; each known kind at most once */
    uint32_t flags;  /* STW_SECTION_OPTIONAL */
    uint64_t offset; /* from the start of the file, a multiple of 8 */
    uint64_t bytes;
} stw_plan_section;

enum {
    STW_SECTION_SLOTS = 1,   /* n_slots  * stw_plan_slot   */
    STW_SECTION_ENTRIES = 2, /* n_entries * stw_plan_entry */
    STW_SECTION_STREAMS = 3, /* n_streams * stw_plan_stream */
    STW_SECTION_MARKS = 4,   /* n_marks  * stw_plan_mark, ordered by entry */
    STW_SECTION_INFO = 5,    /* optional: UTF-8 "key: value" lines, provenance for people; "rule" and "rules-digest": what it obeys */
    STW_SECTION_NEEDS = 6,   /* optional: lists of arena ranges, below */
};
#define STW_SECTION_OPTIONAL 1u

/* What is expected, and where it goes. Planned: [offset, offset + size) in the arena, size > 0,
 * inside its stream's range. Dynamic (PLANNED not set): no place; lo…hi are the sizes seen. */
typedef struct {
    uint32_t lo;     /* planned: offset in units; dynamic: smallest size seen, in units */
    uint32_t hi;     /* planned: size in units;   dynamic: largest size seen, in units, >= lo */
    uint16_t aux;    /* planned: the smallest size seen in 65,536ths of hi, rounded down but not to 0, and 0 where
                      * all had the size hi: what varies belongs to the slot up to that size; dynamic: 1 + its list in NEEDS, or 0: it gets no place in the arena */
    uint8_t stream;  /* index in STREAMS */
    uint8_t flags;   /* STW_SLOT_* */
} stw_plan_slot;
#define STW_SLOT_PLANNED 1u
#define STW_SLOT_OPTIONAL 2u /* absent from some iterations of the profile */
#define STW_SLOT_KEPT 4u     /* planned: its range is never lent to requests without an address, idle or not */

typedef struct {
    uint32_t slot;    /* index in SLOTS */
    uint32_t life_nf; /* bits 0-26: life in entries, saturated; 27: firm; 28-29: nf min; 30-31: nf max */
} stw_plan_entry;     /* nf = frees since the previous request, clamped to 3 */
#define STW_ENTRY_LIFE_MAX ((1u << 27) - 1)
#define STW_ENTRY_FIRM (1u << 27) /* the life was the same in every iteration: its free tells where we are */

/* A stream of the recorded process, in order of first appearance, and the part of the arena that
 * its requests use. Ranges of different streams are disjoint, unless the plan says that streams
 * share (shared_age): then they may overlap, two slots of different streams may hold the same
 * address, and the reader orders the work of the streams where one gets what another had. AGE is the
 * least number of requests that the plan lets pass between the free and such a reuse, so that
 * waiting for it costs little: nothing depends on it but time. Handles are not stable between
 * runs, only 0 (the default stream) is: others are matched by order of appearance. */
typedef struct {
    uint64_t handle;
    uint64_t begin, end; /* bytes; half-open; multiples of align; begin == end: nothing planned */
} stw_plan_stream;

/* NEEDS says which parts of the arena planned requests start to use before a dynamic request
 * usually dies: it must not be put there. 32-bit words: n lists, then n + 1 starts (in ranges, from
 * 0, not descending), then the ranges, each {begin, end} in units, half-open: in a list ascending,
 * apart from each other, inside the arena. */

/* A point of the program's own structure: it comes right before the request of its entry. */
typedef struct {
    uint32_t entry; /* <= n_entries */
    uint32_t kind;  /* STW_MARK_* */
    int64_t value;  /* ITERATION: number; those >= 0 and at loop_start stand for every later one */
    uint64_t name;  /* FNV-1a 64 of the name, for PHASE; 0 for ITERATION */
} stw_plan_mark;
enum { STW_MARK_ITERATION = 1, STW_MARK_PHASE = 2 };

static_assert(sizeof(stw_plan_header) == 128, "header");
static_assert(offsetof(stw_plan_header, profile) == 32, "header");
static_assert(offsetof(stw_plan_header, capacity_bytes) == 64, "header");
static_assert(offsetof(stw_plan_header, align) == 88, "header");
static_assert(offsetof(stw_plan_header, shared_age) == 112, "header");
static_assert(sizeof(stw_plan_section) == 24, "section");
static_assert(sizeof(stw_plan_slot) == 12, "slot");
static_assert(sizeof(stw_plan_entry) == 8, "entry");
static_assert(sizeof(stw_plan_stream) == 24, "stream");
static_assert(sizeof(stw_plan_mark) == 24, "mark");

#endif
