/* stw.h: the STWeaver runtime allocator. It executes a plan (stw_plan.h): the n-th request of the
 * process gets the address the plan has for it, in constant time, and everything else goes to a
 * heap that is good enough to be used alone.
 *
 *     malloc(size, stream)
 *        |  where in the plan are we?            stw_match.c: cursor, else hypotheses
 *        |-- planned entry, size fits, range free --> arena base + offset          "hit"
 *        |-- planned entry, range occupied ---------> heap                         "conflict"
 *        |-- planned entry, request too large ------> heap                         "too large"
 *        |-- dynamic entry -------------------------> idle arena, else heap        "dynamic"
 *        `-- no entry ------------------------------> heap                         "unknown"
 *                                                       `- idle arena, where it would commit memory
 *
 * The safety rule: a planned address is handed out only if no live allocation overlaps it,
 * whatever happened before. Occupancy is a bitmap over atoms, the pieces of the arena between two
 * neighbouring planned boundaries; it is checked before every planned address. A plan that is
 * wrong for the process costs memory, never data.
 *
 * Where streams use each other's memory, because the plan says that they share or because of stw_record_stream, a
 * stream is made to wait for the others first (stw_order.c): that holds by address, too, whatever happened before.
 *
 * One stw_allocator serves one device. All functions are thread-safe unless they say otherwise.
 * Nothing here allocates, prints or reads the environment on the hot path; nothing ever exits or
 * aborts. Sizes are bytes. Addresses are multiples of 512.
 */
#ifndef STW_H
#define STW_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define STW_API __attribute__((visibility("default")))

typedef enum {
    STW_OK = 0,
    STW_E_ARG = 1,     /* a null or contradictory argument */
    STW_E_PLAN = 2,    /* the plan bytes are not a valid plan; see the message */
    STW_E_VERSION = 3, /* a plan of a major version this library does not know */
    STW_E_MEMORY = 4,  /* the backend could not reserve or commit memory */
    STW_E_DEVICE = 5,  /* no driver, no such device, or the driver refused; see the message */
} stw_status;

/* Where memory comes from. Every function gets ctx back. Ranges are multiples of granularity.
 * reserve: address space of `bytes`, not usable yet; NULL on failure.
 * commit / decommit: make [p, p + bytes) usable / give it back. commit returns 0 on success. decommit
 * returns when no work that was queued before may still use the memory.
 * release: end of a reservation. Called under the allocator's lock, never re-entered.
 *
 * The event functions are the order of work between streams. All of them are there, or none: where work
 * is done when the call that asks for it returns, as on the host, nothing ever needs to wait.
 * A stream that is being captured into a graph has none to give: they fail there.
 * event_record: an event that is reached when all work queued on `stream` so far is done; NULL on failure.
 * event_wait: work queued on `stream` from now on begins only when the event is reached. 0 on success.
 * event_done: 1 when it has been reached, as the host sees it, 0 before that, -1 on failure.
 * event_drop: the event is not used again; waits that were asked for still hold.
 * `stream` is what stw_malloc and stw_record_stream were told; such a stream exists as long as the allocator does.
 *
 * The rest may be NULL, each by itself.
 * capturing: 1 while work queued on `stream` is not done but recorded for later: nothing may be given back then.
 * alias: a fresh range of n granules in which the n committed granules at pieces[0], pieces[1], … appear side by
 * side, a second time; NULL on failure. unalias: its end, with decommit's promise about queued work. */
typedef struct {
    void *ctx;
    size_t granularity; /* bytes, a power of two, at least 512 */
    void *(*reserve)(void *ctx, size_t bytes);
    int (*commit)(void *ctx, void *p, size_t bytes);
    void (*decommit)(void *ctx, void *p, size_t bytes);
    void (*release)(void *ctx, void *p, size_t bytes);
    void *(*event_record)(void *ctx, uint64_t stream);
    int (*event_wait)(void *ctx, uint64_t stream, void *event);
    int (*event_done)(void *ctx, void *event);
    void (*event_drop)(void *ctx, void *event);
    int (*capturing)(void *ctx, uint64_t stream);
    void *(*alias)(void *ctx, void *const *pieces, size_t n);
    void (*unalias)(void *ctx, void *p);
} stw_backend;

