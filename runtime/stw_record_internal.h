/* stw_record_internal.h: what stw_record.c (the ring; any thread) and stw_record_file.c (the file; the
 * recorder's own thread) share. Not installed.
 */
#ifndef STW_RECORD_INTERNAL_H
#define STW_RECORD_INTERNAL_H

#include "stw_internal.h"
#include "stw_record.h"

#include <pthread.h>
#include <sys/types.h>

#pragma GCC visibility push(hidden)

#define STW_RECORDING UINT64_MAX /* `limit` while nothing has ended the recording */
#define STW_RECORD_PATH 4096u
#define STW_RECORD_TEXT 24u      /* bytes of a name in one slot */
#define STW_RECORD_SLEEP_NS 50000 /* between two looks at what another thread has to do */

typedef struct {
    uint64_t word; /* from the low bits: lap + 1 (32), kind (8), device or kind of mark (8); 0: text */
    union {
        struct {
            uint64_t a;      /* address, value of a mark, bytes held */
            uint64_t size;   /* bytes of a request, of a mark's name */
            uint64_t stream; /* handle */
        };
        uint8_t text[STW_RECORD_TEXT];
    };
} stw_record_slot;
static_assert(sizeof(stw_record_slot) == 32, "slot");
static_assert(STW_RECORD_NAME_BYTES % STW_RECORD_TEXT == 0 && STW_RECORD_NAME_BYTES % 16 == 0, "names");

typedef struct stw_record_ids stw_record_ids;       /* stw_record_file.c */
typedef struct stw_record_buffer stw_record_buffer; /* stw_record_file.c */

struct stw_recorder {
    /* read by every call */
    _Alignas(64) uint64_t limit; /* the first ticket that is not recorded */
    stw_record_slot *ring;
    uint64_t slots;              /* of the ring, a power of two */
    uint64_t patience_ns;
    _Alignas(64) uint64_t head;  /* tickets given out */
    _Alignas(64) uint64_t tail;  /* tickets whose slots are free again */
    uint32_t bell;               /* 1: the writer has something to do; a futex */
    uint32_t reason;             /* why it ended before its time */
    uint64_t late;               /* events that came after that */
    uint32_t closing;

    /* the writer's; the counts are read by others */
    _Alignas(64) uint64_t bytes, events; /* in the file */
    uint64_t cut;                /* events taken from the ring that did not get into the file */
    int fd;
    int error;                   /* errno that ended the recording */
    uint32_t crc;
    uint32_t buffer_units, buffer_events;
    uint64_t max_bytes;
    stw_record_buffer *buffer;
    stw_record_ids *streams, *names;
    void (*say)(void *ctx, const char *text);
    void *say_ctx;

    pthread_t thread;
    pthread_mutex_t finishing;
    bool finished;
    pid_t pid;   /* whose recording it is */
    stw_recorder *next;
    char path[STW_RECORD_PATH], part[STW_RECORD_PATH];
    char text[2 * STW_RECORD_PATH + 256]; /* why it ended, "" while all is well */
};

static inline stw_record_slot *stwi_record_slot(const stw_recorder *r, uint64_t ticket)
{
    return &r->ring[ticket & (r->slots - 1)];
}

static inline uint32_t stwi_record_lap(const stw_recorder *r, uint64_t ticket)
{
    return (uint32_t)(ticket / r->slots) + 1;
}

/* The word of the slot says that ticket's event is in it. */
static inline bool stwi_record_published(const stw_recorder *r, uint64_t ticket, uint64_t *word)
{
    *word = __atomic_load_n(&stwi_record_slot(r, ticket)->word, __ATOMIC_ACQUIRE);
    return (uint32_t)*word == stwi_record_lap(r, ticket);
}

static inline uint32_t stwi_record_text_slots(uint64_t name_bytes)
{
    return (uint32_t)((name_bytes + STW_RECORD_TEXT - 1) / STW_RECORD_TEXT);
}

/* Sleeps a little, and adds it up. Patience is counted in sleeps and not by a clock: that goes on while
 * the process is stopped, and the one that is waited for with it. */
void stwi_record_sleep(uint64_t *slept_ns);
/* Nothing from `ticket` on is recorded. The first reason is kept. */
void stwi_record_end_at(stw_recorder *r, uint64_t ticket, uint32_t reason);

bool stwi_record_begin_file(stw_recorder *r, const char *allocator); /* false: r->error */
void stwi_record_drop_file(stw_recorder *r);
void *stwi_record_writer(void *r); /* a thread: all of the file until r->closing */

#pragma GCC visibility pop
#endif
