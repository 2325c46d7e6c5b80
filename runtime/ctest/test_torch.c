/* test_torch.c: the plug-in without PyTorch: what it reads, what it refuses, devices, statistics, the canary, fork and exit.
 * A process is set up once, so each scene runs in a child of its own, spawned anew:
 * usage: test_torch [SCENE]
 */
#define _GNU_SOURCE
#include "../torch/process.h"
#include "check.h"
#include "libcuda_double.h"
#include "support.h"

#include <dlfcn.h>

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static jmp_buf thrown;
static char thrown_text[600], err[5000], text[5000];

/* In place of oom.cc, whose exception C could not catch. */
void stwt_throw_out_of_memory(const char *message)
{
    snprintf(thrown_text, sizeof thrown_text, "%s", message);
    longjmp(thrown, 1);
}

/* NULL where it threw. */
static void *ask(size_t size, int device)
{
    void *volatile p = NULL;
    thrown_text[0] = 0;
    if (setjmp(thrown) == 0)
        p = stw_torch_malloc(size, device, NULL);
    return p;
}

static int set_up(const char *mode, const char *plan, const char *conf)
{
    err[0] = 0;
    return stw_torch_setup(mode, plan, conf, err, sizeof err);
}

static long long counter(int device, const char *name)
{
    char key[100];
    size_t n = stw_torch_stats(device, text, sizeof text);
    CHECK_EQ(n, strlen(text));
    snprintf(key, sizeof key, "\"%s\":", name);
    const char *at = strstr(text, key);
    return at ? atoll(at + strlen(key)) : -1;
}

/* The file's text. */
static const char *read_back(const char *path)
{
    FILE *f = fopen(path, "r");
    size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    text[n] = 0;
    if (f)
        fclose(f);
    return text;
}

static char path[64];

static const char *plan_file(void)
{
    builder b = {0};
    size_t n;
    builder_stream(&b, 0, 0, 40);
    builder_entry(&b, builder_planned(&b, 0, 0, 20), 2);
    builder_entry(&b, builder_planned(&b, 0, 20, 20), 2);
    uint8_t *file = builder_finish(&b, &n);
    snprintf(path, sizeof path, "/tmp/test_torch.%d.plan", (int)getpid());
    FILE *f = fopen(path, "w");
    CHECK_EQ(fwrite(file, 1, n, f), n);
    fclose(f);
    free(file);
    return path;
}

