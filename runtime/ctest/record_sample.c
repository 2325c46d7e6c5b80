/* record_sample.c: writes testdata/profiles/toy_gpt.stwp (make sample-recording): the requests of a made-up training
 * loop, as a program would record them that runs on the heap. Addresses come from a backend without memory, so
 * the file is the same every time.
 *
 * Six iterations of a decoder with eight blocks, recomputed in the backward pass in pairs. On the main stream: weights, gradients,
 * optimizer state, saved and passing activations, some of varying size. On a second stream: gradients on their way to
 * other ranks, made on the main one, which have record_stream on them.
 */
#include "../stw_record.h"
#include "check.h"
#include "support.h"

#include <stdlib.h>

enum { BLOCKS = 8, ITERATIONS = 6, PARTS = 4, COMMUNICATION = 7 };

#define MIB ((size_t)1 << 20)

static stw_allocator *allocator;
static stw_recorder *recorder;

static void *get(size_t bytes, uint64_t stream)
{
    void *p = stw_malloc(allocator, bytes, stream);
    stw_recorder_malloc(recorder, p, bytes, 0, stream);
    return p;
}

static void put(void *p)
{
    stw_recorder_free(recorder, p, 0);
    stw_free(allocator, p);
}

static void phase(const char *name)
{
    stw_recorder_mark(recorder, STW_RECORD_PHASE, 0, name);
}

static const size_t weight[PARTS] = {24 * MIB, 8 * MIB, 32 * MIB, 32 * MIB}; /* qkv, out, up, down */
static const size_t activation[PARTS] = {48 * MIB, 16 * MIB, 64 * MIB, 16 * MIB};

/* A block's forward pass; keeps what the backward pass needs, where `saved` is not null. */
static void *forward(void *input, int block, void *saved[PARTS], uint64_t *seed)
{
    char name[16];
    snprintf(name, sizeof name, "block%d", block);
    stw_recorder_mark(recorder, STW_RECORD_ENTER, 0, name);
    for (int i = 0; i < PARTS; i++) {
        void *norm = get(16 * MIB, 0), *work = get(MIB + check_random(seed) % 4096 * 512, 0);
        void *out = get(activation[i], 0);
        put(work);
        put(norm);
        if (saved)
            saved[i] = out;
        else
            put(out);
    }
    void *output = get(16 * MIB, 0);
    (void)input;
    stw_recorder_mark(recorder, STW_RECORD_LEAVE, 0, name);
    return output;
}

static void backward(void *saved[PARTS], void *gradient[PARTS])
{
    void *passing = get(16 * MIB, 0);
    for (int i = PARTS - 1; i >= 0; i--) {
        void *grad_out = get(activation[i], 0), *bucket = get(weight[i], 0), *next = get(16 * MIB, 0);
        put(saved[i]);
        put(grad_out);
        put(passing);
        passing = next;
        stw_recorder_record_stream(recorder, bucket, 0, COMMUNICATION);
        gradient[i] = get(weight[i] / 8, COMMUNICATION);
        put(bucket);
    }
    put(passing);
}

static void iteration(void *weights[BLOCKS][PARTS], void *state[BLOCKS][PARTS], uint64_t *seed)
{
    void *saved[2][PARTS], *kept[BLOCKS / 2 + 1], *gradient[BLOCKS][PARTS];
    (void)weights;
    phase("forward");
    kept[0] = get(16 * MIB, 0);
    for (int b = 0; b < BLOCKS; b += 2) {
        void *between = forward(kept[b / 2], b, NULL, seed);
        kept[b / 2 + 1] = forward(between, b + 1, NULL, seed);
        put(between);
    }
    void *logits = get(393 * MIB, 0), *loss = get(4, 0);
    phase("backward");
    put(logits);
    for (int b = BLOCKS - 2; b >= 0; b -= 2) {
        void *between = forward(kept[b / 2], b, saved[0], seed);
        put(forward(between, b + 1, saved[1], seed));
        backward(saved[1], gradient[b + 1]);
        put(between);
        backward(saved[0], gradient[b]);
        put(kept[b / 2 + 1]);
    }
    put(kept[0]);
    phase("optimizer");
    for (int b = 0; b < BLOCKS; b++)
        for (int i = 0; i < PARTS; i++) {
            if (!state[b][i])
                state[b][i] = get(weight[i] / 4, 0);
            void *update = get(weight[i] / 8, 0);
            put(update);
            put(gradient[b][i]);
        }
    put(loss);
}

int main(int argc, char **argv)
{
    static void *weights[BLOCKS][PARTS], *state[BLOCKS][PARTS];
    char err[300];
    test_backend memory = {.bare = true};
    stw_backend backend = test_backend_make(&memory, true, 2 << 20);
    if (argc != 2 || stw_create(&allocator, NULL, 0, NULL, &backend, err, sizeof err) != STW_OK)
        return 2;
    if (stw_recorder_open(&recorder, argv[1], &(stw_record_options){.allocator = "stweaver heap"}, err, sizeof err) != 0) {
        fprintf(stderr, "%s\n", err);
        return 1;
    }
    uint64_t seed = 2026;
    phase("initialisation");
    for (int b = 0; b < BLOCKS; b++)
        for (int i = 0; i < PARTS; i++)
            weights[b][i] = get(weight[i], 0);
    for (int k = 0; k < ITERATIONS; k++) {
        stw_recorder_mark(recorder, STW_RECORD_ITERATION, k, NULL);
        iteration(weights, state, &seed);
    }
    stw_recorder_mark(recorder, STW_RECORD_ITERATION, -1, NULL);
    stw_stats s;
    stw_get_stats(allocator, &s);
    stw_recorder_held(recorder, 0, s.peak_reserved_bytes);
    if (stw_recorder_close(recorder, err, sizeof err) != 0) {
        fprintf(stderr, "%s\n", err);
        return 1;
    }
    stw_destroy(allocator);
    return 0;
}
