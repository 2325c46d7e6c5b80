/* replay_events.h: host memory with event functions that do nothing, for work that is done when it is
 * asked for: they write down what they were asked, and answer by a rule that is known in advance.
 * Test and measuring equipment, like replay_driver.h.
 */
#ifndef STW_REPLAY_EVENTS_H
#define STW_REPLAY_EVENTS_H

#include "stw.h"

#include <assert.h>

/* model.EventCall, field by field. */
typedef struct {
    uint8_t what; /* 'r', 'w', 'd' */
    int8_t answer;
    uint8_t zero[2];
    uint32_t event; /* from 1 */
    uint64_t stream;
} stwd_call;
static_assert(sizeof(stwd_call) == 16, "stwd_call");

typedef struct {
    stw_backend host;
    uint64_t lag, fail_every; /* as in model.EventOptions */
    uint64_t asked;
    uint32_t recorded, dropped;
    int keeps;         /* the calls are kept */
    stwd_call *calls;  /* from malloc */
    size_t n, room;
} stwd_events;

/* The backend over e, whose host, lag, fail_every and keeps are set. */
stw_backend stwd_events_backend(stwd_events *e);

#endif
