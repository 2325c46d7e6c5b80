/* cuda_layout.c: what cuda_driver.h declares of the CUDA driver is what CUDA's own header says. Compiled only, where
 * that header is at hand (make cuda-layout CUDA_INCLUDE=…).
 */
#include "../cuda_driver.h"

#include <cuda.h>

#define SAME(ours, theirs) _Static_assert((long long)(ours) == (long long)(theirs), #ours " is " #theirs)
#define SAME_PLACE(ours, field, theirs, their_field)                                                                 \
    SAME(offsetof(ours, field), offsetof(theirs, their_field)); \
    SAME(sizeof((ours *)0)->field, sizeof((theirs *)0)->their_field)

SAME(CU_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY);
SAME(CU_NOT_INITIALIZED, CUDA_ERROR_NOT_INITIALIZED);
SAME(CU_DEINITIALIZED, CUDA_ERROR_DEINITIALIZED);
SAME(CU_CONTEXT_IS_DESTROYED, CUDA_ERROR_CONTEXT_IS_DESTROYED);
SAME(CU_INVALID_HANDLE, CUDA_ERROR_INVALID_HANDLE);
SAME(CU_NOT_READY, CUDA_ERROR_NOT_READY);
SAME(CU_NOT_PERMITTED, CUDA_ERROR_NOT_PERMITTED);
SAME(CU_NOT_SUPPORTED, CUDA_ERROR_NOT_SUPPORTED);
SAME(CU_HAS_VMM, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
SAME(CU_HAS_SHARE_FD, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
SAME(CU_HAS_RDMA, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED);
SAME(CU_HAS_SHARE_FABRIC, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED);
SAME(CU_PINNED, CU_MEM_ALLOCATION_TYPE_PINNED);
SAME(CU_ON_DEVICE, CU_MEM_LOCATION_TYPE_DEVICE);
SAME(CU_READ_WRITE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
SAME(CU_GRANULARITY_LEAST, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
SAME(CU_NO_TIMING, CU_EVENT_DISABLE_TIMING);
SAME(CU_CAPTURE_NONE, CU_STREAM_CAPTURE_STATUS_NONE);
SAME(CU_RELAXED, CU_STREAM_CAPTURE_MODE_RELAXED);
SAME(STW_CUDA_SHARE_FD, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
SAME(STW_CUDA_SHARE_FABRIC, CU_MEM_HANDLE_TYPE_FABRIC);
SAME(sizeof(cu_ptr), sizeof(CUdeviceptr));
SAME(sizeof(cu_handle), sizeof(CUmemGenericAllocationHandle));
SAME(sizeof(cu_prop), sizeof(CUmemAllocationProp));
SAME(sizeof(cu_access), sizeof(CUmemAccessDesc));
SAME_PLACE(cu_prop, type, CUmemAllocationProp, type);
SAME_PLACE(cu_prop, share, CUmemAllocationProp, requestedHandleTypes);
SAME_PLACE(cu_prop, location, CUmemAllocationProp, location);
SAME_PLACE(cu_prop, rdma, CUmemAllocationProp, allocFlags.gpuDirectRDMACapable);
SAME_PLACE(cu_location, type, CUmemLocation, type);
SAME_PLACE(cu_location, id, CUmemLocation, id);
SAME_PLACE(cu_access, location, CUmemAccessDesc, location);
SAME_PLACE(cu_access, access, CUmemAccessDesc, flags);
