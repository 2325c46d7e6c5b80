/* cuda_open.c: making a backend for a device, and its end. Everything that can be asked in advance is asked here, so
 * that a wrong wish is refused with a sentence and not met by the first request.
 */
#include "cuda_driver.h"
#include "stw_internal.h"

#include <stdio.h>

static stw_status fail(cuda *c, stw_status status, char *err, size_t err_bytes)
{
    if (err && err_bytes)
        snprintf(err, err_bytes, "%s", c->trouble);
    if (c->primary && !c->gone)
        c->cu.primary_release(c->device);
    stwi_unmap(c, sizeof *c);
    return status;
}

#define TROUBLE(c, ...) (snprintf((c)->trouble, sizeof(c)->trouble, __VA_ARGS__), false)

static bool attribute(cuda *c, int which)
{
    int v = 0;
    return stwi_cuda_ok(c, c->cu.device_attribute(&v, which, c->device), "cuDeviceGetAttribute") && v != 0;
}

/* The device and its context. False, and no words: the device is not there. */
static bool open_device(cuda *c, const stw_cuda_options *o)
{
    int n = 0;
    if (!stwi_cuda_ok(c, c->cu.init(0), "cuInit") || !stwi_cuda_ok(c, c->cu.device_count(&n), "cuDeviceGetCount"))
        return false;
    if (o->device < 0 || o->device >= n)
        return TROUBLE(c, "cuda: device %d was asked for, and there are %d", o->device, n);
    if (!stwi_cuda_ok(c, c->cu.device(&c->device, o->device), "cuDeviceGet") ||
        !stwi_cuda_ok(c, c->cu.device_memory(&c->total_bytes, c->device), "cuDeviceTotalMem"))
        return false;
    if (o->primary)
        return c->primary = stwi_cuda_ok(c, c->cu.primary_retain(&c->context, c->device), "cuDevicePrimaryCtxRetain");
    cu_device current = -1;
    if (!stwi_cuda_ok(c, c->cu.context(&c->context), "cuCtxGetCurrent"))
        return false;
    if (!c->context)
        return TROUBLE(c, "cuda device %d: no context is current in this thread; make one current, or ask for the primary one", o->device);
    if (!stwi_cuda_ok(c, c->cu.context_device(&current), "cuCtxGetDevice"))
        return false;
    return current == c->device || TROUBLE(c, "cuda device %d: the context that is current is another device's", o->device);
}

/* What memory will be like, and who may use it. */
static bool choose_memory(cuda *c, const stw_cuda_options *o, stw_status *status)
{
    *status = STW_E_DEVICE;
    c->prop = (cu_prop){.type = CU_PINNED, .share = o->share, .location = {CU_ON_DEVICE, c->device}};
    c->access[c->n_access++] = (cu_access){c->prop.location, CU_READ_WRITE};
    if (o->plain) {
        c->granule = o->granularity ? o->granularity : (size_t)2 << 20;
        return true;
    }
    if (!attribute(c, CU_HAS_VMM))
        return TROUBLE(c, "cuda device %d has no virtual memory management (a virtual machine's?); ask for plain memory", o->device);
    if (o->share == STW_CUDA_SHARE_FABRIC && !attribute(c, CU_HAS_SHARE_FABRIC))
        c->prop.share = STW_CUDA_SHARE_FD;
    if (c->prop.share == STW_CUDA_SHARE_FD && !attribute(c, CU_HAS_SHARE_FD))
        return TROUBLE(c, "cuda device %d cannot share memory as file descriptors", o->device);
    c->prop.rdma = o->rdma && attribute(c, CU_HAS_RDMA);
    for (int i = 0; i < o->n_peers; i++) {
        int can = 0;
        cu_device peer;
        if (!stwi_cuda_ok(c, c->cu.device(&peer, o->peers[i]), "cuDeviceGet") ||
            !stwi_cuda_ok(c, c->cu.device_reaches(&can, peer, c->device), "cuDeviceCanAccessPeer"))
            return false;
        if (!can)
            return TROUBLE(c, "cuda device %d cannot reach the memory of device %d", o->peers[i], o->device);
        c->access[c->n_access++] = (cu_access){{CU_ON_DEVICE, peer}, CU_READ_WRITE};
    }
    size_t least = 0;
    if (!stwi_cuda_ok(c, c->cu.granularity(&least, &c->prop, CU_GRANULARITY_LEAST), "cuMemGetAllocationGranularity"))
        return false;
    *status = STW_E_ARG;
    c->granule = o->granularity ? o->granularity : least;
    if (c->granule % least != 0)
        return TROUBLE(c, "cuda device %d: granularity %zu is not a multiple of the device's, %zu", o->device, c->granule, least);
    return true;
}

stw_status stw_backend_cuda(stw_backend *out, const stw_cuda_options *o, char *err, size_t err_bytes)
{
    if (out)
        *out = (stw_backend){0};
    const char *wrong = !out || !o                                                          ? "cuda: an argument is null"
                        : (o->granularity & (o->granularity - 1)) || o->granularity % 512 ? "cuda: granularity is not a power of two from 512 on"
                        : o->n_peers < 0 || o->n_peers > STW_CUDA_PEERS                    ? "cuda: more than 64 peers, or fewer than none"
                        : o->plain && (o->n_peers || o->share || o->rdma)
                            ? "cuda: plain memory has no peers, no shared handles and no RDMA flag of its own"
                            : NULL;
    cuda *c = wrong ? NULL : stwi_map(sizeof *c);
    if (!c) {
        if (err && err_bytes)
            snprintf(err, err_bytes, "%s", wrong ? wrong : "cuda: no memory for the backend's own records");
        return wrong ? STW_E_ARG : STW_E_MEMORY;
    }
    stw_status status = STW_E_DEVICE;
    cuda_scope s;
    c->ordinal = o->device;
    c->plain = o->plain != 0;
    if (!stwi_cuda_load(c, o->library ? o->library : "libcuda.so.1") || !open_device(c, o) || !stwi_cuda_enter(c, &s))
        return fail(c, status, err, err_bytes);
    bool ok = choose_memory(c, o, &status);
    stwi_cuda_leave(c, &s);
    if (!ok)
        return fail(c, status, err, err_bytes);
    c->plain_bytes = o->plain_bytes ? o->plain_bytes : c->total_bytes / 16;
    c->say = o->say;
    c->say_ctx = o->say_ctx;
    c->refused = 0;
    *out = (stw_backend){.ctx = c, .granularity = c->granule};
    stwi_cuda_memory(out, c->plain);
    stwi_cuda_events(out);
    if (err && err_bytes)
        err[0] = 0;
    return STW_OK;
}

void stw_backend_cuda_close(stw_backend *b)
{
    cuda_scope s;
    cuda *c = b ? b->ctx : NULL;
    if (!c)
        return;
    bool entered = stwi_cuda_enter(c, &s) || stwi_cuda_enter(c, &s);
    stwi_cuda_memory_drop(c, entered);
    stwi_cuda_events_drop(c, entered);
    if (entered)
        stwi_cuda_leave(c, &s);
    if (c->primary && !c->gone && !stwi_cuda_ok(c, c->cu.primary_release(c->device), "cuDevicePrimaryCtxRelease"))
        c->cu.primary_release(c->device);
    stwi_unmap(c, sizeof *c);
    *b = (stw_backend){0};
}
