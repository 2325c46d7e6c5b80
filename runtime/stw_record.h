/* stw_record.h: the recorder. It writes the requests of a process to a profile (.stwp) that
 * `stweaver` reads. This comment is the one specification of the format; runtime/stw_record.c
 * writes it, profile/stwp.go reads it.
 *
 *     any thread                        ring in memory                  one thread of the recorder
 *
 *     p = malloc(size)
 *     stw_recorder_malloc(r, p, …) ──>  | t | t+1 | t+2 | … |  ──>  blocks of 16-byte units ──> FILE.part
 *     stw_recorder_free(r, p)      ──>    a ticket each                    close: trailer, rename to FILE
 *     free(p)
 *
 * Order. An event takes a ticket (one atomic addition), and the file has the events by ticket. Call
 * stw_recorder_malloc right after the allocator has answered, and stw_recorder_free right before
 * the address is given back. Then the life in the file lies within the life in the allocator, and
 * the recorded order is one that the allocator could have seen: whoever gets an address got it after
 * its last owner took the ticket of its free, so no address is ever alive twice, whatever the
 * threads do; and the events of one thread stay in their order.
 *
 * Nothing is missing in the middle. Where an event cannot be kept (the disk is full, the ring stays full
 * for too long, the file reaches its limit), the recording ends there and then. What came before
 * is whole; the number of events that came after is counted and written at the end. The
 * process goes on, and `say` is told once.
 *
 *   +--------+-------+-------+-----+---------+
 *   | header | block | block | ... | trailer |    little-endian, fixed-width
 *   +--------+-------+-------+-----+---------+
 *
 * A block is a header of 16 bytes and `units` units of 16 bytes. Its crc32c goes on from that of the
 * block before it (of the first: from the crc32c of the file's header), through the block's own header
 * with its crc32c as zero, through its units. The trailer's is made likewise. So every block vouches for all
 * that lies before it. A file that ends without a trailer was cut off or its process died; its
 * whole blocks are good.
 *
 * A unit is two words of 64 bits. The first is, from the low bits on
 *
 *       4 bits kind | 8 bits device | 12 bits id | 40 bits n         the second is v
 *
 *     kind      device     id        n                  v
 *     MALLOC    device     stream    bytes              address, 0: refused for want of memory
 *     FREE      device     0         0                  address
 *     USE       device     stream    0                  address: work of the stream uses it, too (record_stream)
 *     MARK      mark kind  name      0                  value
 *     HELD      device     0         0                  bytes that the allocator has held at most so far
 *     STREAM    0          stream    0                  handle: what the id means from here on
 *     NAME      0          name      bytes of text      0; the text follows in units of its own, zero-padded
 *     WIDE      0          0         0                  bytes of the MALLOC that comes next, whose n is 0
 *
 * Ids may be given a new meaning. Name 0 is the empty one. An event is MALLOC, FREE, USE, MARK or HELD. A
 * text lies in one block with its NAME, a WIDE with its MALLOC.
 *
 * Versions. A reader refuses an unknown major, and a kind it does not know.
 */
#ifndef STW_RECORD_H
#define STW_RECORD_H

#include "stw.h"

#include <assert.h>

