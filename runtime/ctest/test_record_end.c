/* test_record_end.c: what is left of a recording that ends before its time: by a full disk, a dead thread, exit,
 * a signal; and what a fork does to it. Always a prefix of the events, and the number of the rest.
 */
#define _GNU_SOURCE
#include "record_file.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static int told;
static char told_text[300];

static void hear(void *ctx, const char *text)
{
    (void)ctx;
    told++;
    snprintf(told_text, sizeof told_text, "%s", text);
}

static void counts_up(void *ctx, const event *e)
{
    uint64_t *n = ctx;
    CHECK(e->kind == STW_RECORD_MALLOC && e->v == ++*n);
}

/* Records n events; the file must hold a prefix, and the trailer, where there is one, the rest's number. */
static void ends_early(const stw_record_options *o, uint64_t n, uint32_t reason, bool may_lack_trailer)
{
    stw_recorder *r = open_or_die(o);
    for (uint64_t i = 1; i <= n; i++)
        stw_recorder_malloc(r, at(i), 512, 0, 0);
    char err[400];
    int result = stw_recorder_finish(r, err, sizeof err);
    stw_record_stats stats;
    stw_recorder_get_stats(r, &stats);
    CHECK_EQ(result, -1);
    CHECK(stats.reason == reason && stats.events + stats.lost == n);
    CHECK_EQ(told, 1);
    CHECK(strcmp(err, told_text) == 0 && strstr(err, path) != NULL);
    CHECK_EQ(stw_recorder_close(r, NULL, 0), -1);
    CHECK_EQ(told, 1);
    file f;
    uint64_t got = 0;
    bool named = access(path, F_OK) == 0;
    CHECK(named || may_lack_trailer);
    each(&f, named ? path : part, counts_up, &got);
    CHECK_EQ(got, stats.events);
    if (named)
        CHECK(f.whole && f.end.reason == reason && f.end.lost == n - got);
    drop(&f);
    unlink(path);
    unlink(part);
    told = 0;
}

/* The disk is full after `bytes`: at every byte of header, first blocks and trailer. */
static void disk_full(void)
{
    const stw_record_options o = {.say = hear, .ring_slots = 256};
    for (size_t bytes = 0; bytes < 2400; bytes += bytes < 200 ? 1 : 13) {
        struct rlimit before, limit;
        getrlimit(RLIMIT_FSIZE, &before);
        limit = (struct rlimit){bytes, before.rlim_max};
        setrlimit(RLIMIT_FSIZE, &limit);
        if (bytes < sizeof(stw_record_header)) {
            stw_recorder *r = NULL;
            char err[300];
            signal(SIGXFSZ, SIG_IGN); /* here the caller's own thread writes */
            CHECK_EQ(stw_recorder_open(&r, path, &o, err, sizeof err), -1);
            signal(SIGXFSZ, SIG_DFL);
            CHECK(r == NULL && strstr(err, "cannot write") != NULL && access(part, F_OK) != 0);
        } else {
            ends_early(&o, 200, STW_RECORD_IO, true);
        }
        setrlimit(RLIMIT_FSIZE, &before);
    }
}

static void file_limit(void)
{
    for (uint64_t n = 1; n < 400000; n = 3 * n + 1) {
        ends_early(&(stw_record_options){.say = hear, .max_bytes = 120}, n, STW_RECORD_FULL, false);
        if (n > 9000)
            ends_early(&(stw_record_options){.say = hear, .max_bytes = 100000}, n, STW_RECORD_FULL, false);
    }
}