/* Host memory by mmap. granularity 0 means 2 MiB, the page of device memory. Pages cost physical
 * memory only once they are touched. */
STW_API stw_backend stw_backend_host(size_t granularity);

typedef struct {
    uint64_t capacity_bytes; /* most memory to hold, arena and heaps together; 0: no limit. A plan's own limit holds, too */
    /* Most address space for requests of two granules and more that are made of several idle pieces (stw_stitch.c), of a
     * backend that has alias; 0: none are. It costs no memory. Such memory is no single allocation of the driver's: it
     * must not be shared with other processes or registered with network cards. */
    uint64_t stitch_bytes;
    uint64_t heap_bytes;     /* address space of each stream's heap, below 2 TiB, rounded up to granules; 0: 256 GiB */
    /* Told, if not NULL, about memory that ran out (a sentence, less and less often), and at the end what
     * the allocator did (stw_report). Called under the lock: it must not call back. */
    void (*say)(void *ctx, const char *text);
    void *say_ctx;
    int still; /* 1: idle memory is given back on request, under pressure and at a lap only, never moved (stats.moves), and the plan is never set aside */
} stw_options;

/* Counters since creation. Every request with size > 0 that got an address is exactly one of hits,
 * conflicts, too_large, dynamic, unknown. Bytes are rounded to 512. */
typedef struct {
    uint64_t requests, frees;
    uint64_t hits;      /* planned address handed out */
    uint64_t conflicts; /* planned range was occupied, or there was no memory for it */
    uint64_t too_large; /* planned entry, request larger than its slot */
    uint64_t dynamic;   /* matched an entry that has no place */
    uint64_t guests;    /* unplanned or displaced requests that were put into idle space of the arena */
    uint64_t unknown;   /* matched no entry */
    uint64_t slow;      /* requests that took the matcher's slow path */
    uint64_t resyncs;   /* times the position moved other than to the next entry */
    uint64_t restarts;  /* times the position was searched in the whole plan */
    uint64_t zero_size; /* requests of 0 bytes: answered NULL */
    uint64_t failed;    /* requests answered NULL for want of memory, or of an absurd size */
    uint64_t bad_free;  /* frees of an address that is not live: ignored */
    uint64_t live_bytes, peak_live_bytes;         /* handed out, rounded */
    uint64_t heap_live_bytes, heap_peak_bytes;    /* the part served by heaps */
    uint64_t reserved_bytes, peak_reserved_bytes; /* committed: arena + heaps, in granules */
    uint64_t arena_bytes;                         /* of it, for the arena: where addresses have been handed out */
    uint64_t static_fallback_bytes;               /* bytes of conflicts + too_large that heaps served, summed */
    uint64_t sweeps; /* times the plan was read for idle space, for what had no place or could not have it */
    uint64_t trims, returned_bytes; /* times that idle memory was given back, and how much in all */
    uint64_t moves, moved_bytes;    /* times that it was given back for memory elsewhere, before more would be reserved than ever before */
    uint64_t set_aside; /* times that the plan was set aside: no more could be moved, and heaps serve what it would until enough steps have been on plan */
    uint64_t event_records, event_waits; /* events recorded; waits asked of a stream */
    uint64_t young_waits;    /* of those, for an event younger than 7/8 of the plan's AGE (at least 128; without one 500) in requests */
    uint64_t waited_age;     /* age of the events waited for, in requests, summed */
    uint64_t event_failures; /* times the backend could not record, wait or ask; the request went elsewhere */
    uint64_t deferred;  /* blocks that heaps held back at their free for a stream named by stw_record_stream */
    uint64_t stitched;  /* requests made of several idle pieces */
    uint64_t stitches, stitch_bytes; /* ranges made for them; address space of those that there are */
    uint64_t position;  /* entry expected next (the best hypothesis) */
    uint64_t atoms;     /* pieces of the arena */
} stw_stats;

