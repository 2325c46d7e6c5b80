/* canary.c: for tests: does anybody else have this memory?
 *
 * An own record of what is handed out, which shares nothing with the allocator's: a bit for each 512
 * bytes of the address space (32 GiB of it for 2^47 bytes, of which only touched pages exist). An address
 * of which a bit is set already belongs to a living block: a fault. Where the host can write the
 * memory, the slack between a request and its rounding holds a pattern from hand-out to free: a
 * fault where it is gone (memory given back under a living block, or written by another's owner).
 */
#define _DEFAULT_SOURCE
#include "conf.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#define UNIT 512u
#define UNITS (UINT64_C(1) << (47 - 9))

static uint64_t *owned, *has_pattern; /* a bit for each unit of memory; of the last unit of a block */
static uint64_t faults; /* atomic */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

bool stwt_canary_start(void)
{
    size_t bytes = UNITS / 8;
    char *p = owned ? (char *)owned
                    : mmap(NULL, 2 * bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return false;
    owned = (uint64_t *)(void *)p;
    has_pattern = owned + bytes / sizeof *owned;
    return true;
}

void stwt_canary_in_child(void)
{
    pthread_mutex_init(&lock, NULL);
}

static bool bit(const uint64_t *bits, uint64_t i)
{
    return bits[i >> 6] >> (i & 63) & 1;
}

static void flip(uint64_t *bits, uint64_t i)
{
    bits[i >> 6] ^= UINT64_C(1) << (i & 63);
}

/* The slack's last byte is its length, which is at most UNIT - 1: in steps of 2, rounded down. */
static uint8_t pattern_byte(const uint8_t *p)
{
    return (uint8_t)(0xa5 ^ (uintptr_t)p);
}

static void write_pattern(uint8_t *end, size_t slack)
{
    for (uint8_t *q = end - slack; q < end - 1; q++)
        *q = pattern_byte(q);
    end[-1] = (uint8_t)(slack / 2);
}

static bool pattern_holds(const uint8_t *end)
{
    size_t slack = (size_t)end[-1] * 2;
    if (slack == 0)
        return false;
    for (const uint8_t *q = end - slack; q < end - 1; q++)
        if (*q != pattern_byte(q))
            return false;
    return true;
}

void stwt_canary_taken(void *p, size_t size, bool writable)
{
    uint64_t first = (uintptr_t)p / UNIT, end = ((uintptr_t)p + size + UNIT - 1) / UNIT;
    size_t slack = (size_t)(end * UNIT - ((uintptr_t)p + size));
    bool bad = (uintptr_t)p % UNIT != 0 || end > UNITS;
    pthread_mutex_lock(&lock);
    for (uint64_t i = first; i < end && end <= UNITS; i++) {
        bad |= bit(owned, i);
        owned[i >> 6] |= UINT64_C(1) << (i & 63);
    }
    if (!bad && writable && slack >= 2) {
        write_pattern((uint8_t *)p + size + slack, slack & ~(size_t)1);
        flip(has_pattern, end - 1);
    }
    __atomic_fetch_add(&faults, bad, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&lock);
}

void stwt_canary_given(void *p, size_t rounded)
{
    uint64_t first = (uintptr_t)p / UNIT, end = first + rounded / UNIT;
    bool bad = false;
    if (end > UNITS)
        return; /* counted when it was taken */
    pthread_mutex_lock(&lock);
    for (uint64_t i = first; i < end; i++) {
        bad |= !bit(owned, i);
        owned[i >> 6] &= ~(UINT64_C(1) << (i & 63));
    }
    if (end > first && bit(has_pattern, end - 1)) {
        bad |= !pattern_holds((uint8_t *)p + rounded);
        flip(has_pattern, end - 1);
    }
    __atomic_fetch_add(&faults, bad, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&lock);
}

uint64_t stwt_canary_faults(void)
{
    return __atomic_load_n(&faults, __ATOMIC_RELAXED);
}
