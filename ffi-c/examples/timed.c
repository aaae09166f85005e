/* Waits for a lock for a limited time; then for as long as it takes, until another thread ends the wait. */

#define _POSIX_C_SOURCE 200809L
#include <leasehold.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>

/* What ends the wait: here a timer, elsewhere a signal, a closed connection, the end of the program. */
static void *lose_patience(void *cancel) {
    struct timespec pause = {.tv_nsec = 300 * 1000 * 1000};
    nanosleep(&pause, NULL);
    lh_cancel_fire(*(lh_cancel *)cancel);
    return NULL;
}

int main(int argc, char **argv) {
    const char *url = argc > 1 ? argv[1] : "http://127.0.0.1:2379";
    lh_client client;
    lh_guard holder, guard;
    lh_error error;
    pthread_t thread;

    if (lh_client_open(url, NULL, &client, &error) != LH_OK ||
        lh_acquire(client, "/lock/timed", NULL, &holder, &error) != LH_OK) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }

    lh_acquire_opts opts = {.size = sizeof opts, .wait_ms = 200};
    int32_t status = lh_acquire(client, "/lock/timed", &opts, &guard, &error);
    printf("after 200 ms: %s\n", lh_strerror(status));

    opts.wait_ms = 0; /* the default: for ever */
    lh_cancel_new(&opts.cancel);
    pthread_create(&thread, NULL, lose_patience, &opts.cancel);
    status = lh_acquire(client, "/lock/timed", &opts, &guard, &error);
    printf("after a change of mind: %s\n", lh_strerror(status));
    pthread_join(thread, NULL);
    lh_cancel_free(opts.cancel);

    lh_release(holder, NULL);
    lh_close(client, NULL);
    return status == LH_CANCELLED ? 0 : 1;
}