static void scene_refused(void)
{
    const struct { const char *mode, *plan, *conf, *says; } bad[] = {
        {"fast", "", "", "fast"},
        {"plan", "", "", "path of a plan"},
        {"plan", "/nowhere/x.plan", "", "stweaver compile"},
        {"plan", "/dev/null", "", "empty"},
        {"plan", "/proc/self/exe", "", "plan"},
        {"heap", "", "colour:red", "there is no key \"colour\""},
        {"heap", "", "capacity", "not key:value"},
        {"heap", "", "capacity:80 GiB", "not a value for capacity"},
        {"heap", "", "capacity:-1", "not a value"},
        {"heap", "", "capacity:99999999T", "not a value"},
        {"heap", "", "backend:metal", "cuda or host"},
        {"heap", "", "report:yes", "not a value for report"},
        {"heap", "", "granularity:3M", "power of two"},
        {"heap", "", "log:/nowhere/x", "/nowhere/x"},
        {"record", "", "record:/nowhere/x", "/nowhere/x"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK_EQ(set_up(bad[i].mode, bad[i].plan, bad[i].conf), -1);
        if (!CHECK(strstr(err, bad[i].says) != NULL))
            printf("  %s\n", err);
    }
    CHECK_EQ(set_up("heap", "", "capacity:3MiB,granularity:4k,,report:0,"), 0);
    CHECK_EQ(set_up("heap", "", ""), -1); /* once */
    CHECK(strstr(err, "already") != NULL);
}

static void scene_calls(void)
{
    CHECK_EQ(set_up("heap", "", "capacity:3MiB,granularity:4KiB,backend:host,report:0,time:1,canary:1,log:/dev/null"), 0);
    CHECK_EQ(stw_torch_stats(0, text, sizeof text), 2);
    CHECK(strcmp(text, "{}") == 0);
    CHECK(ask(0, 0) == NULL && thrown_text[0] == 0);
    char *p = ask(1000, 0), *q = ask(1000, 1), *h = ask(5000, STW_TORCH_HOST);
    CHECK(p && q && h && p != q);
    size_t size = 7;
    CHECK(stw_torch_base_alloc(q, &size) == q);
    CHECK_EQ(size, 1024);
    CHECK(stw_torch_base_alloc(&size, &size) == &size);
    CHECK_EQ(size, 1024);
    CHECK(ask(4 << 20, 0) == NULL);
    CHECK(strncmp(thrown_text, "CUDA out of memory. Tried", 25) == 0);
    CHECK(ask(4 << 20, STW_TORCH_HOST) == NULL);
    CHECK(strncmp(thrown_text, "CPU out of memory. Tried", 24) == 0);
    CHECK(ask(1, STWT_DEVICES) == NULL && strstr(thrown_text, "device 64"));
    CHECK(ask(1, -2) == NULL && strstr(thrown_text, "device -2"));
    CHECK(ask(2 << 20, 0) != NULL); /* and goes on */
    stw_torch_record_stream(q, (void *)8);
    stw_torch_record_stream(&size, NULL);
    stw_torch_free(q, 5, 0, (void *)99); /* wrong in everything but the address */
    CHECK_EQ(counter(1, "live_bytes"), 0);
    CHECK_EQ(counter(1, "frees"), 1);
    stw_torch_free(q, 1000, 1, NULL);
    stw_torch_free(&size, 8, 0, NULL);
    stw_torch_free(NULL, 8, 0, NULL);
    CHECK_EQ(counter(0, "strangers"), 2);
    CHECK_EQ(stw_torch_release(&size, STW_TORCH_HOST), -1);
    CHECK_EQ(stw_torch_release(h, STW_TORCH_HOST), 0);
    stw_torch_reset_peaks(STW_TORCH_HOST);
    CHECK_EQ(counter(STW_TORCH_HOST, "peak_live_bytes"), 0);
    CHECK(counter(0, "ns_malloc") > 0 && counter(1, "ns_free") > 0);
    CHECK_EQ(counter(0, "canary_faults"), 0);
    CHECK_EQ(counter(0, "failed"), 1);
    CHECK(counter(1, "reserved_bytes") > 0);
    stw_torch_reset();
    CHECK_EQ(counter(1, "reserved_bytes"), 0);
    stw_torch_mark(STW_MARK_ITERATION, 3, NULL);
    stw_torch_mark(STW_MARK_PHASE, 0, "x");
    CHECK_EQ(stw_torch_report(5, text, sizeof text), 0);
    char tight[10];
    CHECK(stw_torch_stats(0, tight, sizeof tight) > sizeof tight && tight[9] == 0);
    CHECK_EQ(stw_torch_stats(0, NULL, 0), stw_torch_stats(0, text, sizeof text));
}

static void scene_plan(void)
{
    char log[80];
    plan_file();
    snprintf(log, sizeof log, "%s.log", path);
    snprintf(text, sizeof text, "backend:host,log:%s", log);
    CHECK_EQ(set_up("plan", path, text), 0);
    char *p = ask(20 * 512, 0), *q = ask(20 * 512, 0), *r = ask(20 * 512, 1);
    CHECK(p + 20 * 512 == q && r != NULL);
    CHECK_EQ(counter(0, "hits"), 2);
    CHECK_EQ(counter(1, "hits"), 0);
    stw_torch_close();
    stw_torch_close();
    read_back(log);
    CHECK(strstr(text, "stweaver cuda:1: the plan is another device's") != NULL);
    char *at = strstr(text, "stweaver cuda:0: plan      100.00 %");
    CHECK(at && !strstr(at + 1, "stweaver cuda:0: plan")); /* one report */
    unlink(log);
    unlink(path);
}

/* Everything that the environment can get wrong: said, and served by the heap. */
static void scene_environment(void)
{
    char log[80];
    snprintf(log, sizeof log, "/tmp/test_torch.%d.log", (int)getpid());
    snprintf(text, sizeof text, "backend:host,report:0,log:%s", log);
    setenv("STWEAVER_PLAN", "/nowhere/{rank}/{device}.plan", 1);
    setenv("RANK", "5", 1);
    setenv("STWEAVER_CONF", text, 1);
    char *p = ask(1000, 3);
    CHECK(p != NULL);
    CHECK_EQ(counter(3, "unknown"), 1);
    CHECK(strstr(read_back(log), "cuda:3: plan /nowhere/5/3.plan: cannot be opened") != NULL);
    CHECK(strstr(text, "going on without a plan") != NULL);
    CHECK_EQ(set_up("heap", "", ""), -1);
    unlink(log);
}

static void scene_bad_environment(void)
{
    setenv("STWEAVER_MODE", "fast", 1);
    setenv("STWEAVER_CONF", "report:0,bogus:1", 1);
    CHECK(ask(1000, STW_TORCH_HOST) != NULL);
    CHECK_EQ(counter(STW_TORCH_HOST, "unknown"), 1);
}

static void scene_canary(void)
{
    CHECK(stwt_canary_start() && stwt_canary_start());
    char *block = aligned_alloc(512, 8192);
    stwt_canary_taken(block, 1000, true);
    stwt_canary_taken(block + 1024, 1024, true);
    stwt_canary_given(block, 1024);
    stwt_canary_given(block + 1024, 1024);
    CHECK_EQ(stwt_canary_faults(), 0);
    stwt_canary_taken(block, 1000, true); /* one byte over the end */
    block[1001] ^= 1;
    stwt_canary_given(block, 1024);
    CHECK_EQ(stwt_canary_faults(), 1);
    stwt_canary_taken(block, 600, true); /* the memory went away and came back empty */
    memset(block, 0, 1024);
    stwt_canary_given(block, 1024);
    CHECK_EQ(stwt_canary_faults(), 2);
    stwt_canary_taken(block, 4096, true); /* two owners */
    stwt_canary_taken(block + 2048, 512, true);
    CHECK_EQ(stwt_canary_faults(), 3);
    stwt_canary_given(block, 4096);
    stwt_canary_given(block + 2048, 512); /* nobody's by now */
    CHECK_EQ(stwt_canary_faults(), 4);
    stwt_canary_taken(block + 1, 512, true); /* crooked */
    CHECK_EQ(stwt_canary_faults(), 5);
    free(block);
}

/* What a capture was served from is nobody else's before its graphs are gone. */
static void scene_pools(void)
{
    CHECK_EQ(set_up("heap", "", "backend:host,granularity:64K,report:0,canary:1"), 0);
    char *before = ask(1000, 0);
    stw_torch_begin_pool(0, 7, 1, NULL);
    char *kept = ask(3000, 0), *gone = ask(5000, 0);
    size_t size = 0;
    CHECK(stw_torch_base_alloc(kept, &size) == kept);
    CHECK_EQ(size, 3072);
    stw_torch_free(before, 1000, 0, NULL); /* not the pool's */
    stw_torch_free(gone, 5000, 0, NULL);
    CHECK(ask(5000, 0) == gone); /* the capture itself may use it again */
    stw_torch_free(gone, 5000, 0, NULL);
    stw_torch_end_pool(0, 7, 2); /* another's */
    CHECK(ask(5000, 0) == gone);
    stw_torch_free(gone, 5000, 0, NULL);
    stw_torch_end_pool(0, 7, 1);
    CHECK_EQ(counter(0, "pool_live_bytes"), 3072);
    CHECK_EQ(counter(0, "live_bytes"), 0);
    for (int i = 0; i < 200; i++) {
        char *p = ask(2000, 0);
        CHECK(p && (p + 2000 <= kept || p >= gone + 5120));
    }
    stw_torch_reset();
    CHECK(counter(0, "pool_reserved_bytes") >= 65536);
    stw_torch_begin_pool(0, 7, 1, NULL); /* a second graph in the same pool */
    CHECK(ask(5000, 0) == gone);
    stw_torch_end_pool(0, 7, 1);
    stw_torch_release_pool(0, 7, 1);
    stw_torch_release_pool(0, 9, 9);
    stw_torch_record_stream(kept, (void *)8);
    stw_torch_free(kept, 3000, 0, NULL);
    stw_torch_release_pool(0, 7, 1);
    CHECK_EQ(counter(0, "pool_live_bytes"), 5120); /* a tensor outlives its graph */
    stw_torch_free(gone, 5000, 1, NULL); /* of a device that is wrong */
    CHECK_EQ(counter(0, "pool_reserved_bytes"), 0);
    CHECK_EQ(counter(0, "strangers"), 0);
    CHECK_EQ(counter(0, "canary_faults"), 0);
    stw_torch_begin_pool(STW_TORCH_HOST, 1, 1, NULL);
    stw_torch_begin_pool(3, 1, 1, NULL); /* before the device's first request; released while it is open */
    CHECK(ask(100, 3) != NULL);
    stw_torch_release_pool(3, 1, 1);
    CHECK_EQ(counter(3, "pool_live_bytes"), 512);
    CHECK(ask(100, 3) != NULL);
    CHECK_EQ(counter(3, "live_bytes"), 512);
}

/* While a graph is captured on a device, nothing that waits for the device may be done to it: that breaks the capture. */
static void scene_capture(void)
{
    void *lib = dlopen("libcuda.so.1", RTLD_NOW);
    const double_api *gpu = lib ? dlsym(lib, "double_control") : NULL;
    if (!CHECK(gpu != NULL))
        return;
    gpu->reset(&(double_config){.devices = 1, .granularity = 2 << 20, .memory = 64 << 20});
    CHECK_EQ(set_up("heap", "", "backend:cuda,report:0,log:/dev/null"), 0);
    uint64_t usual = gpu->stream(), first = gpu->stream(), second = gpu->stream();
    void *idle = stw_torch_malloc(1000, 0, (void *)(uintptr_t)usual);
    stw_torch_begin_pool(0, 1, 1, NULL);
    gpu->capture(first);
    void *outlives = stw_torch_malloc(1000, 0, (void *)(uintptr_t)first);
    CHECK(gpu->capture_end(first));
    stw_torch_end_pool(0, 1, 1);
    stw_torch_begin_pool(0, 2, 2, NULL);
    gpu->capture(second);
    CHECK(stw_torch_malloc(1000, 0, (void *)(uintptr_t)second) != NULL);
    stw_torch_free(idle, 1000, 0, NULL);
    stw_torch_reset();
    stw_torch_memory_fraction(0.01, 0);
    stw_torch_release_pool(0, 1, 1);
    stw_torch_free(outlives, 1000, 0, NULL);
    CHECK(gpu->capture_end(second));
    CHECK_EQ(counter(0, "pool_reserved_bytes"), 4 << 20);
    stw_torch_end_pool(0, 2, 2);
    CHECK_EQ(counter(0, "pool_reserved_bytes"), 2 << 20); /* the first pool has ended now */
    stw_torch_reset();
    CHECK_EQ(counter(0, "reserved_bytes"), 0);
    CHECK_EQ(gpu->misuse(NULL), 0);
}

/* What the host's memory cannot, it need not. */
static void scene_stitch(void)
{
    CHECK_EQ(set_up("heap", "", "stitch:1G,report:0"), 0);
    CHECK(ask(1000, STW_TORCH_HOST) != NULL);
}

/* What a graph has used stays where it is, whatever its pool is asked for later. */
static void scene_pool_pressure(void)
{
    CHECK_EQ(set_up("heap", "", "backend:host,granularity:64K,report:0,capacity:4M"), 0);
    stw_torch_begin_pool(0, 7, 1, NULL);
    char *p = ask(1 << 20, 0), *q = ask(1 << 20, 0);
    stw_torch_free(p, 1 << 20, 0, NULL);
    CHECK(q && ask(5 << 19, 0) == NULL);
    CHECK_EQ(counter(0, "pool_reserved_bytes"), 2 << 20);
    CHECK(ask(1 << 20, 0) == p);
    stw_torch_end_pool(0, 7, 1);
}

/* The limit is the device's: what it holds itself, and all pools. */
static void scene_pool_capacity(void)
{
    CHECK_EQ(set_up("heap", "", "backend:host,granularity:64K,report:0,capacity:4M"), 0);
    CHECK(ask(1 << 20, 0) != NULL);
    stw_torch_begin_pool(0, 7, 1, NULL);
    char *p = ask(2 << 20, 0);
    CHECK(p && ask(3 << 19, 0) == NULL);
    stw_torch_end_pool(0, 7, 1);
    stw_torch_begin_pool(0, 7, 2, NULL);
    CHECK(ask(1 << 19, 0) && ask(1 << 20, 0) == NULL);
    stw_torch_end_pool(0, 7, 2);
    CHECK(ask(1 << 20, 0) == NULL && ask(1 << 19, 0) != NULL);
    stw_torch_begin_pool(0, 7, 1, NULL);
    CHECK(ask(1 << 16, 0) == NULL);
    stw_torch_end_pool(0, 7, 1);
    CHECK_EQ(counter(0, "reserved_bytes") + counter(0, "pool_reserved_bytes"), 4 << 20);
    stw_torch_memory_fraction(1, 0);
    CHECK(ask(1 << 16, 0) == NULL);
    stw_torch_release_pool(0, 7, 1);
    stw_torch_release_pool(0, 7, 1);
    stw_torch_free(p, 2 << 20, 0, NULL);
    CHECK_EQ(counter(0, "pool_reserved_bytes"), 1 << 19);
    CHECK(ask(2 << 20, 0) && ask(1 << 16, 0) == NULL);
}

static bool stop_forking;

static void *open_and_end_pools(void *arg)
{
    (void)arg;
    for (uint64_t i = 0; !__atomic_load_n(&stop_forking, __ATOMIC_RELAXED); i++) {
        stw_torch_begin_pool(0, 3, i, NULL);
        stw_torch_release_pool(0, 3, i);
        void *p = stw_torch_malloc(100, STW_TORCH_HOST, NULL);
        stw_torch_free(p, 100, STW_TORCH_HOST, NULL);
    }
    return NULL;
}

/* A fork while another thread is in the middle of it leaves no lock behind. */
static void scene_fork_busy(void)
{
    pthread_t thread;
    CHECK_EQ(set_up("heap", "", "backend:host,granularity:64K,report:0,canary:1"), 0);
    CHECK(ask(100, 0) != NULL);
    pthread_create(&thread, NULL, open_and_end_pools, NULL);
    for (int i = 0; i < (CHECK_SANITIZED ? 50 : 300); i++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(20);
            stw_torch_stats(0, NULL, 0);
            stw_torch_free(stw_torch_malloc(100, STW_TORCH_HOST, NULL), 100, STW_TORCH_HOST, NULL);
            _exit(0);
        }
        int status = -1;
        waitpid(child, &status, 0);
        if (!CHECK_EQ(status, 0))
            break;
    }
    __atomic_store_n(&stop_forking, true, __ATOMIC_RELAXED);
    pthread_join(thread, NULL);
}

