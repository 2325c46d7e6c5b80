/* stw_record_file.c: the recorder's thread. It takes events from the ring in the order of their tickets,
 * turns them into units, and writes these by the block.
 *
 * What is small is written as it is; what is long or repeats gets an id of 12 bits: streams and
 * names. Ids are a matter of the file alone: when there are no more, the writer forgets them all and
 * gives them anew, so nothing grows with the length of a recording.
 *
 * Blocks are written at the end of the last whole one: a write that failed in the middle leaves nothing
 * that the trailer would not overwrite.
 */
#define _GNU_SOURCE
#include "stw_record_internal.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define FLUSH_MS 250  /* the time by which events are written, that is: what a crash may take with it */
#define TAIL_STEP 256 /* slots after which the ring's other side is told that they are free */
#define MOST_UNITS (3u + STW_RECORD_NAME_BYTES / 16) /* of an event: NAME, its text, the event itself */

struct stw_record_buffer {
    stw_record_block head;
    stw_record_unit units[STW_RECORD_BLOCK_UNITS];
};

struct stw_record_ids {
    uint32_t first, n, text_bytes;
    uint16_t cells[2 * STW_RECORD_IDS]; /* open addressing: id + 1, or 0 */
    struct {
        uint32_t at, bytes;
    } keys[STW_RECORD_IDS];
    uint8_t text[64 * STW_RECORD_IDS];
};

static bool write_at(stw_recorder *r, const void *p, size_t bytes, uint64_t at)
{
    for (const char *from = p; bytes > 0;) {
        ssize_t n = pwrite(r->fd, from, bytes, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            r->error = n < 0 ? errno : EIO;
            return false;
        }
        from += n;
        at += (uint64_t)n;
        bytes -= (size_t)n;
    }
    return true;
}

bool stwi_record_begin_file(stw_recorder *r, const char *allocator)
{
    r->buffer = stwi_map(sizeof *r->buffer);
    r->streams = stwi_map(sizeof *r->streams);
    r->names = stwi_map(sizeof *r->names);
    if (!r->buffer || !r->streams || !r->names) {
        r->error = ENOMEM;
        return false;
    }
    r->names->first = r->names->n = 1; /* name 0 is the empty one */
    stw_record_header h = {.magic = STW_RECORD_MAGIC, .major = STW_RECORD_MAJOR, .minor = STW_RECORD_MINOR, .header_bytes = sizeof h};
    memcpy(h.allocator, allocator, strnlen(allocator, sizeof h.allocator - 1));
    r->crc = stwi_crc32c(0, &h, sizeof h);
    r->bytes = sizeof h;
    return write_at(r, &h, sizeof h, 0);
}

void stwi_record_drop_file(stw_recorder *r)
{
    stwi_unmap(r->buffer, sizeof *r->buffer);
    stwi_unmap(r->streams, sizeof *r->streams);
    stwi_unmap(r->names, sizeof *r->names);
}

/* Writes the block, or ends the recording before it. */
static void flush_block(stw_recorder *r)
{
    if (r->buffer_units == 0)
        return;
    stw_record_buffer *b = r->buffer;
    size_t bytes = sizeof b->head + r->buffer_units * sizeof *b->units;
    b->head = (stw_record_block){STW_RECORD_BLOCK, r->buffer_units, 0, 0};
    b->head.crc32c = stwi_crc32c(r->crc, b, bytes);
    bool full = r->max_bytes && r->bytes + bytes + sizeof(stw_record_trailer) > r->max_bytes;
    if (r->cut > 0 || full || !write_at(r, b, bytes, r->bytes)) {
        if (r->cut == 0)
            stwi_record_end_at(r, 0, full ? STW_RECORD_FULL : STW_RECORD_IO);
        __atomic_fetch_add(&r->cut, r->buffer_events, __ATOMIC_RELAXED);
    } else {
        r->crc = b->head.crc32c;
        __atomic_fetch_add(&r->bytes, bytes, __ATOMIC_RELAXED);
        __atomic_fetch_add(&r->events, r->buffer_events, __ATOMIC_RELAXED);
    }
    r->buffer_units = r->buffer_events = 0;
}

static void add_unit(stw_recorder *r, uint32_t kind, uint64_t device, uint32_t id, uint64_t n, uint64_t v)
{
    r->buffer->units[r->buffer_units++] = (stw_record_unit){kind | device << 4 | (uint64_t)id << 12 | n << 24, v};
}

