/* test_lock.c: the biased lock where it is weakest: ownership that is gained and taken away while
 * its owner works (most of all in the build where two requests in a row are enough for it). The
 * allocator's counters are plain integers, so two threads inside at once lose
 * an increment sooner or later, and the sums show it.
 */
#define _DEFAULT_SOURCE
#include "check.h"
#include "support.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

enum { TURN = 6000, TURNS = CHECK_SANITIZED ? 10 : 60 };

static stw_allocator *a;
static int running;

static void rest(long ns)
{
    nanosleep(&(struct timespec){0, ns}, NULL);
}

static unsigned long pairs(unsigned long n, uint64_t stream)
{
    unsigned long wrong = 0;
    for (unsigned long i = 0; i < n; i++)
        wrong += stw_free(a, stw_malloc(a, 512 + i % 7 * 512, stream)) != 0;
    return wrong;
}

/* Long turns: becomes the owner each time. */
static void *owner(void *arg)
{
    unsigned long wrong = 0; /* checked by main: CHECK counts without a lock */
    uint64_t stream = *(uint64_t *)arg;
    for (int t = 0; t < TURNS; t++) {
        wrong += pairs(TURN, stream);
        rest(50000);
    }
    return (void *)(uintptr_t)wrong;
}

/* One pair now and then, in the middle of the others' turns. Counts them. */
static void *thief(void *arg)
{
    unsigned long wrong = 0, *n = arg;
    uint64_t seed = 7;
    while (__atomic_load_n(&running, __ATOMIC_ACQUIRE)) {
        wrong += pairs(1, 9);
        ++*n;
        rest((long)(check_random(&seed) % 100000));
    }
    return (void *)(uintptr_t)wrong;
}

static void run(unsigned owners)
{
    test_backend memory;
    stw_backend backend = test_backend_make(&memory, true, 0);
    pthread_t o[2], t;
    uint64_t stream[2] = {1, 2};
    unsigned long stolen = 0;
    void *wrong;
    char message[200];
    CHECK_EQ(stw_create(&a, NULL, 0, NULL, &backend, NULL, 0), STW_OK);
    running = 1;
    CHECK_EQ(pthread_create(&t, NULL, thief, &stolen), 0);
    for (unsigned i = 0; i < owners; i++)
        CHECK_EQ(pthread_create(&o[i], NULL, owner, &stream[i]), 0);
    for (unsigned i = 0; i < owners; i++) {
        CHECK_EQ(pthread_join(o[i], &wrong), 0);
        CHECK(wrong == NULL);
    }
    __atomic_store_n(&running, 0, __ATOMIC_RELEASE);
    CHECK_EQ(pthread_join(t, &wrong), 0);
    CHECK(wrong == NULL);
    stw_stats s;
    stw_get_stats(a, &s);
    CHECK(stolen > 0);
    CHECK_EQ(s.requests, (uint64_t)owners * TURNS * TURN + stolen);
    CHECK_EQ(s.frees, s.requests);
    CHECK_EQ(s.live_bytes, 0);
    CHECK_EQ(stw_check(a, message, sizeof message), 0);
    printf("%u owners, %lu visits of another thread\n", owners, stolen);
    stw_destroy(a);
}

int main(void)
{
    run(1);
    run(2);
    return check_end("test_lock");
}