/* A child of fork may use host memory, and its own copies of device tensors harm nobody. */
static void scene_fork(void)
{
    CHECK_EQ(set_up("heap", "", "backend:host,report:0"), 0);
    char *p = ask(1000, 0), *h = ask(1000, STW_TORCH_HOST);
    memset(h, 7, 1000);
    pid_t child = fork();
    if (child == 0) {
        stw_torch_free(p, 1000, 0, NULL);
        bool ok = counter(0, "live_bytes") == 1024 && ask(10, 0) == NULL && strstr(thrown_text, "forked") && h[999] == 7;
        stw_torch_record_stream(p, NULL);
        stw_torch_reset();
        char *more = ask(3000, STW_TORCH_HOST);
        ok = ok && more != NULL && stw_torch_release(h, STW_TORCH_HOST) == 0;
        exit(ok && check_failed == 0 ? 0 : 1);
    }
    int status;
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK_EQ(counter(STW_TORCH_HOST, "live_bytes"), 1024);
    stw_torch_free(p, 1000, 0, NULL);
    CHECK_EQ(counter(0, "live_bytes"), 0);
}

static void *worker(void *arg)
{
    uint64_t seed = (uint64_t)(uintptr_t)arg;
    void *live[32] = {0};
    int where[32] = {0};
    for (int i = 0; i < 4000; i++) {
        uint64_t r = check_random(&seed), k = r % 32;
        if (live[k])
            stw_torch_free(live[k], 0, where[k], NULL);
        where[k] = (int)((r >> 8) % 2) - 1; /* the host, and a device: heaps are large, and TSan leaves 1.5 TiB */
        live[k] = stw_torch_malloc(1 + (r >> 16) % 100000, where[k], NULL);
        if (r % 64 == 0)
            stw_torch_record_stream(live[k], (void *)16);
        if (r % 512 == 1)
            stw_torch_stats(0, NULL, 0);
        if (r % 512 == 2)
            stw_torch_reset();
        if ((uintptr_t)arg == 1 && i % 400 == 100)
            stw_torch_begin_pool(0, 1, (uint64_t)i, NULL);
        if ((uintptr_t)arg == 1 && i % 400 == 300) {
            stw_torch_end_pool(0, 1, (uint64_t)i - 200);
            stw_torch_release_pool(0, 1, (uint64_t)i - 200);
        }
    }
    for (int k = 0; k < 32; k++)
        stw_torch_free(live[k], 0, where[k], NULL);
    return NULL;
}