/* A thread died between its ticket and its event: the writer must not wait for ever, nor the others. */
static void dead_thread(void)
{
    const stw_record_options o = {.say = hear, .ring_slots = 64, .patience_ms = 20};
    for (uint64_t more = 0; more <= 200; more += 40) {
        stw_recorder *r = open_or_die(&o);
        for (uint64_t i = 1; i <= 100; i++)
            stw_recorder_malloc(r, at(i), 512, 0, 0);
        __atomic_fetch_add(&r->head, 1, __ATOMIC_RELAXED);
        for (uint64_t i = 0; i < more; i++)
            stw_recorder_malloc(r, at(1000 + i), 512, 0, 0);
        CHECK_EQ(stw_recorder_close(r, NULL, 0), -1);
        CHECK_EQ(told, 1);
        told = 0;
        uint64_t got = 0;
        file f;
        each(&f, path, counts_up, &got);
        CHECK(f.whole && f.end.reason == STW_RECORD_SLOW);
        CHECK_EQ(got, 100);
        CHECK_EQ(f.end.lost, more);
        drop(&f);
    }
}

/* ---- misuse, fork, exit ---- */

static void refused(void)
{
    char err[300], longer[STW_RECORD_PATH + 1];
    stw_recorder *r, *other = open_or_die(NULL);
    CHECK_EQ(stw_recorder_open(NULL, path, NULL, err, sizeof err), -1);
    CHECK_EQ(stw_recorder_open(&r, "", NULL, err, sizeof err), -1);
    CHECK_EQ(stw_recorder_open(&r, NULL, NULL, NULL, 0), -1);
    CHECK_EQ(stw_recorder_open(&r, path, &(stw_record_options){.ring_slots = 96}, err, sizeof err), -1);
    CHECK_EQ(stw_recorder_open(&r, "/nowhere/at/all.stwp", NULL, err, sizeof err), -1);
    CHECK(strcmp(err, "record: cannot create /nowhere/at/all.stwp.part: No such file or directory") == 0);
    memset(longer, 'x', sizeof longer);
    longer[STW_RECORD_PATH] = 0;
    CHECK_EQ(stw_recorder_open(&r, longer, NULL, err, sizeof err), -1);
    CHECK_EQ(stw_recorder_open(&r, path, NULL, err, sizeof err), -1);
    CHECK(r == NULL && strstr(err, "another recorder is writing this file") != NULL);
    CHECK_EQ(stw_recorder_open(&r, folder, NULL, err, sizeof err), -1);
    CHECK(strstr(err, "a directory: ") != NULL);
    stw_recorder_malloc(other, at(1), 1, 0, 0);
    CHECK_EQ(stw_recorder_finish(other, NULL, 0), 0);
    stw_recorder_malloc(other, at(2), 1, 0, 0);
    stw_recorder_mark(other, STW_RECORD_PHASE, 0, "late");
    CHECK_EQ(stw_recorder_finish(other, NULL, 0), 0);
    stw_record_stats stats;
    stw_recorder_get_stats(other, &stats);
    CHECK(stats.events == 1 && stats.lost == 0 && stats.reason == STW_RECORD_CLOSED);
    CHECK_EQ(stw_recorder_close(other, NULL, 0), 0);
    CHECK_EQ(unlink(path), 0);
    other = open_or_die(&(stw_record_options){.say = hear});
    CHECK_EQ(mkdir(path, 0700), 0);
    CHECK_EQ(stw_recorder_close(other, err, sizeof err), -1);
    CHECK(told == 1 && strstr(err, "which cannot be renamed to ") != NULL && access(part, F_OK) == 0);
    told = 0;
    rmdir(path);
    unlink(part);
    CHECK_EQ(mkfifo(part, 0600), 0);
    CHECK_EQ(stw_recorder_open(&r, path, NULL, err, sizeof err), -1);
    CHECK(strstr(err, "not a regular file") != NULL);
    unlink(part);
    stw_recorder_malloc(NULL, at(1), 1, 0, 0);
    stw_recorder_free(NULL, at(1), 0);
    stw_recorder_mark(NULL, STW_RECORD_PHASE, 0, "x");
    stw_recorder_held(NULL, 0, 1);
    stw_recorder_record_stream(NULL, at(1), 0, 1);
    CHECK_EQ(stw_recorder_finish(NULL, NULL, 0), 0);
    CHECK_EQ(stw_recorder_close(NULL, NULL, 0), 0);
}

