/* conf.h: what the user asked for (conf.c), and the plug-in's inner interfaces. */
#ifndef STW_TORCH_CONF_H
#define STW_TORCH_CONF_H

#include "stw_torch.h"

#include <stdbool.h>

#pragma GCC visibility push(hidden)

#define STWT_PATH 4096 /* bytes of a path */
enum { STWT_OFF, STWT_RECORD, STWT_HEAP, STWT_PLAN };
enum { STWT_BACKEND_AUTO, STWT_BACKEND_CUDA, STWT_BACKEND_HOST };

typedef struct {
    int mode, backend;
    char plan[STWT_PATH], record[STWT_PATH], log[STWT_PATH], library[STWT_PATH]; /* "": none. {rank} is replaced, {device} is not yet */
    uint64_t capacity, headroom, granularity, stitch; /* bytes; 0: not said */
    bool report, canary, plain, time;
} stwt_conf;

/* Reads mode, plan and conf, NULL standing for the environment's. False: a sentence in err. */
bool stwt_conf_read(stwt_conf *out, const char *mode, const char *plan, const char *conf, char *err, size_t err_bytes);
/* out = path with every `{name}` replaced by the number; false: longer than out. */
bool stwt_replace(char out[STWT_PATH], const char *path, const char *name, int value);

/* canary.c: an independent record of who has which memory, and a pattern behind each block. */
bool stwt_canary_start(void);                                /* false: no address space for it */
void stwt_canary_in_child(void); /* after fork: nobody is in there */
void stwt_canary_taken(void *p, size_t size, bool writable); /* handed out; writable: the host may write to it */
void stwt_canary_given(void *p, size_t rounded);             /* about to be freed, of `rounded` bytes */
uint64_t stwt_canary_faults(void);

/* oom.cc: throws. */
_Noreturn void stwt_throw_out_of_memory(const char *message);

#pragma GCC visibility pop

#endif
