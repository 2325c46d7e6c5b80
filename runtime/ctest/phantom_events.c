/* phantom_events.c: the phantom device has events in its runtime API and answers those of the driver's API without
 * making one. This library, named as the driver (stw_cuda_options.library), has them by the former and all else
 * from the phantom, on which it depends.
 */
#pragma GCC diagnostic ignored "-Wmissing-prototypes" /* these are CUDA's */

#define PUBLIC __attribute__((visibility("default")))

int cudaEventCreateWithFlags(void **e, unsigned flags);
int cudaEventDestroy(void *e);
int cudaEventRecord(void *e, void *stream);
int cudaEventQuery(void *e);
int cudaStreamWaitEvent(void *stream, void *e, unsigned flags);
int cudaStreamIsCapturing(void *stream, int *status);

PUBLIC int cuEventCreate(void **e, unsigned flags)
{
    return cudaEventCreateWithFlags(e, flags);
}

PUBLIC int cuEventDestroy_v2(void *e)
{
    return cudaEventDestroy(e);
}

PUBLIC int cuEventRecord(void *e, void *stream)
{
    return cudaEventRecord(e, stream);
}

PUBLIC int cuEventQuery(void *e)
{
    return cudaEventQuery(e);
}

PUBLIC int cuStreamWaitEvent(void *stream, void *e, unsigned flags)
{
    return cudaStreamWaitEvent(stream, e, flags);
}

PUBLIC int cuStreamIsCapturing(void *stream, int *status)
{
    return cudaStreamIsCapturing(stream, status);
}
