/* cuda_driver.c: finding the driver, its words for what went wrong, and the calling thread's state.
 *
 * The library is never closed again: it has threads and exit handlers of its own, and PyTorch holds it anyway.
 *
 * A call of the backend comes from any thread, in any state: another device's context may be current, or none;
 * a stream may be capturing a graph, in a mode in which the driver refuses, and in refusing breaks the capture, whatever
 * might depend on work that has not been submitted. So each call is put between enter and leave.
 */
#include "cuda_driver.h"
#include "old_dl.h"

#include <stdio.h>
#include <string.h>

bool stwi_cuda_load(cuda *c, const char *library)
{
    void *lib = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!lib) {
        const char *why = dlerror();
        snprintf(c->trouble, sizeof c->trouble, "cuda: no driver: %s", why ? why : library);
        return false;
    }
    static const char *const names[] = {
#define X(field, name, arguments) name,
        CU_CALLS(X)
#undef X
    };
    void *found[sizeof names / sizeof *names];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        found[i] = dlsym(lib, names[i]);
        if (!found[i]) {
            snprintf(c->trouble, sizeof c->trouble, "cuda: %s has no %s: it is older than CUDA 11.0, or not a driver", library, names[i]);
            return false;
        }
    }
    _Static_assert(sizeof found == sizeof c->cu, "a driver is pointers, one a name");
    memcpy(&c->cu, found, sizeof c->cu);
    return true;
}

void stwi_cuda_say(cuda *c, const char *text)
{
    c->refused++;
    if (text != c->trouble)
        snprintf(c->trouble, sizeof c->trouble, "%s", text);
    if (c->say && (c->refused & (c->refused - 1)) == 0)
        c->say(c->say_ctx, c->trouble);
}

bool stwi_cuda_ok(cuda *c, cu_result result, const char *call)
{
    const char *name = NULL, *words = NULL;
    if (result == CU_OK)
        return true;
    if (c->gone) /* said once */
        return false;
    c->gone = result == CU_NOT_INITIALIZED || result == CU_DEINITIALIZED || result == CU_CONTEXT_IS_DESTROYED;
    c->cu.error_name(result, &name);
    c->cu.error_string(result, &words);
    snprintf(c->trouble, sizeof c->trouble, "cuda device %d: %s: %s (%d), %s", c->ordinal, call, name ? name : "error", result,
             words ? words : "of which the driver says nothing");
    stwi_cuda_say(c, c->trouble);
    return false;
}

/* Puts back what was current. It has no reason to fail; tried again, because the caller's thread would go on with a
 * context that is not its own. */
static void pop(cuda *c)
{
    cu_context ours;
    if (!stwi_cuda_ok(c, c->cu.pop(&ours), "cuCtxPopCurrent"))
        c->cu.pop(&ours);
}

bool stwi_cuda_enter(cuda *c, cuda_scope *s)
{
    cu_context current = NULL;
    *s = (cuda_scope){.mode = CU_RELAXED};
    if (c->gone || !stwi_cuda_ok(c, c->cu.context(&current), "cuCtxGetCurrent"))
        return false;
    if (current != c->context) {
        if (!stwi_cuda_ok(c, c->cu.push(c->context), "cuCtxPushCurrent"))
            return false;
        s->pushed = true;
    }
    if (!stwi_cuda_ok(c, c->cu.capture_mode(&s->mode), "cuThreadExchangeStreamCaptureMode")) {
        if (s->pushed)
            pop(c);
        return false;
    }
    s->relaxed = s->mode != CU_RELAXED;
    return true;
}

void stwi_cuda_leave(cuda *c, const cuda_scope *s)
{
    int mode = s->mode;
    if (s->relaxed && !stwi_cuda_ok(c, c->cu.capture_mode(&mode), "cuThreadExchangeStreamCaptureMode")) {
        mode = s->mode;
        c->cu.capture_mode(&mode);
    }
    if (s->pushed)
        pop(c);
}
