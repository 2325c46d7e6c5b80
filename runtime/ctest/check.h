/* check.h: the tests' only framework: a condition that is counted, and a closing line. */
#ifndef CHECK_H
#define CHECK_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

static unsigned long check_passed, check_failed;

#define CHECK(condition) check_one(!!(condition), __FILE__, __LINE__, #condition, 0, 0)

/* Both sides as integers, each evaluated once; prints them where they differ. */
#define CHECK_EQ(got, want) check_equal((long long)(got), (long long)(want), __FILE__, __LINE__, #got " == " #want)

static inline bool check_one(bool ok, const char *file, int line, const char *what, long long got, long long want)
{
    if (ok)
        check_passed++;
    else if (++check_failed <= 20)
        printf("%s:%d: %s (%lld, %lld)\n", file, line, what, got, want);
    return ok;
}

static inline bool check_equal(long long got, long long want, const char *file, int line, const char *what)
{
    return check_one(got == want, file, line, what, got, want);
}

static inline int check_end(const char *name)
{
    printf("%s: %lu passed, %lu failed\n", name, check_passed, check_failed);
    return check_failed != 0;
}

/* splitmix64: the tests' random numbers. */
static inline uint64_t check_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#define CHECK_SANITIZED 1
#else
#define CHECK_SANITIZED 0
#endif

#ifdef __SANITIZE_THREAD__ /* many times slower, and of no use where there is one thread */
#define CHECK_THREADS_ONLY 1
#else
#define CHECK_THREADS_ONLY 0
#endif

#endif
