/* records.c: see records.h. */
#define _GNU_SOURCE
#include "records.h"

#include <pthread.h>
#include <stddef.h>
#include <sys/mman.h>

void *__real_mmap(void *p, size_t bytes, int prot, int flags, int fd, off_t at);
void *__real_mremap(void *p, size_t old, size_t bytes, int flags, ...);
int __real_munmap(void *p, size_t bytes);
void *__wrap_mmap(void *p, size_t bytes, int prot, int flags, int fd, off_t at);
void *__wrap_mremap(void *p, size_t old, size_t bytes, int flags, ...);
int __wrap_munmap(void *p, size_t bytes);

#define MOST 4096u

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    void *p;
    size_t bytes;
} records[MOST];
static uint32_t n_records;
static fault how;
static long calls, first;
static unsigned long failures, wrong;
static bool paused;

void records_fail(fault f, long k)
{
    pthread_mutex_lock(&lock);
    how = f;
    first = k;
    calls = 0;
    failures = 0;
    pthread_mutex_unlock(&lock);
}

void records_pause(bool on)
{
    pthread_mutex_lock(&lock);
    paused = on;
    pthread_mutex_unlock(&lock);
}

unsigned long records_failed(void)
{
    pthread_mutex_lock(&lock);
    unsigned long n = failures;
    pthread_mutex_unlock(&lock);
    return n;
}

uint32_t records_left(void)
{
    pthread_mutex_lock(&lock);
    uint32_t n = n_records;
    pthread_mutex_unlock(&lock);
    return n;
}

bool records_sound(void)
{
    pthread_mutex_lock(&lock);
    bool sound = wrong == 0;
    pthread_mutex_unlock(&lock);
    return sound;
}

/* Whether this call fails. The lock is held, here and below. */
static bool refused(void)
{
    if (paused)
        return false;
    calls++;
    bool no = (how == ONCE && calls == first) || (how == FROM_THEN_ON && calls >= first) || (how == ONE_IN_THREE && calls % 3 == 0);
    failures += no;
    return no;
}

static uint32_t record_of(const void *p)
{
    uint32_t i = 0;
    while (i < n_records && records[i].p != p)
        i++;
    return i;
}

void *__wrap_mmap(void *p, size_t bytes, int prot, int flags, int fd, off_t at)
{
    if (prot != (PROT_READ | PROT_WRITE) || !(flags & MAP_NORESERVE))
        return __real_mmap(p, bytes, prot, flags, fd, at);
    pthread_mutex_lock(&lock);
    void *q = n_records == MOST || refused() ? MAP_FAILED : __real_mmap(p, bytes, prot, flags, fd, at);
    wrong += n_records == MOST;
    if (q != MAP_FAILED) {
        records[n_records].p = q;
        records[n_records++].bytes = bytes;
    }
    pthread_mutex_unlock(&lock);
    return q;
}

void *__wrap_mremap(void *p, size_t old, size_t bytes, int flags, ...)
{
    pthread_mutex_lock(&lock);
    uint32_t i = record_of(p);
    bool known = i < n_records && records[i].bytes == old;
    wrong += !known;
    void *q = !known || refused() ? MAP_FAILED : __real_mremap(p, old, bytes, flags);
    if (q != MAP_FAILED) {
        records[i].p = q;
        records[i].bytes = bytes;
    }
    pthread_mutex_unlock(&lock);
    return q;
}

int __wrap_munmap(void *p, size_t bytes)
{
    pthread_mutex_lock(&lock);
    uint32_t i = record_of(p);
    if (i < n_records) {
        wrong += bytes != records[i].bytes;
        records[i] = records[--n_records];
    }
    int r = __real_munmap(p, bytes);
    pthread_mutex_unlock(&lock);
    return r;
}