/* The id of a key; *is_new: it has just got it. */
static uint32_t id_of(stw_record_ids *d, const void *key, uint32_t bytes, bool *is_new)
{
    const uint32_t mask = 2 * STW_RECORD_IDS - 1, home = stwi_crc32c(0, key, bytes) & mask;
    uint32_t cell = home;
    *is_new = false;
    for (; d->cells[cell]; cell = (cell + 1) & mask) {
        uint32_t id = d->cells[cell] - 1u;
        if (d->keys[id].bytes == bytes && memcmp(d->text + d->keys[id].at, key, bytes) == 0)
            return id;
    }
    if (d->n == STW_RECORD_IDS || d->text_bytes + bytes > sizeof d->text) {
        memset(d->cells, 0, sizeof d->cells);
        d->n = d->first;
        d->text_bytes = 0;
        cell = home;
    }
    uint32_t id = d->n++;
    d->keys[id].at = d->text_bytes;
    d->keys[id].bytes = bytes;
    memcpy(d->text + d->text_bytes, key, bytes);
    d->text_bytes += bytes;
    d->cells[cell] = (uint16_t)(id + 1);
    *is_new = true;
    return id;
}

static uint32_t stream_id(stw_recorder *r, uint64_t handle)
{
    bool is_new;
    uint32_t id = id_of(r->streams, &handle, sizeof handle, &is_new);
    if (is_new)
        add_unit(r, STW_RECORD_STREAM, 0, id, 0, handle);
    return id;
}

/* The id of the name whose text lies in the slots from `ticket` on. */
static uint32_t name_id(stw_recorder *r, uint64_t ticket, uint32_t bytes)
{
    if (bytes == 0)
        return 0;
    uint8_t text[STW_RECORD_NAME_BYTES];
    for (uint32_t i = 0; i < stwi_record_text_slots(bytes); i++) {
        uint32_t from = i * STW_RECORD_TEXT, rest = bytes - from;
        memcpy(text + from, stwi_record_slot(r, ticket + i)->text, rest < STW_RECORD_TEXT ? rest : STW_RECORD_TEXT);
    }
    bool is_new;
    uint32_t id = id_of(r->names, text, bytes, &is_new), units = (bytes + 15) / 16;
    if (is_new) {
        add_unit(r, STW_RECORD_NAME, 0, id, bytes, 0);
        memset(&r->buffer->units[r->buffer_units], 0, units * sizeof *r->buffer->units);
        memcpy(&r->buffer->units[r->buffer_units], text, bytes);
        r->buffer_units += units;
    }
    return id;
}

/* Moves the event of a ticket to the block; returns how many slots it had. */
static uint32_t take(stw_recorder *r, uint64_t ticket, uint64_t word)
{
    const stw_record_slot *s = stwi_record_slot(r, ticket);
    uint32_t kind = word >> 32 & 0xff, slots = 1, id = 0;
    uint64_t size = 0;
    if (r->buffer_units + MOST_UNITS > STW_RECORD_BLOCK_UNITS)
        flush_block(r);
    switch (kind) {
    case STW_RECORD_MALLOC:
        id = stream_id(r, s->stream);
        size = s->size;
        if (size >> 40) {
            add_unit(r, STW_RECORD_WIDE, 0, 0, 0, size);
            size = 0;
        }
        break;
    case STW_RECORD_USE:
        id = stream_id(r, s->stream);
        break;
    case STW_RECORD_MARK:
        id = name_id(r, ticket + 1, (uint32_t)s->size);
        slots += stwi_record_text_slots(s->size);
        break;
    }
    add_unit(r, kind, word >> 40 & 0xff, id, size, s->a);
    r->buffer_events++;
    return slots;
}

/* Moves what is published to blocks. True: that is all there will ever be. */
static bool drain(stw_recorder *r)
{
    uint64_t tail = r->tail, told = tail, limit, word;
    while (tail < (limit = __atomic_load_n(&r->limit, __ATOMIC_ACQUIRE)) && stwi_record_published(r, tail, &word)) {
        tail += take(r, tail, word);
        if (tail - told >= TAIL_STEP)
            __atomic_store_n(&r->tail, told = tail, __ATOMIC_RELEASE);
    }
    __atomic_store_n(&r->tail, tail, __ATOMIC_RELEASE);
    return tail >= limit;
}

