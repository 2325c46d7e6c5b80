/* stw_record.c: the recorder's ring, opening and closing. stw_record.h says what a recording promises.
 *
 * The ring is an array of slots, used round and round. `head` counts the tickets given out, `tail`
 * those that are on their way to the file; ticket t lies in slot t modulo the size of the ring.
 *
 *           tail                 head              an event: 1 slot
 *     . . . . | a | b | - | d | e | . . .          a mark with a name: 1 more for each 24 bytes of it
 *                       |
 *                       a thread has this ticket and is still writing: here the writer waits
 *
 * A slot is published by storing its word last. The word has the lap in it, so what the lap before left
 * there does not count. A thread that finds no room sleeps a little and looks again. When its
 * patience ends it lowers `limit` to its own ticket: what has a lower one is recorded, nothing else
 * ever is. A disk that fails and a file that is full do the same. So the end of a recording is one
 * number, and the file a prefix of what happened.
 */
#define _GNU_SOURCE
#include "stw_record_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifdef STW_OLD_GLIBC /* These moved from libpthread to libc in glibc 2.34; the names that both have are asked for. */
#if defined __x86_64__
#define STW_BASE "GLIBC_2.2.5"
#elif defined __aarch64__
#define STW_BASE "GLIBC_2.17"
#endif
#ifdef STW_BASE
__asm__(".symver pthread_create,pthread_create@" STW_BASE);
__asm__(".symver pthread_join,pthread_join@" STW_BASE);
__asm__(".symver pthread_sigmask,pthread_sigmask@" STW_BASE);
#endif
#endif

#define FIRST_SLOTS 65536u
#define PATIENCE_MS 10000u

/* ---- events: any thread ---- */

