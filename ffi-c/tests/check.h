/* What the test programs share: a check that says where it failed, and counting what a process has. */

#ifndef CHECK_H
#define CHECK_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dirent.h>
#include <leasehold.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#ifdef __cplusplus
#include <atomic>
#else
#include <stdatomic.h>
#endif

/* An etcd inside the process. Under valgrind on a busy machine, what takes a moment elsewhere takes minutes. */
#define MEMORY "memory://tests?request_timeout=600s&ttl=600s"

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                                    \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

/* A call and the status that it must answer. */
#define IS(status, call)                                                                                               \
    do {                                                                                                               \
        int32_t is_ = (call);                                                                                          \
        if (is_ != (status)) {                                                                                         \
            fprintf(stderr, "%s:%d: %s instead of %s: %s\n", __FILE__, __LINE__, lh_strerror(is_), #status, #call);    \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)
#define OK(call) IS(LH_OK, call)

static inline void pause_us(long us) {
    struct timespec pause = {us / 1000000, us % 1000000 * 1000};
    nanosleep(&pause, NULL);
}

/* Waits for a condition, for at most five minutes: under valgrind on a busy machine it is not much. */
#define EVENTUALLY(condition)                                                                                          \
    do {                                                                                                               \
        int tries_ = 0;                                                                                                \
        while (!(condition)) {                                                                                         \
            if (++tries_ > 150000)                                                                                      \
                CHECK(condition);                                                                                      \
            pause_us(2000);                                                                                            \
        }                                                                                                              \
    } while (0)

/* How many entries a folder of /proc/self has: "task" for threads, "fd" for descriptors. */
static inline int count_of(const char *what) {
    char path[64];
    int count = 0;
    snprintf(path, sizeof path, "/proc/self/%s", what);
    DIR *folder = opendir(path);
    CHECK(folder);
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

static inline lh_live live(void) {
    lh_live now;
    now.size = sizeof now;
    OK(lh_live_count(&now));
    return now;
}

static inline int nothing_lives(void) {
    lh_live now = live();
    return now.clients == 0 && now.guards == 0 && now.operations == 0;
}

#endif
