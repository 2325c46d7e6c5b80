/* record_file.h: what the recorder's tests share: a reader of the file that knows nothing but stw_record.h, and a
 * folder of their own.
 */
#ifndef RECORD_FILE_H
#define RECORD_FILE_H

#include "../stw_record_internal.h"
#include "check.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[64], path[96], part[104];

static inline bool make_folder(void)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%.40s/stwp.XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(folder)) {
        perror(folder);
        return false;
    }
    snprintf(path, sizeof path, "%s/a.stwp", folder);
    snprintf(part, sizeof part, "%s.part", path);
    return true;
}

static inline void remove_folder(void)
{
    unlink(path);
    CHECK_EQ(rmdir(folder), 0);
}

typedef struct {
    uint32_t kind, device;
    uint64_t size, stream, v;
    char name[STW_RECORD_NAME_BYTES + 1];
} event;

typedef struct {
    uint8_t *bytes;
    size_t n;
    stw_record_trailer end; /* magic 0: none */
    uint64_t events;
    bool whole;
} file;

static inline uint8_t *slurp(const char *name, size_t *n)
{
    FILE *f = fopen(name, "rb");
    *n = 0;
    if (!f)
        return NULL;
    uint8_t *p = NULL;
    size_t room = 0, got;
    do {
        room = room ? 2 * room : 1 << 16;
        p = realloc(p, room);
        got = p ? fread(p + *n, 1, room - *n, f) : 0;
        *n += got;
    } while (p && *n == room);
    fclose(f);
    return p;
}

static uint64_t stream_of[STW_RECORD_IDS];
static char name_of[STW_RECORD_IDS][STW_RECORD_NAME_BYTES + 1];

/* Calls f for each event up to the end of the last whole block; says in *out what there is. */
static inline void each(file *out, const char *name, void (*f)(void *, const event *), void *ctx)
{
    *out = (file){0};
    out->bytes = slurp(name, &out->n);
    const uint8_t *p = out->bytes, *end = p + out->n;
    if (!CHECK(out->n >= sizeof(stw_record_header) && memcmp(p, STW_RECORD_MAGIC, 8) == 0))
        return;
    p += sizeof(stw_record_header);
    while ((size_t)(end - p) >= sizeof(stw_record_block)) {
        stw_record_block b;
        memcpy(&b, p, sizeof b);
        if (b.magic == STW_RECORD_END) {
            if ((size_t)(end - p) == sizeof out->end)
                memcpy(&out->end, p, sizeof out->end);
            break;
        }
        if (!CHECK(b.magic == STW_RECORD_BLOCK && b.units > 0 && b.units <= STW_RECORD_BLOCK_UNITS))
            break;
        const uint8_t *q = p + sizeof b, *after = q + b.units * sizeof(stw_record_unit);
        if (after > end)
            break;
        uint64_t wide = 0;
        for (; q < after; q += sizeof(stw_record_unit)) {
            stw_record_unit u;
            memcpy(&u, q, sizeof u);
            static event e;
            uint32_t id = u.word >> 12 & 0xfff;
            e = (event){.kind = u.word & 15, .device = u.word >> 4 & 0xff, .size = u.word >> 24, .v = u.v};
            if (e.kind == STW_RECORD_STREAM) {
                stream_of[id] = u.v;
            } else if (e.kind == STW_RECORD_NAME) {
                CHECK(id != 0);
                memset(name_of[id], 0, sizeof name_of[id]);
                memcpy(name_of[id], q + sizeof u, e.size);
                q += (e.size + 15) / 16 * 16;
            } else if (e.kind == STW_RECORD_WIDE) {
                wide = u.v;
            } else {
                if (e.kind == STW_RECORD_MALLOC || e.kind == STW_RECORD_USE)
                    e.stream = stream_of[id];
                if (e.kind == STW_RECORD_MARK)
                    memcpy(e.name, name_of[id], sizeof e.name);
                e.size = wide ? wide : e.size;
                wide = 0;
                out->events++;
                if (f)
                    f(ctx, &e);
            }
        }
        p = after;
    }
    out->whole = out->end.magic == STW_RECORD_END && out->end.bytes == out->n && out->end.events == out->events;
}

static inline void drop(file *f)
{
    free(f->bytes);
}

static inline stw_recorder *open_or_die(const stw_record_options *o)
{
    char err[300];
    stw_recorder *r = NULL;
    CHECK_EQ(stw_recorder_open(&r, path, o, err, sizeof err), 0);
    CHECK(r != NULL && err[0] == 0);
    return r;
}

static inline void *at(uint64_t address)
{
    return (void *)(uintptr_t)address;
}

#endif