static void ring_bell(stw_recorder *r)
{
    __atomic_store_n(&r->bell, 1, __ATOMIC_RELEASE);
    syscall(SYS_futex, &r->bell, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

void stwi_record_sleep(uint64_t *slept_ns)
{
    nanosleep(&(struct timespec){0, STW_RECORD_SLEEP_NS}, NULL);
    *slept_ns += STW_RECORD_SLEEP_NS;
}

void stwi_record_end_at(stw_recorder *r, uint64_t ticket, uint32_t reason)
{
    uint32_t none = STW_RECORD_CLOSED;
    __atomic_compare_exchange_n(&r->reason, &none, reason, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    uint64_t limit = __atomic_load_n(&r->limit, __ATOMIC_SEQ_CST);
    while (ticket < limit &&
           !__atomic_compare_exchange_n(&r->limit, &limit, ticket, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
    }
    ring_bell(r);
}

static bool has_room(const stw_recorder *r, uint64_t end)
{
    return end - __atomic_load_n(&r->tail, __ATOMIC_ACQUIRE) <= r->slots;
}

static __attribute__((noinline)) bool wait_for_room(stw_recorder *r, uint64_t ticket, uint64_t end)
{
    for (uint64_t slept_ns = 0; !has_room(r, end); stwi_record_sleep(&slept_ns)) {
        if (__atomic_load_n(&r->limit, __ATOMIC_RELAXED) <= ticket)
            return false;
        if (slept_ns >= r->patience_ns) {
            stwi_record_end_at(r, ticket, STW_RECORD_SLOW);
            return false;
        }
        ring_bell(r);
    }
    return true;
}

/* The slots [*ticket, *ticket + n) are the caller's; false: the event is not recorded. */
static inline bool claim(stw_recorder *r, uint32_t n, uint64_t *ticket)
{
    if (__builtin_expect(__atomic_load_n(&r->limit, __ATOMIC_RELAXED) == STW_RECORDING, 1)) {
        uint64_t begin = __atomic_fetch_add(&r->head, n, __ATOMIC_RELAXED), end = begin + n;
        if (__builtin_expect(has_room(r, end), 1) || wait_for_room(r, begin, end)) {
            if (__builtin_expect(((begin ^ end) & ~(r->slots / 4 - 1)) != 0, 0)) /* a quarter has filled */
                ring_bell(r);
            *ticket = begin;
            return true;
        }
    }
    __atomic_fetch_add(&r->late, 1, __ATOMIC_RELAXED);
    return false;
}

static inline void publish(stw_recorder *r, uint64_t ticket, uint32_t kind, uint32_t device)
{
    uint64_t word = stwi_record_lap(r, ticket) | (uint64_t)kind << 32 | (uint64_t)(device & 0xff) << 40;
    __atomic_store_n(&stwi_record_slot(r, ticket)->word, word, __ATOMIC_RELEASE);
}

static inline void put(stw_recorder *r, uint32_t kind, int device, uint64_t a, uint64_t size, uint64_t stream)
{
    uint64_t ticket;
    if (!r || !claim(r, 1, &ticket))
        return;
    stw_record_slot *s = stwi_record_slot(r, ticket);
    s->a = a;
    s->size = size;
    s->stream = stream;
    publish(r, ticket, kind, (uint32_t)device);
}

void stw_recorder_malloc(stw_recorder *r, const void *p, size_t size, int device, uint64_t stream)
{
    put(r, STW_RECORD_MALLOC, device, (uintptr_t)p, size, stream);
}

void stw_recorder_free(stw_recorder *r, const void *p, int device)
{
    if (p)
        put(r, STW_RECORD_FREE, device, (uintptr_t)p, 0, 0);
}

void stw_recorder_record_stream(stw_recorder *r, const void *p, int device, uint64_t stream)
{
    if (p)
        put(r, STW_RECORD_USE, device, (uintptr_t)p, 0, stream);
}

void stw_recorder_held(stw_recorder *r, int device, uint64_t bytes)
{
    put(r, STW_RECORD_HELD, device, bytes, 0, 0);
}

/* Bytes of a name that are kept: at most STW_RECORD_NAME_BYTES, and no half of a UTF-8 character. */
static size_t kept_of(const char *name)
{
    size_t n = strnlen(name, STW_RECORD_NAME_BYTES + 1);
    if (n > STW_RECORD_NAME_BYTES)
        for (n = STW_RECORD_NAME_BYTES; n > 0 && ((uint8_t)name[n] & 0xc0) == 0x80;)
            n--;
    return n;
}

void stw_recorder_mark(stw_recorder *r, uint32_t kind, int64_t value, const char *name)
{
    if (!r || kind < STW_RECORD_ITERATION || kind > STW_RECORD_LEAVE)
        return;
    size_t bytes = name ? kept_of(name) : 0;
    uint32_t n = stwi_record_text_slots(bytes);
    uint64_t ticket;
    if (!claim(r, 1 + n, &ticket))
        return;
    for (uint32_t i = 0; i < n; i++) {
        stw_record_slot *s = stwi_record_slot(r, ticket + 1 + i);
        size_t from = i * STW_RECORD_TEXT, rest = bytes - from;
        __atomic_store_n(&s->word, 0, __ATOMIC_RELAXED);
        memcpy(s->text, name + from, rest < STW_RECORD_TEXT ? rest : STW_RECORD_TEXT);
    }
    stw_record_slot *s = stwi_record_slot(r, ticket);
    s->a = (uint64_t)value;
    s->size = bytes;
    publish(r, ticket, STW_RECORD_MARK, kind);
}

void stw_recorder_get_stats(stw_recorder *r, stw_record_stats *out)
{
    *out = (stw_record_stats){
        .events = __atomic_load_n(&r->events, __ATOMIC_RELAXED),
        .lost = __atomic_load_n(&r->late, __ATOMIC_RELAXED) + __atomic_load_n(&r->cut, __ATOMIC_RELAXED),
        .bytes = __atomic_load_n(&r->bytes, __ATOMIC_RELAXED),
        .reason = __atomic_load_n(&r->reason, __ATOMIC_RELAXED),
    };
    if (out->reason == STW_RECORD_CLOSED)
        out->lost = 0; /* what comes after the end of a finished recording is not a loss */
}

/* ---- all recorders of the process, for fork and exit ---- */

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static stw_recorder *list;

static void before_fork(void)
{
    pthread_mutex_lock(&list_lock);
}

static void after_fork_parent(void)
{
    pthread_mutex_unlock(&list_lock);
}

/* The child has no writer, and the file is its parent's. */
static void after_fork_child(void)
{
    for (stw_recorder *r = list; r; r = r->next) {
        __atomic_store_n(&r->limit, 0, __ATOMIC_RELAXED);
        int fd = __atomic_load_n(&r->fd, __ATOMIC_SEQ_CST);
        if (fd >= 0)
            close(fd);
    }
    list = NULL;
    pthread_mutex_init(&list_lock, NULL);
}

static void list_add(stw_recorder *r)
{
    static bool prepared;
    pthread_mutex_lock(&list_lock);
    if (!prepared)
        prepared = pthread_atfork(before_fork, after_fork_parent, after_fork_child) == 0;
    r->next = list;
    list = r;
    pthread_mutex_unlock(&list_lock);
}

static void list_remove(const stw_recorder *r)
{
    pthread_mutex_lock(&list_lock);
    for (stw_recorder **at = &list; *at; at = &(*at)->next)
        if (*at == r) {
            *at = r->next;
            break;
        }
    pthread_mutex_unlock(&list_lock);
}

/* In a child, however it was made, the recording is somebody else's. */
static bool is_ours(const stw_recorder *r)
{
    return r->pid == getpid();
}

/* At exit, and where the library is unloaded: its thread must not outlive its code. */
__attribute__((destructor)) static void finish_all(void)
{
    pthread_mutex_lock(&list_lock);
    for (stw_recorder *r = list; r; r = r->next)
        stw_recorder_finish(r, NULL, 0);
    pthread_mutex_unlock(&list_lock);
}

/* ---- open, finish, close ---- */

static int refuse(char *err, size_t err_bytes, const char *what, const char *path, int error)
{
    char text[128];
    if (err && err_bytes)
        snprintf(err, err_bytes, "record: %s%s%s%s%s", what, path ? " " : "", path ? path : "", error ? ": " : "",
                 error ? strerror_r(error, text, sizeof text) : "");
    return -1;
}

static void drop(stw_recorder *r)
{
    stwi_record_drop_file(r);
    stwi_unmap(r->ring, r->slots * sizeof *r->ring);
    stwi_unmap(r, sizeof *r);
}

/* Opens the temporary file, which no other process may be writing. */
static int open_part(stw_recorder *r, char *err, size_t err_bytes)
{
    int folder = open(r->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder >= 0) {
        close(folder);
        return refuse(err, err_bytes, "a directory:", r->path, 0);
    }
    r->fd = open(r->part, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (r->fd < 0)
        return refuse(err, err_bytes, "cannot create", r->part, errno);
    if (flock(r->fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        refuse(err, err_bytes, "another recorder is writing this file; give each process a path of its own:", r->part, 0);
    else if (ftruncate(r->fd, 0) != 0)
        refuse(err, err_bytes, "not a regular file:", r->part, errno);
    else
        return 0;
    close(r->fd);
    return -1;
}

static int start(stw_recorder *r, const char *allocator, char *err, size_t err_bytes)
{
    if (open_part(r, err, err_bytes) != 0)
        return -1;
    if (!stwi_record_begin_file(r, allocator)) {
        refuse(err, err_bytes, "cannot write", r->part, r->error);
    } else {
        sigset_t all, before; /* signals are for the program's own threads */
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        int error = pthread_create(&r->thread, NULL, stwi_record_writer, r);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        if (error == 0)
            return 0;
        refuse(err, err_bytes, "cannot start a thread", NULL, error);
    }
    unlink(r->part);
    close(r->fd);
    return -1;
}

int stw_recorder_open(stw_recorder **out, const char *path, const stw_record_options *options, char *err,
                      size_t err_bytes)
{
    if (!out)
        return refuse(err, err_bytes, "out is null", NULL, 0);
    *out = NULL;
    if (!path || !*path)
        return refuse(err, err_bytes, "no path", NULL, 0);
    if (strlen(path) + sizeof ".part" > STW_RECORD_PATH)
        return refuse(err, err_bytes, "the path is too long", NULL, 0);
    stw_record_options o = options ? *options : (stw_record_options){0};
    uint32_t slots = o.ring_slots ? o.ring_slots : FIRST_SLOTS;
    if (slots < 64 || slots > 1u << 24 || slots & (slots - 1))
        return refuse(err, err_bytes, "ring_slots is not a power of two from 64 to 2^24", NULL, 0);
    stw_recorder *r = stwi_map(sizeof *r);
    if (!r)
        return refuse(err, err_bytes, "no memory", NULL, 0);
    r->limit = STW_RECORDING;
    r->pid = getpid();
    r->slots = slots;
    r->patience_ns = (o.patience_ms ? o.patience_ms : PATIENCE_MS) * UINT64_C(1000000);
    r->max_bytes = o.max_bytes;
    r->say = o.say;
    r->say_ctx = o.say_ctx;
    snprintf(r->path, sizeof r->path, "%s", path);
    snprintf(r->part, sizeof r->part, "%s.part", path);
    pthread_mutex_init(&r->finishing, NULL);
    r->ring = stwi_map(slots * sizeof *r->ring);
    if (!r->ring || start(r, o.allocator ? o.allocator : "stweaver", err, err_bytes) != 0) {
        if (!r->ring)
            refuse(err, err_bytes, "no memory", NULL, 0);
        drop(r);
        return -1;
    }
    list_add(r);
    if (err && err_bytes)
        err[0] = 0;
    *out = r;
    return 0;
}

int stw_recorder_finish(stw_recorder *r, char *err, size_t err_bytes)
{
    if (err && err_bytes)
        err[0] = 0;
    if (!r || !is_ours(r))
        return 0;
    pthread_mutex_lock(&r->finishing);
    if (!r->finished) {
        stwi_record_end_at(r, __atomic_load_n(&r->head, __ATOMIC_SEQ_CST), STW_RECORD_CLOSED);
        __atomic_store_n(&r->closing, 1, __ATOMIC_RELEASE);
        ring_bell(r);
        pthread_join(r->thread, NULL);
        r->finished = true;
    }
    pthread_mutex_unlock(&r->finishing);
    if (r->text[0] && err && err_bytes)
        snprintf(err, err_bytes, "%s", r->text);
    return r->text[0] ? -1 : 0;
}

int stw_recorder_close(stw_recorder *r, char *err, size_t err_bytes)
{
    int result = stw_recorder_finish(r, err, err_bytes);
    if (r) {
        list_remove(r);
        drop(r);
    }
    return result;
}
