/* Reading what an acquire or a campaign asks for: names, kinds, and options. */

#ifndef ACQUIRING_H
#define ACQUIRING_H

#include <leasehold.h>
#include <stdlib.h>

#include "request.h"

/* A number of at least 1 that C takes for "not set" where it is 0. */
static uint32_t count_of(json_t *request, const char *name) {
    json_t *value = field(request, name, false);
    int64_t number = value ? integer(value, name) : 0;
    if (value && (number < 1 || number > UINT32_MAX))
        refuse("INVALID_ARGUMENT", "%s must be a number from 1, not %lld", name, (long long)number);
    return (uint32_t)number;
}

static int32_t kind_of(json_t *request) {
    const char *kind = optional_text(request, "kind");
    if (!kind || strcmp(kind, "mutex") == 0)
        return LH_MUTEX;
    if (strcmp(kind, "shared") == 0)
        return LH_SHARED;
    if (strcmp(kind, "semaphore") == 0)
        return LH_PERMITS;
    /* It must never be taken for a mutex. */
    refuse("UNSUPPORTED", "there is no lock of the kind \"%s\"", kind);
}

/* The names of an acquire of several, to be freed; NULL where there is one. */
static lh_wanted *wanted_of(json_t *request, size_t *count) {
    json_t *locks = field(request, "locks", false), *one;
    size_t i;
    if (!locks)
        return NULL;
    if (!json_is_array(locks))
        refuse(BAD_REQUEST, "the field \"locks\" must be a list of objects");
    json_array_foreach(locks, i, one) if (!json_is_object(one))
        refuse(BAD_REQUEST, "the field \"locks\" must be a list of objects");
    lh_wanted *wanted = calloc(json_array_size(locks) + 1, sizeof *wanted);
    json_array_foreach(locks, i, one) {
        wanted[i] = (lh_wanted){text(one, "lock"), kind_of(one), count_of(one, "permits"), count_of(one, "limit")};
    }
    *count = json_array_size(locks);
    return wanted;
}

static void read_local_first(json_t *request, lh_acquire_opts *opts) {
    json_t *bounds = field(request, "local_first", false);
    if (json_is_object(bounds)) {
        opts->local_turns = count_of(bounds, "turns");
        opts->local_ms = option_ms(bounds, "ms");
    } else if (bounds && !json_is_boolean(bounds)) {
        refuse(BAD_REQUEST, "the field \"local_first\" must be true, false or an object");
    }
    opts->local_first = json_is_object(bounds) || json_is_true(bounds);
}

/* Its options. `tries` tells whether it does not wait, for which C has functions of their own. */
static lh_acquire_opts opts_of(json_t *request, bool *tries) {
    const char *mode = optional_text(request, "mode");
    bool is_try = mode && strcmp(mode, "try") == 0;
    json_t *wait = field(request, "wait_ms", false), *linger = field(request, "linger_ms", false);
    lh_acquire_opts opts = {
        .size = sizeof opts,
        .ttl_ms = option_ms(request, "ttl_ms"),
        .no_renew = is_false(request, "renew"),
        .no_requeue = is_false(request, "requeue"),
        .kind = kind_of(request),
        .permits = count_of(request, "permits"),
        .limit = count_of(request, "limit"),
        .linger_ms = linger ? integer(linger, "linger_ms") : 0,
    };
    if (mode && !is_try && strcmp(mode, "wait") != 0)
        refuse(BAD_REQUEST, "mode is wait or try, not \"%s\"", mode);
    read_local_first(request, &opts);
    /* A limit of 0 is a try, which C has a word for; -1 would be none. */
    if (wait && integer(wait, "wait_ms") < 0)
        refuse("INVALID_ARGUMENT", "the wait limit cannot be below 0");
    *tries = is_try || (wait && integer(wait, "wait_ms") == 0);
    if (!*tries && wait)
        opts.wait_ms = integer(wait, "wait_ms");
    return opts;
}

#endif
