/* Three locks at once in a program that has one thread and a loop around poll(2). */

#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <leasehold.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

static lh_loop loop;
static int left = 3;

static void on_released(void *name, const lh_result *result) {
    printf("%s: released, %s\n", (const char *)name, lh_strerror(result->status));
    left--;
}

static void on_acquired(void *name, const lh_result *result) {
    if (result->status != LH_OK) {
        fprintf(stderr, "%s: %s\n", (const char *)name, result->message);
        exit(1);
    }
    int64_t token;
    lh_guard_token(result->guard, &token);
    printf("%s: held, token %" PRId64 "\n", (const char *)name, token);
    lh_guard_release_async(result->guard, loop, on_released, name, NULL, NULL);
    lh_guard_free(result->guard); /* the handle; the release goes on */
}

int main(int argc, char **argv) {
    const char *url = argc > 1 ? argv[1] : "http://127.0.0.1:2379";
    static char names[3][16] = {"/lock/one", "/lock/two", "/lock/three"};
    lh_client client;
    lh_error error;
    int fd;

    if (lh_client_open(url, NULL, &client, &error) != LH_OK || lh_loop_open(&loop, &error) != LH_OK) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    lh_poll_fd(loop, &fd);
    for (int i = 0; i < 3; i++)
        if (lh_acquire_async(client, names[i], NULL, loop, on_acquired, names[i], NULL, &error) != LH_OK) {
            fprintf(stderr, "%s\n", error.message);
            return 1;
        }

    while (left > 0) {
        struct pollfd waiting[] = {{.fd = fd, .events = POLLIN}}; /* and whatever else the program waits for */
        poll(waiting, 1, -1);
        lh_dispatch(loop, NULL); /* calls the callbacks, here, on this thread */
    }
    lh_close(client, NULL);
    lh_loop_close(loop, NULL);
    return 0;
}
