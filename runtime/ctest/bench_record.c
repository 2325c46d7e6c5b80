/* bench_record.c: what recording costs: thread CPU time of a call in the program's threads, that of the
 * recorder's own thread, and bytes an event. In bursts that the ring takes, as training does, and at full
 * speed, where calls wait for the file.
 */
#define _GNU_SOURCE
#include "record_file.h"
#include "support.h"

#include <pthread.h>
#include <time.h>

enum { BURST = 20000, BURSTS = 21, MOST_THREADS = 4 };

static stw_recorder *recorder;

static double clock_ns(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

typedef struct {
    pthread_barrier_t *burst;
    useconds_t rest_us;
    uint64_t self;
    double ns[BURSTS]; /* a call, in each burst */
    pthread_t thread;
} worker;

static void *work(void *arg)
{
    worker *w = arg;
    for (int b = 0; b < BURSTS; b++) {
        pthread_barrier_wait(w->burst);
        double t = clock_ns(CLOCK_THREAD_CPUTIME_ID);
        for (uint64_t i = 0; i < BURST / 2; i++) {
            void *p = at((w->self << 32 | (i + 1)) * 512);
            stw_recorder_malloc(recorder, p, i * 512, 0, i & 1);
            stw_recorder_free(recorder, p, 0);
        }
        w->ns[b] = (clock_ns(CLOCK_THREAD_CPUTIME_ID) - t) / BURST;
        pthread_barrier_wait(w->burst);
        usleep(w->rest_us);
    }
    return NULL;
}

static void row(const char *what, unsigned threads, useconds_t rest_us)
{
    static worker w[MOST_THREADS];
    double all[BURSTS * MOST_THREADS], cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID), callers = 0;
    pthread_barrier_t burst;
    recorder = open_or_die(NULL);
    pthread_barrier_init(&burst, NULL, threads);
    for (unsigned i = 0; i < threads; i++) {
        w[i] = (worker){.burst = &burst, .rest_us = rest_us, .self = i};
        if (pthread_create(&w[i].thread, NULL, work, &w[i]) != 0)
            exit(1);
    }
    for (unsigned i = 0; i < threads; i++) {
        pthread_join(w[i].thread, NULL);
        memcpy(&all[i * BURSTS], w[i].ns, sizeof w[i].ns);
        for (int b = 0; b < BURSTS; b++)
            callers += w[i].ns[b] * BURST;
    }
    CHECK_EQ(stw_recorder_finish(recorder, NULL, 0), 0);
    cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu - callers;
    stw_record_stats s;
    stw_recorder_get_stats(recorder, &s);
    CHECK_EQ(stw_recorder_close(recorder, NULL, 0), 0);
    unsigned n = threads * BURSTS;
    qsort(all, n, sizeof *all, by_value);
    printf("%-44s %8.1f %8.1f %8.1f %8.1f %8.2f\n", what, all[n / 2], all[n * 9 / 10], all[n - 1], cpu / (double)s.events,
           (double)s.bytes / (double)s.events);
    pthread_barrier_destroy(&burst);
}

/* A request and its free on the heap, 64 requests later, with sizes of all kinds: ns a call. */
static double heap_calls(stw_allocator *a, bool record)
{
    static void *held[64];
    static double times[BURSTS];
    uint64_t seed = 1;
    for (int b = 0; b < BURSTS; b++) {
        double t = clock_ns(CLOCK_THREAD_CPUTIME_ID);
        for (uint64_t i = 0; i < BURST / 2; i++) {
            size_t bytes = (1 + check_random(&seed) % 4000) * 512;
            void **p = &held[i % 64];
            if (record)
                stw_recorder_free(recorder, *p, 0);
            stw_free(a, *p);
            *p = stw_malloc(a, bytes, 0);
            if (record)
                stw_recorder_malloc(recorder, *p, bytes, 0, 0);
        }
        times[b] = (clock_ns(CLOCK_THREAD_CPUTIME_ID) - t) / BURST;
        usleep(record ? 20000 : 1000);
    }
    qsort(times, BURSTS, sizeof *times, by_value);
    return times[BURSTS / 2];
}

static void heap_rows(void)
{
    test_backend memory = {.bare = true};
    stw_backend backend = test_backend_make(&memory, true, 2 << 20);
    stw_allocator *a = NULL;
    CHECK_EQ(stw_create(&a, NULL, 0, NULL, &backend, NULL, 0), STW_OK);
    recorder = open_or_die(NULL);
    double plain = heap_calls(a, false), recorded = heap_calls(a, true);
    CHECK_EQ(stw_recorder_close(recorder, NULL, 0), 0);
    stw_destroy(a);
    printf("the heap's own calls: %.1f without, %.1f with recording: %.1f a call\n", plain, recorded, recorded - plain);
}

int main(void)
{
    if (!make_folder())
        return 1;
    printf("recording: CPU ns a call, over bursts of %d calls a thread      the recorder's  bytes\n", BURST);
    printf("%-44s %8s %8s %8s %8s %8s\n", "", "median", "90 %", "worst", "thread", "an event");
    row("1 thread, bursts", 1, 20000);
    row("2 threads, bursts", 2, 20000);
    row("4 threads, bursts", 4, 20000);
    row("1 thread without a rest", 1, 0);
    row("4 threads without a rest", 4, 0);
    heap_rows();
    remove_folder();
    return check_failed != 0;
}