/* Says, once, why the recording has ended before its time. */
static void explain(stw_recorder *r, uint32_t reason)
{
    static const char *const why[] = {
        [STW_RECORD_SLOW] = "the file could not be written as fast as events came",
        [STW_RECORD_IO] = "cannot write",
        [STW_RECORD_FULL] = "the file would exceed its limit",
    };
    char text[128];
    if (r->text[0] || reason == STW_RECORD_CLOSED)
        return;
    snprintf(r->text, sizeof r->text, "record: %s: recording has ended after %llu events: %s%s%s", r->part,
             (unsigned long long)r->events, why[reason], r->error ? ": " : "",
             r->error ? strerror_r(r->error, text, sizeof text) : "");
    if (r->say)
        r->say(r->say_ctx, r->text);
}

static void cannot_rename(stw_recorder *r, int error)
{
    char text[128];
    snprintf(r->text, sizeof r->text, "record: the recording is %s, which cannot be renamed to %s: %s", r->part, r->path,
             strerror_r(error, text, sizeof text));
    if (r->say)
        r->say(r->say_ctx, r->text);
}

/* Events in the ring behind the end. */
static uint64_t left_in_ring(const stw_recorder *r)
{
    uint64_t limit = __atomic_load_n(&r->limit, __ATOMIC_SEQ_CST), head = __atomic_load_n(&r->head, __ATOMIC_SEQ_CST);
    uint64_t n = 0, word, end = head < r->tail + r->slots ? head : r->tail + r->slots;
    for (uint64_t t = limit > r->tail ? limit : r->tail; t < end; t++)
        n += stwi_record_published(r, t, &word);
    return n;
}

static void end_file(stw_recorder *r)
{
    stw_record_trailer t = {.magic = STW_RECORD_END, .events = r->events, .bytes = r->bytes + sizeof t};
    t.reason = __atomic_load_n(&r->reason, __ATOMIC_SEQ_CST);
    t.error = (uint32_t)r->error;
    if (t.reason != STW_RECORD_CLOSED)
        t.lost = __atomic_add_fetch(&r->late, left_in_ring(r), __ATOMIC_SEQ_CST) + r->cut;
    t.crc32c = stwi_crc32c(r->crc, &t, sizeof t);
    /* What a network file system has not stored yet it says when a descriptor is closed; the lock goes with the last one. */
    int copy;
    bool written = write_at(r, &t, sizeof t, r->bytes);
    if (written && (ftruncate(r->fd, (off_t)t.bytes) != 0 || (copy = dup(r->fd)) < 0 || close(copy) != 0)) {
        r->error = errno;
        written = false;
    }
    if (!written) {
        t.reason = STW_RECORD_IO;
    } else {
        __atomic_store_n(&r->bytes, t.bytes, __ATOMIC_RELAXED);
        if (rename(r->part, r->path) != 0)
            cannot_rename(r, errno);
    }
    close(__atomic_exchange_n(&r->fd, -1, __ATOMIC_SEQ_CST)); /* first forgotten: a child of fork() closes what it finds */
    explain(r, t.reason);
}

void *stwi_record_writer(void *arg)
{
    stw_recorder *r = arg;
    const struct timespec period = {0, FLUSH_MS * 1000000};
    uint64_t slept_ns = 0;
    prctl(PR_SET_NAME, "stw-record");
    for (;;) {
        bool closing = __atomic_load_n(&r->closing, __ATOMIC_ACQUIRE), all = drain(r);
        if (closing && !all) { /* a thread has its ticket and is still writing, or it is gone */
            if (slept_ns < r->patience_ns)
                stwi_record_sleep(&slept_ns);
            else
                stwi_record_end_at(r, r->tail, STW_RECORD_SLOW);
            continue;
        }
        if (all) {
            flush_block(r);
            explain(r, __atomic_load_n(&r->reason, __ATOMIC_SEQ_CST));
        }
        if (closing)
            break;
        if (__atomic_exchange_n(&r->bell, 0, __ATOMIC_ACQUIRE) == 0 &&
            syscall(SYS_futex, &r->bell, FUTEX_WAIT_PRIVATE, 0, &period, NULL, 0) != 0 && errno == ETIMEDOUT)
            flush_block(r);
    }
    end_file(r);
    return NULL;
}
