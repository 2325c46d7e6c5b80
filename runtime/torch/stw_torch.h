/* stw_torch.h: the runtime as PyTorch's allocator (torch.cuda.memory.CUDAPluggableAllocator), and as
 * the allocator of CPU tensors where there is no GPU to try things on.
 *
 *     alloc(size, device, stream) --> the device's stw_allocator --> address     (plug.c)
 *        made at its first request (devices.c)             \-> none: the framework's own exception
 *        backend cuda or host, with the plan or without                         (oom.cc)
 *
 * Signatures are those that PyTorch calls; they are not obvious from its documentation (free gets four
 * arguments). `device` is a CUDA ordinal, or STW_TORCH_HOST. What is passed to free beside the pointer
 * is never believed. All functions are thread-safe. Nothing is written to standard output, nothing
 * exits or aborts. The library reads the environment once, at the first request, unless
 * stw_torch_setup came before:
 *
 *     STWEAVER_MODE   off, record, heap or plan; a plug-in cannot be off: heap
 *     STWEAVER_PLAN   path of the plan; {rank} and {device} are replaced
 *     STWEAVER_CONF   key:value,key:value (conf.c)
 *
 * What is wrong with them is said on standard error, and the heap serves: a job never dies for want of a plan.
 *
 * The process may end, or fork, at any moment: allocators are never destroyed (a tensor may be freed
 * after everything else), frees of device memory after exit() has begun do nothing, and a forked child
 * keeps to a private copy of host memory and away from the devices.
 */
#ifndef STW_TORCH_H
#define STW_TORCH_H

#include "../stw.h"

#ifdef __cplusplus
extern "C" {
#endif

#define STW_TORCH_HOST (-1)

/* Sets up the process before its first request; NULL stands for the variable. Returns 0, or -1 with a
 * sentence in err and nothing done: a value that is not understood, a plan that cannot be read or is
 * not valid, a log or record file that cannot be opened, too late. */
STW_API int stw_torch_setup(const char *mode, const char *plan, const char *conf, char *err, size_t err_bytes);

/* An address for `size` bytes that later work of `stream` may use. NULL where size is 0, or the process
 * is ending. Where there is no memory it throws (oom.cc): c10::OutOfMemoryError, or std::bad_alloc. */
STW_API void *stw_torch_malloc(size_t size, int device, void *stream);
STW_API void stw_torch_free(void *p, size_t size, int device, void *stream);

/* The same for memory that may be another allocator's: -1 where p is not ours. */
STW_API int stw_torch_release(void *p, int device);

STW_API void stw_torch_reset(void);                                /* empty_cache */
STW_API void stw_torch_memory_fraction(double fraction, int device); /* of the device's memory; at most all */
STW_API void *stw_torch_base_alloc(void *p, size_t *size);         /* of the allocation at p; unknown: p, size as it was */
STW_API void stw_torch_record_stream(void *p, void *stream);

/* Captures of CUDA graphs: begin_allocate_to_pool, end_allocate_to_pool, release_pool. In C++ the two numbers are a
 * std::pair and the filter a std::function, which the ABI passes as two registers and a pointer. */
STW_API void stw_torch_begin_pool(int device, uint64_t id0, uint64_t id1, void *filter);
STW_API void stw_torch_end_pool(int device, uint64_t id0, uint64_t id1);
STW_API void stw_torch_release_pool(int device, uint64_t id0, uint64_t id1);

/* stw_mark on every device, and in the recording. */
STW_API void stw_torch_mark(uint32_t kind, int64_t value, const char *name);

/* Counters of a device as a JSON object, bytes and counts as in stw_stats; "{}" where the device has had no
 * request. Returns the length of all of it, which may be more than room. */
STW_API size_t stw_torch_stats(int device, char *out, size_t room);
STW_API size_t stw_torch_report(int device, char *out, size_t room); /* stw_report */
STW_API void stw_torch_reset_peaks(int device);

/* The end, as far as people are concerned: the report, the recording's last bytes. By itself at exit; later
 * requests are served, and not recorded. */
STW_API void stw_torch_close(void);

#ifdef __cplusplus
}
#endif
#endif
