/* late.h: a device whose work is done late, and in the worst order that its streams allow. Work is a use of
 * memory by an owner. Each stream is a queue; an adversary says which one goes on. Two judges look for uses
 * of memory that somebody else may still be using:
 *
 *   by clocks   each use has a vector clock; of two owners' uses of the same unit one must come before the other
 *               by the order of the host's calls, streams, events and waits, whatever the adversary does
 *   by memory   an owner's uses write its pattern and look for it; the adversary tries to get between
 */
#ifndef LATE_H
#define LATE_H

#include "../stw.h"

#include <stdbool.h>

#define LATE_STREAMS 6u

typedef struct late_device late_device;

typedef struct {
    bool blind;           /* event_wait says yes and does nothing */
    bool hasty;           /* event_done says that everything is done */
    uint32_t fail_one_in; /* event functions fail so often; 0: never */
} late_faults;

typedef struct {
    uint64_t uses;              /* queued */
    uint64_t by_clocks, by_memory; /* uses caught */
    uint64_t longest;           /* most items that were queued at once */
} late_counts;

late_device *late_make(uint64_t seed, size_t granularity, late_faults faults);
bool late_drop(late_device *d); /* all work is done; whether no event and no memory is left */
stw_backend late_backend(late_device *d);
late_counts late_count(late_device *d);

/* Queues on a stream, 0 to LATE_STREAMS - 1, a use of [p, p + bytes): it looks for the owner's pattern, unless it is its
 * first, and writes it if `writes`. Owners are numbers, never the same again. */
void late_use(late_device *d, uint32_t stream, void *p, size_t bytes, uint64_t owner, bool first, bool writes);
/* What the program itself does to order streams: `after` waits for all of `before` so far. */
void late_join(late_device *d, uint32_t before, uint32_t after);

#endif
