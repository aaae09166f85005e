/* The benchmark's worker in C: --endpoint URL --mode sync|async. Prints `ready`; for each line N on stdin it acquires and
 * releases a lock of its own N times and prints how many nanoseconds that took. Ends with its input.
 * `async` is an event loop: poll(2) on lh_poll_fd, then lh_dispatch. */

#define _POSIX_C_SOURCE 200809L
#include <leasehold.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static lh_client client;
static lh_loop loop;
static int fd;
static char name[64];

static void check(int32_t status, const char *message) {
    if (status != LH_OK) {
        fprintf(stderr, "%s: %s\n", lh_strerror(status), message);
        exit(1);
    }
}

static void blocking(void) {
    lh_guard guard;
    lh_error error;
    check(lh_acquire(client, name, NULL, &guard, &error), error.message);
    check(lh_release(guard, &error), error.message);
}

static void on_released(void *is_done, const lh_result *result) {
    check(result->status, result->message);
    *(bool *)is_done = true;
}

static void on_acquired(void *is_done, const lh_result *result) {
    lh_error error;
    check(result->status, result->message);
    check(lh_guard_release_async(result->guard, loop, on_released, is_done, NULL, &error), error.message);
    lh_guard_free(result->guard);
}

static void in_a_loop(void) {
    lh_error error;
    bool is_done = false;
    check(lh_acquire_async(client, name, NULL, loop, on_acquired, &is_done, NULL, &error), error.message);
    while (!is_done) {
        struct pollfd waiting = {.fd = fd, .events = POLLIN};
        poll(&waiting, 1, -1);
        check(lh_dispatch(loop, NULL), "dispatch");
    }
}

int main(int argc, char **argv) {
    const char *endpoint = NULL, *mode = "sync";
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--endpoint") == 0)
            endpoint = argv[i + 1];
        else if (strcmp(argv[i], "--mode") == 0)
            mode = argv[i + 1];
    }
    if (!endpoint || (strcmp(mode, "sync") != 0 && strcmp(mode, "async") != 0)) {
        fprintf(stderr, "usage: run --endpoint URL --mode sync|async\n");
        return 2;
    }
    void (*cycle)(void) = strcmp(mode, "sync") == 0 ? blocking : in_a_loop;
    lh_client_opts opts = {.size = sizeof opts, .ttl_ms = 30000};
    lh_error error;
    check(lh_client_open(endpoint, &opts, &client, &error), error.message);
    check(lh_loop_open(&loop, &error), error.message);
    check(lh_poll_fd(loop, &fd), "fd");
    snprintf(name, sizeof name, "/bench/c-%ld", (long)getpid());
    cycle();
    puts("ready");
    fflush(stdout);
    char line[32];
    while (fgets(line, sizeof line, stdin)) {
        struct timespec begun, ended;
        long count = atol(line);
        clock_gettime(CLOCK_MONOTONIC, &begun);
        for (long i = 0; i < count; i++)
            cycle();
        clock_gettime(CLOCK_MONOTONIC, &ended);
        printf("%lld\n", (ended.tv_sec - begun.tv_sec) * 1000000000LL + (ended.tv_nsec - begun.tv_nsec));
        fflush(stdout);
    }
    check(lh_close(client, &error), error.message);
    return 0;
}
