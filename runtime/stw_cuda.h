/* stw_cuda.h: device memory as an stw_backend, by the CUDA driver's API. The driver is loaded at run time
 * (dlopen): nothing of CUDA is needed to build, and a process that never asks for this backend never loads it.
 *
 *     stw_cuda_options o = {.device = 0, .primary = 1};
 *     stw_backend b;
 *     stw_backend_cuda(&b, &o, err, sizeof err);
 *     stw_create(&a, plan, bytes, &options, &b, err, sizeof err);
 *     …
 *     stw_destroy(a);
 *     stw_backend_cuda_close(&b);
 *
 * A backend serves one device and one allocator, whose lock makes its calls one at a time; a process may
 * have one for each device. Whatever context and stream capture mode the calling thread has, it has again
 * when a call returns. Memory of the backend must not be used by a child after fork().
 */
#ifndef STW_CUDA_H
#define STW_CUDA_H

#include "stw.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { STW_CUDA_PEERS = 64 };

/* What memory can be shared as with other processes: a property of the memory, chosen when it is made. */
typedef enum {
    STW_CUDA_SHARE_NONE = 0,
    STW_CUDA_SHARE_FD = 1,     /* a POSIX file descriptor for each granule */
    STW_CUDA_SHARE_FABRIC = 8, /* between the machines of an NVLink fabric; a descriptor where that is not permitted */
} stw_cuda_share;

/* Zeroed, it asks for device 0 in the context that is current. */
typedef struct {
    int device;         /* ordinal, as the driver counts: CUDA_VISIBLE_DEVICES applies */
    int primary;        /* 1: the device's primary context, as CUDA's runtime and PyTorch use, made if need be and held until
                         * close. 0: the context that is current in the calling thread, which must outlive the backend */
    int plain;          /* 1: no virtual memory management: every reservation is one cuMemAlloc, commit and decommit do nothing */
    size_t plain_bytes; /* plain: what a reservation larger than the device, such as a heap's, gets; 0: a sixteenth of the device */
    size_t granularity; /* bytes of one physical piece, a power of two and a multiple of the driver's least; 0: that least */
    stw_cuda_share share;
    int rdma;           /* 1: memory that network cards may reach, where the device can */
    int n_peers;        /* devices that may read and write the memory, too */
    int peers[STW_CUDA_PEERS];
    const char *library; /* the driver; NULL: libcuda.so.1 */
    /* Told, if not NULL, what the driver refused (a sentence, less and less often). Called under the allocator's
     * lock: it must not call back. */
    void (*say)(void *ctx, const char *text);
    void *say_ctx;
} stw_cuda_options;

/* Makes *out a backend. On failure *out is zeroed and, if err is not NULL, err[0..err_bytes) holds a sentence:
 * STW_E_ARG for an option that contradicts itself or the device, STW_E_DEVICE for a driver that is not there or
 * refuses, STW_E_MEMORY for want of host memory. The options are copied, the strings they point to are not kept.
 * Stream values that the backend is given are CUstream handles; 0 is the legacy default stream. They are asked for their state
 * later, too: a stream that an allocator was told of must exist as long as that does (PyTorch's own always do). Of one that does not,
 * and that the driver knows for one, memory does not change streams any more, and what it was told to use
 * (stw_record_stream) stays held back. */
STW_API stw_status stw_backend_cuda(stw_backend *out, const stw_cuda_options *options, char *err, size_t err_bytes);

/* Ends a backend whose allocator has been destroyed. Waits for the device. NULL and a zeroed backend are fine. */
STW_API void stw_backend_cuda_close(stw_backend *b);

#ifdef __cplusplus
}
#endif
#endif
