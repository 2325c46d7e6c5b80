/* cuda_driver.h: the part of the CUDA driver's interface that backend_cuda.c uses, declared here so that no
 * header of CUDA is needed, and how it is called. Not installed. Names without a suffix are the only version of
 * their function; the others are the versions of CUDA 4.0 (cuMemAlloc_v2, …) and 11.0 (cuDevicePrimaryCtxRelease_v2),
 * which every driver since has. The oldest driver that has all of them is that of CUDA 11.0.
 */
#ifndef STW_CUDA_DRIVER_H
#define STW_CUDA_DRIVER_H

#include "stw_cuda.h"

#include <stdbool.h>

#pragma GCC visibility push(hidden)

typedef int cu_result, cu_device;
typedef void *cu_context, *cu_stream, *cu_event;
typedef unsigned long long cu_ptr, cu_handle;

enum { /* CUresult */
    CU_OK = 0,
    CU_OUT_OF_MEMORY = 2,
    CU_NOT_INITIALIZED = 3, /* also: in a child after fork */
    CU_DEINITIALIZED = 4,   /* the process is ending */
    CU_INVALID_HANDLE = 400,
    CU_NOT_READY = 600,
    CU_CONTEXT_IS_DESTROYED = 709,
    CU_NOT_PERMITTED = 800,
    CU_NOT_SUPPORTED = 801,
};

enum { /* CUdevice_attribute */
    CU_HAS_VMM = 102,
    CU_HAS_SHARE_FD = 103,
    CU_HAS_RDMA = 110,
    CU_HAS_SHARE_FABRIC = 128,
};

enum { CU_PINNED = 1, CU_ON_DEVICE = 1, CU_READ_WRITE = 3, CU_GRANULARITY_LEAST = 0, CU_NO_TIMING = 2, CU_CAPTURE_NONE = 0, CU_RELAXED = 2 };

typedef struct { /* CUmemLocation */
    int type, id;
} cu_location;

typedef struct { /* CUmemAllocationProp */
    int type, share;
    cu_location location;
    void *win32;
    unsigned char compression, rdma;
    unsigned short usage;
    unsigned char reserved[4];
} cu_prop;

typedef struct { /* CUmemAccessDesc */
    cu_location location;
    int access;
} cu_access;

/* field, exported name, arguments */
#define CU_CALLS(X)                                                                              \
    X(init, "cuInit", (unsigned flags))                                                          \
    X(error_name, "cuGetErrorName", (cu_result, const char **))                                  \
    X(error_string, "cuGetErrorString", (cu_result, const char **))                              \
    X(device_count, "cuDeviceGetCount", (int *))                                                 \
    X(device, "cuDeviceGet", (cu_device *, int ordinal))                                         \
    X(device_attribute, "cuDeviceGetAttribute", (int *, int attribute, cu_device))               \
    X(device_memory, "cuDeviceTotalMem_v2", (size_t *, cu_device))                               \
    X(device_reaches, "cuDeviceCanAccessPeer", (int *, cu_device from, cu_device to))            \
    X(primary_retain, "cuDevicePrimaryCtxRetain", (cu_context *, cu_device))                     \
    X(primary_release, "cuDevicePrimaryCtxRelease_v2", (cu_device))                              \
    X(context, "cuCtxGetCurrent", (cu_context *))                                                \
    X(context_device, "cuCtxGetDevice", (cu_device *))                                           \
    X(push, "cuCtxPushCurrent_v2", (cu_context))                                                 \
    X(pop, "cuCtxPopCurrent_v2", (cu_context *))                                                 \
    X(synchronize, "cuCtxSynchronize", (void))                                                   \
    X(capture_mode, "cuThreadExchangeStreamCaptureMode", (int *mode))                            \
    X(is_capturing, "cuStreamIsCapturing", (cu_stream, int *status))                             \
    X(granularity, "cuMemGetAllocationGranularity", (size_t *, const cu_prop *, int which))      \
    X(reserve, "cuMemAddressReserve", (cu_ptr *, size_t bytes, size_t align, cu_ptr hint, unsigned long long flags)) \
    X(unreserve, "cuMemAddressFree", (cu_ptr, size_t bytes))                                     \
    X(create, "cuMemCreate", (cu_handle *, size_t bytes, const cu_prop *, unsigned long long flags)) \
    X(release, "cuMemRelease", (cu_handle))                                                      \
    X(map, "cuMemMap", (cu_ptr, size_t bytes, size_t offset, cu_handle, unsigned long long flags)) \
    X(unmap, "cuMemUnmap", (cu_ptr, size_t bytes))                                               \
    X(set_access, "cuMemSetAccess", (cu_ptr, size_t bytes, const cu_access *, size_t n))         \
    X(alloc, "cuMemAlloc_v2", (cu_ptr *, size_t bytes))                                          \
    X(free, "cuMemFree_v2", (cu_ptr))                                                            \
    X(event_create, "cuEventCreate", (cu_event *, unsigned flags))                               \
    X(event_destroy, "cuEventDestroy_v2", (cu_event))                                            \
    X(event_record, "cuEventRecord", (cu_event, cu_stream))                                      \
    X(event_query, "cuEventQuery", (cu_event))                                                   \
    X(stream_wait, "cuStreamWaitEvent", (cu_stream, cu_event, unsigned flags))

typedef struct {
#define X(field, name, arguments) cu_result(*field) arguments;
    CU_CALLS(X)
#undef X
} cu_driver;

/* Address space, and what it is mapped to. */
typedef struct cu_range cu_range;

/* A backend's state. */
typedef struct {
    cu_driver cu;
    cu_context context;
    cu_device device;
    int ordinal;
    bool primary, plain;
    bool gone; /* the driver says that it, or the context, is no more: nor is any memory */
    size_t granule, total_bytes, plain_bytes;
    cu_prop prop;
    cu_access access[STW_CUDA_PEERS + 1];
    size_t n_access;
    cu_range *ranges;
    cu_event *idle; /* a stack of events that nobody uses, with room for all there are */
    size_t n_idle, n_events, events_bytes;
    void (*say)(void *ctx, const char *text);
    void *say_ctx;
    unsigned long refused; /* calls that failed */
    char trouble[256];     /* what was said of the last one */
} cuda;

/* What enter changed in the calling thread. */
typedef struct {
    bool pushed, relaxed;
    int mode;
} cuda_scope;

/* Fills in c->cu. False: a sentence is in c->trouble. */
bool stwi_cuda_load(cuda *c, const char *library);
/* Whether result is success; else notes which call failed, and says so. */
bool stwi_cuda_ok(cuda *c, cu_result result, const char *call);
/* Makes the backend's context current, and allows what a stream capture elsewhere in the process would forbid.
 * False: it could not, and nothing is changed. */
bool stwi_cuda_enter(cuda *c, cuda_scope *s);
void stwi_cuda_leave(cuda *c, const cuda_scope *s);
/* Says a sentence: the first, the second, the fourth, … of those that failed. */
void stwi_cuda_say(cuda *c, const char *text);

/* Fill in the functions, and end what they have made: entered says whether the backend's context could be entered. */
void stwi_cuda_memory(stw_backend *b, bool plain); /* backend_cuda.c */
void stwi_cuda_memory_drop(cuda *c, bool entered);
void stwi_cuda_events(stw_backend *b); /* cuda_events.c */
void stwi_cuda_events_drop(cuda *c, bool entered);

#pragma GCC visibility pop
#endif
