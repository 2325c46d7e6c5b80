/* stw_lock.h: the lock (stw_lock.c). Not installed. */
#ifndef STW_LOCK_H
#define STW_LOCK_H

#include "stw.h"

#include <stdbool.h>

#pragma GCC visibility push(hidden)

/* A thread that has been the owner of a lock. Only that thread writes `inside`: were the flag the
 * lock's own, a former owner that is just standing back would clear it under its successor. */
typedef struct {
    uintptr_t thread;
    uint32_t inside; /* 1: in, or about to find out that it may not */
} stw_owner;

#define STW_OWNERS 8u

typedef struct {
    stw_owner *owner;  /* may enter without the mutex; NULL: nobody */
    uint32_t held;     /* the mutex: 0 or 1 */
    uint32_t sleepers; /* 1: threads may be asleep on it */
    uint32_t streak;   /* under the mutex: times in a row that `last` has taken it */
    uint32_t n_owners; /* of owners, ever */
    uintptr_t last;
    stw_owner owners[STW_OWNERS];
} stw_lock;

#define STW_ANYONE ((uintptr_t)1) /* where threads cannot be told apart, nobody becomes an owner */

void stwi_lock_mutex(stw_lock *l); /* by the mutex, ending another thread's privilege */
void stwi_unlock_mutex(stw_lock *l);

/* A value that no other living thread has, and never 0. */
static inline uintptr_t stwi_self(void)
{
#if defined __x86_64__ || defined __aarch64__
    return (uintptr_t)__builtin_thread_pointer();
#else
    return STW_ANYONE;
#endif
}

/* The record of the owner where the caller is that, and has entered; NULL: it has not. The answer goes to stwi_unlock_owned. */
static inline stw_owner *stwi_lock_owned(stw_lock *l)
{
    stw_owner *o = __atomic_load_n(&l->owner, __ATOMIC_ACQUIRE);
    if (__builtin_expect(o != NULL && o->thread == stwi_self(), 1)) {
        __atomic_store_n(&o->inside, 1, __ATOMIC_RELAXED);
        __atomic_signal_fence(__ATOMIC_SEQ_CST); /* the other half is in stw_lock.c: membarrier */
        if (__builtin_expect(__atomic_load_n(&l->owner, __ATOMIC_RELAXED) == o, 1))
            return o;
        __atomic_store_n(&o->inside, 0, __ATOMIC_RELEASE);
    }
    return NULL;
}

static inline void stwi_unlock_owned(stw_owner *o)
{
    __atomic_store_n(&o->inside, 0, __ATOMIC_RELEASE);
}

/* Enters in any case: NULL if by the mutex. The answer goes to stwi_unlock. */
static inline stw_owner *stwi_lock(stw_lock *l)
{
    stw_owner *o = stwi_lock_owned(l);
    if (!o)
        stwi_lock_mutex(l);
    return o;
}

static inline void stwi_unlock(stw_lock *l, stw_owner *o)
{
    if (__builtin_expect(o != NULL, 1))
        stwi_unlock_owned(o);
    else
        stwi_unlock_mutex(l);
}

void stwi_fork_add(stw_allocator *a); /* a fork now leaves a's lock free in the child */
void stwi_fork_remove(stw_allocator *a);

#pragma GCC visibility pop
#endif
