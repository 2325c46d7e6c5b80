/* libcuda_double_internal.h: what the two files of the double share. */
#ifndef LIBCUDA_DOUBLE_INTERNAL_H
#define LIBCUDA_DOUBLE_INTERNAL_H

#include "libcuda_double.h"
#include "../cuda_driver.h"

#pragma GCC diagnostic ignored "-Wmissing-prototypes" /* the entry points are the driver's, and so would be their header */
#pragma GCC visibility push(hidden)

enum { INVALID = 1, INVALID_CONTEXT = 201, INVALID_HANDLE = 400, CAPTURE_UNSUPPORTED = 900, CAPTURE_IMPLICIT = 906, MAX_DEVICES = 16, DEPTH = 16 };

typedef struct context {
    struct context *next;
    int device, retained;
    bool dead;
} context;

enum {
#define X(field, name, arguments) CALL_##field,
    CU_CALLS(X)
#undef X
    CALLS
};

extern double_config double_is;
extern double_live double_now;

int double_held(void); /* takes the lock */
void double_let_go(const int *);
cu_result double_entered(int call); /* counts the call; the answer of one that is to fail */
cu_result double_misuse(const char *call, const char *what, cu_result code);
context *double_top(void); /* what is current */
context *double_primary(void);
cu_result double_need_context(const char *call);
/* Whether a call that may depend on work may be made now. always: it may not, whatever the thread says. */
cu_result double_need_no_capture(const char *call, bool always);

void double_work_reset(void);
void double_work_forgive(void);
void double_run_all(void);
uint64_t double_stream(void);
void double_destroy_stream(uint64_t stream);
void double_launch(uint64_t stream, void *p, size_t n, uint8_t value, bool look);
bool double_progress(uint64_t *seed);
unsigned long double_wrong(void);
void double_capture(uint64_t stream);
bool double_capture_end(uint64_t stream);

/* Whether a kernel of the device may touch [p, p + n). */
bool double_usable(const char *p, size_t n, int device);
void double_memory_reset(void);
unsigned double_reach(const void *p);
int double_share(const void *p);
bool double_same(const void *p, const void *q);

#define TRY(expression)                               \
    do {                                              \
        cu_result r_ = (expression);                  \
        if (r_ != CU_OK)                              \
            return r_;                                \
    } while (0)
#define NEED(condition, call, what)                   \
    do {                                              \
        if (!(condition))                             \
            return double_misuse(call, what, INVALID); \
    } while (0)
/* How every entry point begins: until its end it has the lock; it may be one that is to fail. */
#define BEGIN(field)                                                            \
    __attribute__((cleanup(double_let_go))) const int held = double_held();     \
    (void)held;                                                                 \
    TRY(double_entered(CALL_##field))

#pragma GCC visibility pop
#endif
