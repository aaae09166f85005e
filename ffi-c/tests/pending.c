/* pending URL HOW: ends with a hundred operations pending: by `return` from main, by `exit`, or by `close` in an exit handler.
 *
 * Prints the lease that all of it hangs on. Half of the operations wait behind the guard that it holds, half take turns; that
 * they are there is seen in the queue, and each may end with its lock, or because its client was closed. Whoever runs this
 * looks into etcd for what is left. */

#include "check.h"

#define PENDING 100

static lh_client client;
static lh_error error;
static atomic_int called;

static void note(void *user_data, const lh_result *result) {
    (void)user_data;
    if (result->status == LH_OK) {
        int32_t status = lh_release(result->guard, NULL);
        CHECK(status == LH_OK || status == LH_LOST);
    } else {
        CHECK(result->status == LH_CLOSED);
    }
    called++;
}

static size_t waiting(void) {
    lh_contenders *contenders = NULL;
    OK(lh_client_queue(client, "/c/pending", &contenders, &error));
    size_t count = contenders->count;
    lh_contenders_free(contenders);
    return count;
}

static void close_all(void) {
    OK(lh_close_all(60000, &error));
    EVENTUALLY(called == PENDING);
}

int main(int argc, char **argv) {
    lh_guard guard;
    char lease[17];
    CHECK(argc == 3);
    OK(lh_client_open(argv[1], NULL, &client, &error));
    OK(lh_acquire(client, "/c/pending", NULL, &guard, &error));
    OK(lh_guard_lease(guard, lease, sizeof lease, NULL));
    puts(lease);
    for (int i = 0; i < PENDING; i++)
        OK(lh_acquire_async(client, i % 2 ? "/c/pending" : "/c/other", NULL, LH_CALLBACK_THREAD, note, NULL, NULL, &error));
    EVENTUALLY(waiting() == 1 + PENDING / 2);
    if (strcmp(argv[2], "close") == 0)
        CHECK(atexit(close_all) == 0);
    if (strcmp(argv[2], "return") != 0)
        exit(0);
    return 0;
}
