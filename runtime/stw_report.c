/* stw_report.c: what an allocator did, for people; REPORT.md says what each line means and what to do
 * about it. And the sentence on running out of memory.
 */
#include "stw_internal.h"

#include <stdarg.h>
#include <stdio.h>

static double mib(uint64_t bytes)
{
    return (double)bytes / (1 << 20);
}

static double percent(uint64_t part, uint64_t whole)
{
    return whole ? 100.0 * (double)part / (double)whole : 100.0;
}

typedef struct {
    char *out;
    size_t room, n; /* n: what there would be, were there room */
} text;

static __attribute__((format(printf, 2, 3))) void add(text *t, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(t->n < t->room ? t->out + t->n : NULL, t->n < t->room ? t->room - t->n : 0, format, args);
    va_end(args);
    t->n += n > 0 ? (size_t)n : 0;
}

static size_t write_report(const stw_stats *s, const stw_plan *p, char *out, size_t room)
{
    text t = {out, out ? room : 0, 0};
    uint64_t planned = s->hits + s->conflicts + s->too_large;
    add(&t, "requests  %llu: %llu planned, %llu dynamic, %llu unknown, %llu failed\n", (unsigned long long)s->requests,
        (unsigned long long)planned, (unsigned long long)s->dynamic, (unsigned long long)s->unknown, (unsigned long long)s->failed);
    if (p->n_rules > 0)
        add(&t, "rules     %lu statements (%s)\n", (unsigned long)p->n_rules, p->rules);
    if (p->n_entries > 0) {
        add(&t, "plan      %.2f %% of the planned at their address; %llu conflicts, %llu too large\n", percent(s->hits, planned),
            (unsigned long long)s->conflicts, (unsigned long long)s->too_large);
        add(&t, "matcher   %llu resynchronisations, %llu searches, %.2f %% of the requests on the slow path\n",
            (unsigned long long)s->resyncs, (unsigned long long)s->restarts, s->requests ? percent(s->slow, s->requests) : 0.0);
        add(&t, "guests    %llu in idle arena space; the plan was read ahead %llu times\n", (unsigned long long)s->guests,
            (unsigned long long)s->sweeps);
    }
    add(&t, "heap      peak %.2f MiB; gave back %.2f MiB in %llu trims\n", mib(s->heap_peak_bytes), mib(s->returned_bytes),
        (unsigned long long)s->trims);
    if (s->moves > 0)
        add(&t, "moves     %.2f MiB of idle memory, in %llu moves; the plan was set aside %llu times\n", mib(s->moved_bytes),
            (unsigned long long)s->moves, (unsigned long long)s->set_aside);
    add(&t, "memory    peak allocated %.2f MiB, peak reserved %.2f MiB, of it arena %.2f MiB: E %.2f %%\n", mib(s->peak_live_bytes),
        mib(s->peak_reserved_bytes), mib(s->arena_bytes), percent(s->peak_live_bytes, s->peak_reserved_bytes));
    if (s->event_records + s->event_failures + s->deferred > 0)
        add(&t, "streams   %llu events, %llu waits, %llu of them young, %.0f requests old on average; %llu blocks held back; %llu refusals\n",
            (unsigned long long)s->event_records, (unsigned long long)s->event_waits, (unsigned long long)s->young_waits,
            s->event_waits ? (double)s->waited_age / (double)s->event_waits : 0.0, (unsigned long long)s->deferred,
            (unsigned long long)s->event_failures);
    if (s->stitched > 0)
        add(&t, "stitched  %llu requests, of several idle pieces; %llu ranges made for them, of which %.2f MiB of addresses are kept\n",
            (unsigned long long)s->stitched, (unsigned long long)s->stitches, mib(s->stitch_bytes));
    if (s->bad_free > 0)
        add(&t, "misuse    %llu frees of addresses that were not live\n", (unsigned long long)s->bad_free);
    return t.n;
}

size_t stw_report(stw_allocator *a, char *out, size_t room)
{
    stw_stats s;
    if (!a)
        return 0;
    stw_get_stats(a, &s);
    return write_report(&s, &a->plan, out, room);
}

/* Whether the n-th of its kind is said: the first, the second, the fourth, … */
static bool said(const stw_allocator *a, uint64_t n)
{
    return a->say && (n & (n - 1)) == 0;
}

void stwi_say_failed_locked(const stw_allocator *a, const stw_stream *s, uint64_t units)
{
    char line[400];
    const uint64_t n = a->stats.failed;
    if (!said(a, n))
        return;
    snprintf(line, sizeof line,
             "out of memory: %.2f MiB asked for on stream %#llx; %.2f MiB allocated, %.2f MiB reserved (arena %.2f), %.2f MiB the limit; "
             "failed %llu times so far",
             mib(units << STW_UNIT_SHIFT), s ? (unsigned long long)s->handle : 0, mib(a->stats.live_bytes), mib(a->stats.reserved_bytes),
             mib(a->arena.committed_bytes), mib(a->capacity_bytes), (unsigned long long)n);
    a->say(a->say_ctx, line);
}

void stwi_say_aside_locked(const stw_allocator *a)
{
    char line[300];
    if (!said(a, a->stats.set_aside))
        return;
    snprintf(line, sizeof line,
             "the plan is set aside: the program departs from it too much (%llu of %llu requests at their address, %.2f MiB moved); "
             "the heap serves it until it is on plan again; set aside %llu times so far",
             (unsigned long long)a->stats.hits, (unsigned long long)stwi_requests(a), mib(a->stats.moved_bytes), (unsigned long long)a->stats.set_aside);
    a->say(a->say_ctx, line);
}

void stwi_say_end(stw_allocator *a)
{
    char lines[2000];
    if (!a->say || a->plan.n_entries + stwi_requests(a) == 0)
        return;
    stw_report(a, lines, sizeof lines);
    a->say(a->say_ctx, lines);
}