static int wait_for(pid_t child)
{
    int status = -1;
    CHECK_EQ(waitpid(child, &status, 0), child);
    return status;
}

static void forked(void)
{
    enum { N = 50000 };
    stw_recorder *r = open_or_die(&(stw_record_options){.ring_slots = 1024});
    for (uint64_t i = 1; i <= N; i++) {
        stw_recorder_malloc(r, at(i), 512, 0, 0);
        if (i % (N / 4) == 0) {
            fflush(NULL);
            pid_t child = fork();
            if (child == 0) {
                for (uint64_t k = 0; k < 3000; k++) /* more than the ring holds */
                    stw_recorder_malloc(r, at(999), 512, 0, 0);
                stw_record_stats stats;
                stw_recorder_get_stats(r, &stats);
                int result = (int)stats.reason; /* not that the ring was full for too long */
                if (i != N)
                    result |= stw_recorder_close(r, NULL, 0);
                if (i == N / 2 || CHECK_SANITIZED) /* the leak sanitizer looks for the parent's threads */
                    _exit(result);
                exit(result);
            }
            CHECK_EQ(wait_for(child), 0);
        }
    }
    if (!CHECK_SANITIZED) { /* a child that the C library knows nothing of */
        pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
        if (child == 0) {
            stw_recorder_malloc(r, at(999), 512, 0, 0);
            exit(stw_recorder_close(r, NULL, 0));
        }
        CHECK_EQ(wait_for(child), 0);
    }
    CHECK_EQ(stw_recorder_close(r, NULL, 0), 0);
    uint64_t got = 0;
    file f;
    each(&f, path, counts_up, &got);
    CHECK(f.whole);
    CHECK_EQ(got, N);
    drop(&f);
}

/* How a process may end without closing: 0 exit, 1 _exit, 2 killed. */
static void ends_without_close(int how)
{
    enum { N = 100000 };
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        stw_recorder *r = open_or_die(NULL);
        for (uint64_t i = 1; i <= N; i++)
            stw_recorder_malloc(r, at(i), 512, 0, 0);
        if (how == 0)
            exit(check_failed != 0);
        usleep(700000); /* what is older than the writer's period is in the file */
        if (how == 1)
            _exit(check_failed != 0);
        raise(SIGKILL);
    }
    int status = wait_for(child);
    CHECK(how == 2 ? WIFSIGNALED(status) : status == 0);
    uint64_t got = 0;
    file f;
    each(&f, how == 0 ? path : part, counts_up, &got);
    CHECK_EQ(f.whole, how == 0);
    CHECK_EQ(got, N);
    drop(&f);
    unlink(path);
    unlink(part);
}

/* A process that is stopped for longer than its patience goes on recording. */
static void stopped(void)
{
    enum { N = 200000 };
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        stw_recorder *r = open_or_die(&(stw_record_options){.ring_slots = 64, .patience_ms = 200});
        for (uint64_t i = 1; i <= N; i++)
            stw_recorder_malloc(r, at(i), 512, 0, 0);
        _exit(stw_recorder_close(r, NULL, 0) != 0);
    }
    for (int i = 0; i < 2; i++) {
        usleep(20000);
        kill(child, SIGSTOP);
        usleep(500000);
        kill(child, SIGCONT);
    }
    CHECK_EQ(wait_for(child), 0);
    uint64_t got = 0;
    file f;
    each(&f, path, counts_up, &got);
    CHECK(f.whole && f.end.lost == 0);
    CHECK_EQ(got, N);
    drop(&f);
    unlink(path);
}

int main(void)
{
    if (!make_folder())
        return 1;
    for (int how = 0; how < 3; how++)
        ends_without_close(how);
    stopped();
    refused();
    forked();
    unlink(path);
    file_limit();
    disk_full();
    dead_thread();
    remove_folder();
    return check_end("test_record_end");
}