typedef struct stw_allocator stw_allocator;

/* Creates an allocator. plan may be NULL (bytes 0): heap only. The plan bytes are copied. On
 * failure *out is NULL and, if err is not NULL, err[0..err_bytes) holds a sentence: STW_E_ARG for a
 * NULL backend or an absurd option, STW_E_MEMORY for an arena above the capacity or without address space.
 * After fork() the child may go on using its (private) copy; a backend must not fork. */
STW_API stw_status stw_create(stw_allocator **out, const void *plan, size_t plan_bytes,
                              const stw_options *options, const stw_backend *backend, char *err,
                              size_t err_bytes);

/* Frees the allocator and all its memory. Not thread-safe: no other call may be under way. */
STW_API void stw_destroy(stw_allocator *a);

/* Returns an address for `size` bytes that work queued on `stream` from now on may use, or NULL: size 0,
 * more than 2^60, or no memory. `stream` is any value that identifies a stream; 0 is the default one. */
STW_API void *stw_malloc(stw_allocator *a, size_t size, uint64_t stream);

/* Takes back an address. Returns 0, or -1 where p is not live (counted, ignored). NULL is fine. */
STW_API int stw_free(stw_allocator *a, void *p);

/* Work of `stream`, queued before p is freed, uses p, too: what p lies on is used again only after that.
 * Returns 0, or -1 where p is not live. Its own stream need not be named; NULL is fine. Where there is no memory
 * to remember it, or for more than 256 streams, p stays live for ever once it is freed. */
STW_API int stw_record_stream(stw_allocator *a, void *p, uint64_t stream);

/* Gives back all memory that holds nothing, in granules, of arena and heaps. Returns the bytes. It happens by
 * itself when memory runs out, before a request fails: to what is missing and a sixteenth of what is held; and to that of
 * heaps when the plan has been in charge for a whole step without them (a lap). */
STW_API uint64_t stw_trim(stw_allocator *a);

/* Changes the capacity (stw_options). Returns 0, or -1 where more than that is held even after idle memory
 * has been given back: then nothing changes. The plan's own limit holds, too. */
STW_API int stw_set_capacity(stw_allocator *a, uint64_t bytes);

/* A point of the program's own structure: iteration `value` begins (STW_MARK_ITERATION), or a phase
 * called `name` (STW_MARK_PHASE). The position jumps to where the plan has that mark, if it has. */
STW_API void stw_mark(stw_allocator *a, uint32_t kind, int64_t value, const char *name);

STW_API void stw_get_stats(stw_allocator *a, stw_stats *out);

/* The peaks among the counters begin anew at what they are of now. */
STW_API void stw_reset_peaks(stw_allocator *a);

/* Bytes of the live allocation at p, rounded to 512; 0 where p is not live. */
STW_API size_t stw_size(stw_allocator *a, const void *p);

/* Writes what the allocator did, a few lines for people (REPORT.md), to out[0..room), ended by a zero
 * byte if there is room for one. Returns the length of all of it. */
STW_API size_t stw_report(stw_allocator *a, char *out, size_t room);

/* Calls f for every live allocation, in no particular order, under the lock: f must not call back.
 * planned is 1 for an address of the plan. */
STW_API void stw_walk(stw_allocator *a,
                      void (*f)(void *ctx, void *p, size_t size, uint64_t stream, int planned),
                      void *ctx);

/* Checks all internal structures against each other. Returns 0, or the number of the first broken
 * rule with a sentence in err; -1 for NULL. For tests: linear in everything. */
STW_API int stw_check(stw_allocator *a, char *err, size_t err_bytes);

/* Address of the arena, NULL where there is none. Constant after creation. */
STW_API void *stw_arena(const stw_allocator *a);

/* CRC-32C as the plan file uses it. */
STW_API uint32_t stw_crc32c(const void *p, size_t bytes);

STW_API const char *stw_status_string(stw_status s);
STW_API const char *stw_version(void);

#ifdef __cplusplus
}
#endif
#endif
