/* pending URL HOW: ends with a hundred operations pending: by `return` from main, by `exit`, or by `close` in an exit handler. */

#include "check.h"

static lh_client client;
static lh_error error;

static void note(void *user_data, const lh_result *result) {
    (void)user_data;
    if (result->guard.id)
        lh_release(result->guard, NULL);
}

static void close_all(void) { lh_close_all(2000, NULL); }

int main(int argc, char **argv) {
    lh_guard guard;
    CHECK(argc == 3);
    OK(lh_client_open(argv[1], NULL, &client, &error));
    OK(lh_acquire(client, "/c/pending", NULL, &guard, &error));
    for (int i = 0; i < 100; i++)
        OK(lh_acquire_async(client, i % 2 ? "/c/pending" : "/c/other", NULL, LH_CALLBACK_THREAD, note, NULL, NULL, &error));
    if (strcmp(argv[2], "close") == 0)
        atexit(close_all);
    if (strcmp(argv[2], "return") != 0)
        exit(0);
    return 0;
}