/* First requests at once, captures beside other threads' requests. */
static void scene_threads(void)
{
    pthread_t threads[4];
    setenv("STWEAVER_CONF", "backend:host,granularity:64K,report:0,canary:1,time:1", 1);
    for (uintptr_t i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, worker, (void *)(i + 1));
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    for (int i = -1; i < 1; i++) {
        CHECK_EQ(counter(i, "live_bytes"), 0);
        CHECK_EQ(counter(i, "bad_free"), 0);
    }
    CHECK_EQ(counter(0, "pool_reserved_bytes"), 0);
    CHECK_EQ(counter(0, "strangers"), 0);
    CHECK_EQ(counter(0, "canary_faults"), 0);
}

static char *late;

static void after_the_end(void) /* registered first, so it runs last */
{
    stw_torch_free(late, 1000, 0, NULL);
    bool ok = ask(1000, 0) == NULL && thrown_text[0] == 0 && ask(1000, STW_TORCH_HOST) != NULL;
    if (!ok)
        _exit(1);
}

static void scene_exit(void)
{
    atexit(after_the_end);
    CHECK_EQ(set_up("heap", "", "backend:host,log:/dev/null"), 0);
    late = ask(1000, 0);
    CHECK(late != NULL);
}

static void scene_record(void)
{
    char file[80], conf[200];
    snprintf(file, sizeof file, "/tmp/test_torch.%d.0.stwp", (int)getpid());
    snprintf(conf, sizeof conf, "backend:host,report:0,record:/tmp/test_torch.%d.{rank}.stwp", (int)getpid());
    unsetenv("RANK");
    CHECK_EQ(set_up("record", "", conf), 0);
    void *p = ask(1000, 2);
    stw_torch_mark(STW_RECORD_PHASE, 0, "a phase of the program");
    stw_torch_free(p, 0, 2, NULL);
    CHECK(access(file, F_OK) != 0);
    stw_torch_close();
    FILE *f = fopen(file, "r");
    CHECK(f != NULL && fread(text, 1, sizeof text, f) > 100);
    CHECK(memmem(text, sizeof text, "a phase of the program", 22) != NULL);
    CHECK(ask(1000, 2) != NULL); /* served, and not recorded */
    fclose(f);
    unlink(file);
}

