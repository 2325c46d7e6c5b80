/* stw_lock.c: the lock, and survival of fork.
 *
 * Training asks for memory from one thread for thousands of requests (the forward pass), then from
 * another (autograd), so the lock is biased: a thread that has taken the mutex 4,096 times in a
 * row becomes its owner and from then on enters without an atomic operation (Dice, Moir, Scherer,
 * "Quickly Reacquirable Locks"; the fence by membarrier(2) as in liburcu).
 *
 *     owner's entry (stw_lock.h)                another thread, holding the mutex
 *
 *     inside = 1                                owner = nobody
 *     (no fence)                                membarrier()  every thread passes a full fence
 *     still the owner?  yes: go on              wait until inside == 0
 *                       no: inside = 0,         go on
 *                           take the mutex
 *
 * At the fence the owner has either read `owner` already, then its `inside = 1` comes before that
 * and is visible, and the other thread waits; or it has yet to read, then it finds itself deposed and
 * stands back. So never are both in. `inside` belongs to the thread, not to the office, because a
 * former owner may stand back long after another has become one. A change of owner costs a
 * microsecond, which is why it takes a streak. Where the kernel has no membarrier nobody ever becomes
 * one, nor does the ninth thread that would.
 *
 * The mutex: one compare-and-swap to take, a plain store to give back, then one wake for the
 * sleepers, of whom the one that gets the mutex will wake the next. The release looks at `sleepers`
 * without a fence and may miss a thread that goes to sleep at that very moment; a sleeper therefore
 * looks again by itself after a millisecond. Only patience depends on that, never exclusion.
 *
 * Fork. A child gets a private copy of records and (host) memory. fork() first takes every
 * allocator's mutex, so no thread is in the middle of a change, and both sides let go afterwards: the
 * child may go on using its copy. A backend must not fork. Device memory is not the child's to
 * use, which is CUDA's rule, not ours.
 */
#define _GNU_SOURCE
#include "stw_internal.h"

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef STW_STREAK /* the tests ask for fewer, so that ownership changes all the time */
#define STW_STREAK 4096u
#endif
#define PATIENCE_NS 1000000
#define SPINS 100
/* Looks at a mutex that is taken before going to sleep. Few: a thread that waits awake gets the mutex for one
 * request, and the cache lines with it, and hands both back; four threads then take 500 to 900 ns a pair, and 50 to
 * 80 where the one that has it goes on while the others sleep. */
#define MUTEX_SPINS 4

static void spin(void)
{
#if defined __x86_64__
    __builtin_ia32_pause();
#endif
}

static bool try_mutex(stw_lock *l)
{
    uint32_t free_word = 0;
    return __atomic_compare_exchange_n(&l->held, &free_word, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

static void wait_for_mutex(stw_lock *l)
{
    for (int i = 0; i < MUTEX_SPINS; i++, spin())
        if (__atomic_load_n(&l->held, __ATOMIC_RELAXED) == 0 && try_mutex(l))
            return;
    for (;;) {
        __atomic_store_n(&l->sleepers, 1, __ATOMIC_SEQ_CST); /* stays so if we get it: there may be others */
        if (try_mutex(l))
            return;
        syscall(SYS_futex, &l->held, FUTEX_WAIT_PRIVATE, 1, &(struct timespec){0, PATIENCE_NS}, NULL, 0);
    }
}

static bool can_own; /* membarrier works; set before the first lock is used */

static bool register_membarrier(void)
{
    return stwi_self() != STW_ANYONE && syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}

/* Takes the privilege from its owner and waits until it is out. The mutex is held. */
static void end_ownership(stw_lock *l, stw_owner *o)
{
    __atomic_store_n(&l->owner, NULL, __ATOMIC_SEQ_CST);
    if (syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) != 0) {
        /* Forbidden since we registered (a sandbox): no processor keeps a store to itself for as
         * long as this, and one that runs something else has passed a fence. Once, then never again. */
        __atomic_store_n(&can_own, false, __ATOMIC_RELAXED);
        nanosleep(&(struct timespec){0, 10 * PATIENCE_NS}, NULL);
    }
    for (int i = 0; __atomic_load_n(&o->inside, __ATOMIC_ACQUIRE) != 0; i++) {
        if (i < SPINS)
            spin();
        else /* it sleeps, or is in the backend */
            nanosleep(&(struct timespec){0, PATIENCE_NS / 20}, NULL);
    }
}

/* The record of a thread, NULL where all are taken. The mutex is held. */
static stw_owner *owner_record(stw_lock *l, uintptr_t thread)
{
    for (uint32_t i = 0; i < l->n_owners; i++)
        if (l->owners[i].thread == thread)
            return &l->owners[i];
    if (l->n_owners == STW_OWNERS)
        return NULL;
    l->owners[l->n_owners].thread = thread;
    return &l->owners[l->n_owners++];
}

void stwi_lock_mutex(stw_lock *l)
{
    if (!try_mutex(l))
        wait_for_mutex(l);
    stw_owner *o = __atomic_load_n(&l->owner, __ATOMIC_RELAXED);
    if (o != NULL)
        end_ownership(l, o);
    uintptr_t self = stwi_self();
    l->streak = l->last == self ? l->streak + 1 : 0;
    l->last = self;
    if (l->streak >= STW_STREAK && __atomic_load_n(&can_own, __ATOMIC_RELAXED)) {
        l->streak = 0;
        __atomic_store_n(&l->owner, owner_record(l, self), __ATOMIC_RELEASE);
    }
}

void stwi_unlock_mutex(stw_lock *l)
{
    __atomic_store_n(&l->held, 0, __ATOMIC_RELEASE);
    if (__atomic_load_n(&l->sleepers, __ATOMIC_RELAXED) != 0) {
        __atomic_store_n(&l->sleepers, 0, __ATOMIC_RELAXED); /* one wake for each sleep */
        syscall(SYS_futex, &l->held, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    }
}

/* All allocators of the process, for fork: the runtime's only global state. */
static stw_lock list_lock;
static stw_allocator *list;
static bool prepared;

static void before_fork(void)
{
    stwi_lock_mutex(&list_lock);
    for (stw_allocator *a = list; a; a = a->fork_next)
        stwi_lock_mutex(&a->lock);
}

static void after_fork_parent(void)
{
    for (stw_allocator *a = list; a; a = a->fork_next)
        stwi_unlock_mutex(&a->lock);
    stwi_unlock_mutex(&list_lock);
}

/* In the child neither owners nor sleepers exist. */
static void after_fork_child(void)
{
    for (stw_allocator *a = list; a; a = a->fork_next)
        a->lock = (stw_lock){0};
    list_lock = (stw_lock){0};
    can_own = register_membarrier();
}

void stwi_fork_add(stw_allocator *a)
{
    stwi_lock_mutex(&list_lock);
    if (!prepared) {
        can_own = register_membarrier();
        pthread_atfork(before_fork, after_fork_parent, after_fork_child);
        prepared = true;
    }
    a->fork_prev = NULL;
    a->fork_next = list;
    if (list)
        list->fork_prev = a;
    list = a;
    stwi_unlock_mutex(&list_lock);
}

void stwi_fork_remove(stw_allocator *a)
{
    stwi_lock_mutex(&list_lock);
    if (a->fork_prev)
        a->fork_prev->fork_next = a->fork_next;
    else
        list = a->fork_next;
    if (a->fork_next)
        a->fork_next->fork_prev = a->fork_prev;
    stwi_unlock_mutex(&list_lock);
}