#ifdef __cplusplus
extern "C" {
#endif

#define STW_RECORD_MAGIC "\x93STP\r\n\x1a\n" /* 8 bytes: not text, breaks under newline translation */
#define STW_RECORD_MAJOR 1
#define STW_RECORD_MINOR 0
#define STW_RECORD_BLOCK_UNITS 4096u /* at most */
#define STW_RECORD_NAME_BYTES 1008u  /* at most; longer names are cut */
#define STW_RECORD_IDS 4096u

typedef struct {
    uint8_t magic[8];
    uint16_t major, minor;
    uint32_t header_bytes; /* sizeof(stw_record_header) */
    char allocator[32];    /* what served the requests, zero-padded */
    uint8_t zero[16];
} stw_record_header;

typedef struct {
    uint32_t magic; /* STW_RECORD_BLOCK */
    uint32_t units; /* 1 to STW_RECORD_BLOCK_UNITS */
    uint32_t crc32c;
    uint32_t zero;
} stw_record_block;

typedef struct {
    uint32_t magic;  /* STW_RECORD_END */
    uint32_t reason; /* STW_RECORD_CLOSED, or why the recording ended before */
    uint32_t crc32c;
    uint32_t error;  /* errno of STW_RECORD_IO */
    uint64_t events; /* in the file */
    uint64_t lost;   /* events after the last one in the file, until the recorder was closed */
    uint64_t bytes;  /* of the file, this included */
} stw_record_trailer;

typedef struct {
    uint64_t word, v;
} stw_record_unit;

#define STW_RECORD_BLOCK 0x42575453u /* "STWB" */
#define STW_RECORD_END 0x45575453u   /* "STWE" */
enum { STW_RECORD_CLOSED = 0, STW_RECORD_SLOW = 1, STW_RECORD_IO = 2, STW_RECORD_FULL = 3 };
enum {
    STW_RECORD_MALLOC = 1,
    STW_RECORD_FREE = 2,
    STW_RECORD_USE = 3,
    STW_RECORD_MARK = 4,
    STW_RECORD_HELD = 5,
    STW_RECORD_STREAM = 6,
    STW_RECORD_NAME = 7,
    STW_RECORD_WIDE = 8
};

/* Kinds of marks: those of stw_plan.h, and the two ends of a module or span. */
enum { STW_RECORD_ITERATION = 1, STW_RECORD_PHASE = 2, STW_RECORD_ENTER = 3, STW_RECORD_LEAVE = 4 };

static_assert(sizeof(stw_record_header) == 64, "header");
static_assert(sizeof(stw_record_block) == 16, "block");
static_assert(sizeof(stw_record_trailer) == 40, "trailer");
static_assert(sizeof(stw_record_unit) == 16, "unit");

typedef struct stw_recorder stw_recorder;

/* Zero is a good value for each. */
typedef struct {
    uint64_t max_bytes;   /* of the file; the recording ends before it would get larger. 0: no limit */
    uint32_t ring_slots;  /* events on their way to the file, a power of two from 64 to 2^24; 0: 65,536 (2 MiB) */
    uint32_t patience_ms; /* how long, at least, a call waits for room in the ring before the recording ends; 0: 10 s */
    const char *allocator; /* what serves the requests, up to 31 bytes; NULL: "stweaver" */
    /* Told once, if not NULL, why the recording ended before it was closed. Called from the
     * recorder's own thread. */
    void (*say)(void *ctx, const char *text);
    void *say_ctx;
} stw_record_options;

/* Begins a recording. It is written to `path`.part, which is replaced if it is there, and gets its
 * name when the recorder is closed. On failure returns -1, *out is NULL and, if err is not NULL, err[0..err_bytes)
 * holds a sentence; e.g. where another process is writing the same file. A child of fork() records nothing: the
 * calls below do nothing there, and the parent's file is not touched. */
STW_API int stw_recorder_open(stw_recorder **out, const char *path, const stw_record_options *options, char *err,
                              size_t err_bytes);

/* The events. Thread-safe, no lock, no system call unless the ring is full or a quarter of it has filled; r may be NULL.
 * device is 0 to 255. malloc: p NULL with size > 0 is a request that was refused. */
STW_API void stw_recorder_malloc(stw_recorder *r, const void *p, size_t size, int device, uint64_t stream);
STW_API void stw_recorder_free(stw_recorder *r, const void *p, int device);
STW_API void stw_recorder_record_stream(stw_recorder *r, const void *p, int device, uint64_t stream);

/* A point of the program's own structure: iteration `value` begins (-1: the last one has ended), the phase or span
 * `name` begins, the span ends. kind is STW_RECORD_ITERATION to STW_RECORD_LEAVE, else the call does nothing. */
STW_API void stw_recorder_mark(stw_recorder *r, uint32_t kind, int64_t value, const char *name);

/* The most memory that the allocator of `device` has held so far. Tell it before the end: what was told before a
 * later malloc does not count. */
STW_API void stw_recorder_held(stw_recorder *r, int device, uint64_t bytes);

/* Ends the recording: writes what is under way, the trailer, and gives the file its name. Events after that
 * do nothing, so it is safe at exit, while other threads still run. Returns 0; -1 where the recording ended before or the file could not be
 * finished, with a sentence in err that says what there is. A second call returns the same. Where nobody calls it, exit() does. */
STW_API int stw_recorder_finish(stw_recorder *r, char *err, size_t err_bytes);

/* stw_recorder_finish, and frees the recorder. No other call may be under way or follow. NULL is fine. */
STW_API int stw_recorder_close(stw_recorder *r, char *err, size_t err_bytes);

typedef struct {
    uint64_t events; /* written to the file so far */
    uint64_t lost;   /* events after a recording that ended before it was closed; exact once it is finished */
    uint64_t bytes;  /* of the file so far */
    uint32_t reason; /* STW_RECORD_CLOSED while all is well */
} stw_record_stats;
STW_API void stw_recorder_get_stats(stw_recorder *r, stw_record_stats *out);

#ifdef __cplusplus
}
#endif
#endif