static const struct { const char *name; void (*run)(void); } scenes[] = {
    {"refused", scene_refused}, {"calls", scene_calls}, {"plan", scene_plan}, {"environment", scene_environment},
    {"bad_environment", scene_bad_environment}, {"canary", scene_canary}, {"pools", scene_pools}, {"capture", scene_capture}, {"stitch", scene_stitch}, {"pool_pressure", scene_pool_pressure}, {"pool_capacity", scene_pool_capacity}, {"fork_busy", scene_fork_busy}, {"threads", scene_threads}, {"fork", scene_fork}, {"exit", scene_exit},
    {"record", scene_record}};

int main(int argc, char **argv)
{
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++) {
        if (argc > 1 && strcmp(argv[1], scenes[i].name) == 0) {
            scenes[i].run();
            return check_end(argv[1]);
        }
        pid_t child = argc > 1 ? -1 : fork();
        if (child == 0) {
            execl("/proc/self/exe", argv[0], scenes[i].name, (char *)NULL);
            _exit(127);
        }
        int status = 0;
        if (child > 0 && waitpid(child, &status, 0) == child && !CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0))
            printf("  scene %s: status %#x\n", scenes[i].name, (unsigned)status);
    }
    return argc > 1 ? 2 : check_end("test_torch");
}
