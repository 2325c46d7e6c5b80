/* conf.c: STWEAVER_MODE, STWEAVER_PLAN, STWEAVER_CONF.
 *
 *     capacity:BYTES     most memory to hold; a suffix K, M, G, T (with or without iB) is a power of 1024
 *     headroom:BYTES     what of the device's memory to leave alone; capacity is then the rest
 *     granularity:BYTES  of memory that is committed, a power of two; default: what the backend says
 *     backend:cuda|host  default: cuda for devices, host for the host
 *     plain:1            cuda without virtual memory management: one allocation of the driver for each range
 *     stitch:BYTES       most address space for requests that are made of several idle pieces; default: none are
 *     library:PATH       of CUDA's driver; default libcuda.so.1
 *     record:PATH        of the recording; default stweaver.{rank}.stwp
 *     log:PATH           instead of standard error; {rank} is replaced
 *     report:0           no summary at exit
 *     time:1             measure the calls: the medians ns_malloc and ns_free in the statistics
 *     canary:1           check every address against an independent record, and a pattern behind each
 *                        block (canary.c); for tests
 */
#include "conf.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The first of these that is set is the rank; one process needs none. */
static const char *const rank_variables[] = {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID", "LOCAL_RANK"};

static int rank_of_process(void)
{
    for (size_t i = 0; i < sizeof rank_variables / sizeof *rank_variables; i++) {
        const char *v = getenv(rank_variables[i]);
        if (v && *v)
            return atoi(v);
    }
    return 0;
}

bool stwt_replace(char out[STWT_PATH], const char *path, const char *name, int value)
{
    char number[16];
    size_t n = 0, name_bytes = strlen(name);
    int digits = snprintf(number, sizeof number, "%d", value);
    while (*path) {
        bool here = strncmp(path, name, name_bytes) == 0;
        size_t more = here ? (size_t)digits : 1;
        if (n + more >= STWT_PATH)
            return false;
        memcpy(out + n, here ? number : path, more);
        n += more;
        path += here ? name_bytes : 1;
    }
    out[n] = 0;
    return true;
}

static bool read_path(char out[STWT_PATH], const char *value)
{
    return *value && stwt_replace(out, value, "{rank}", rank_of_process());
}

static bool read_bytes(uint64_t *out, const char *value)
{
    char *end;
    errno = 0;
    unsigned long long n = strtoull(value, &end, 10);
    if (end == value || *value == '-' || errno)
        return false;
    int shift = 0;
    static const char units[] = "kKmMgGtT";
    const char *u = *end ? strchr(units, *end) : NULL;
    if (u) {
        shift = 10 * (int)((u - units) / 2 + 1);
        end++;
    }
    if (strcmp(end, "iB") == 0 || strcmp(end, "B") == 0)
        end += strlen(end);
    if (*end || n > UINT64_MAX >> shift)
        return false;
    *out = (uint64_t)n << shift;
    return true;
}

static bool read_flag(bool *out, const char *value)
{
    *out = strcmp(value, "1") == 0;
    return *out || strcmp(value, "0") == 0;
}

/* One key; false: not a value for it. *known: whether there is such a key. */
static bool read_key(stwt_conf *c, const char *key, const char *value, bool *known)
{
    const struct { const char *key; uint64_t *to; } sizes[] = {
        {"capacity", &c->capacity}, {"headroom", &c->headroom}, {"granularity", &c->granularity}, {"stitch", &c->stitch}};
    const struct { const char *key; bool *to; } flags[] = {
        {"plain", &c->plain}, {"report", &c->report}, {"time", &c->time}, {"canary", &c->canary}};
    const struct { const char *key; char *to; } paths[] = {{"record", c->record}, {"log", c->log}, {"library", c->library}};
    *known = true;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (strcmp(key, sizes[i].key) == 0)
            return read_bytes(sizes[i].to, value);
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (strcmp(key, flags[i].key) == 0)
            return read_flag(flags[i].to, value);
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        if (strcmp(key, paths[i].key) == 0)
            return read_path(paths[i].to, value);
    *known = strcmp(key, "backend") == 0;
    c->backend = strcmp(value, "cuda") == 0 ? STWT_BACKEND_CUDA : STWT_BACKEND_HOST;
    return *known && (c->backend == STWT_BACKEND_CUDA || strcmp(value, "host") == 0);
}

static bool read_keys(stwt_conf *c, const char *text, char *err, size_t err_bytes)
{
    char item[STWT_PATH];
    for (const char *next; *text; text = next) {
        size_t n = strcspn(text, ",");
        next = text + n + (text[n] == ',');
        if (n == 0)
            continue;
        bool known = false, fits = n < sizeof item;
        snprintf(item, sizeof item, "%.*s", fits ? (int)n : 40, text);
        char *colon = strchr(item, ':');
        if (colon)
            *colon = 0;
        if (fits && colon && read_key(c, item, colon + 1, &known))
            continue;
        if (fits && colon && !known)
            snprintf(err, err_bytes, "STWEAVER_CONF: there is no key \"%s\"; keys are capacity, headroom, granularity, backend, plain, "
                     "stitch, library, record, log, report, time, canary", item);
        else if (fits && colon)
            snprintf(err, err_bytes, "STWEAVER_CONF: \"%s\" is not a value for %s (sizes are whole numbers such as 80GiB, switches 0 or 1, "
                     "backends cuda or host)", colon + 1, item);
        else
            snprintf(err, err_bytes, "STWEAVER_CONF: \"%s\" is not key:value", item);
        return false;
    }
    if (c->granularity & (c->granularity - 1) || (c->granularity && c->granularity < 512)) {
        snprintf(err, err_bytes, "STWEAVER_CONF: granularity is a power of two, at least 512");
        return false;
    }
    return true;
}

static const char *or_variable(const char *value, const char *variable)
{
    if (!value)
        value = getenv(variable);
    return value ? value : "";
}

bool stwt_conf_read(stwt_conf *out, const char *mode, const char *plan, const char *conf, char *err, size_t err_bytes)
{
    static const char *const modes[] = {[STWT_OFF] = "off", [STWT_RECORD] = "record", [STWT_HEAP] = "heap", [STWT_PLAN] = "plan"};
    mode = or_variable(mode, "STWEAVER_MODE");
    plan = or_variable(plan, "STWEAVER_PLAN");
    *out = (stwt_conf){.mode = -1, .report = true};
    read_path(out->record, "stweaver.{rank}.stwp");
    if (!*mode)
        mode = *plan ? "plan" : "heap";
    for (int i = 0; i < (int)(sizeof modes / sizeof *modes); i++)
        if (strcmp(mode, modes[i]) == 0)
            out->mode = i;
    if (out->mode < 0) {
        snprintf(err, err_bytes, "STWEAVER_MODE: \"%s\" is not off, record, heap or plan", mode);
        return false;
    }
    if (out->mode == STWT_PLAN && !read_path(out->plan, plan)) {
        snprintf(err, err_bytes, "STWEAVER_PLAN: mode plan needs the path of a plan%s", *plan ? ", and this one is too long" : "");
        return false;
    }
    return read_keys(out, or_variable(conf, "STWEAVER_CONF"), err, err_bytes);
}
