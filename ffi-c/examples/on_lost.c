/* Works in small steps and stops when the lock is lost: an operator takes it away. */

#include <inttypes.h>
#include <leasehold.h>
#include <stdatomic.h>
#include <stdio.h>

static atomic_int reason;

/* On the thread lh-callback. For a released guard it is called, too, with a reason of 0. */
static void on_lost(void *user_data, const lh_result *result) {
    (void)user_data;
    atomic_store(&reason, result->reason);
}

int main(int argc, char **argv) {
    const char *url = argc > 1 ? argv[1] : "http://127.0.0.1:2379";
    lh_client client, operator_s;
    lh_guard guard;
    lh_error error;
    int64_t token;

    if (lh_client_open(url, NULL, &client, &error) != LH_OK || lh_client_open(url, NULL, &operator_s, &error) != LH_OK ||
        lh_acquire(client, "/lock/long-work", NULL, &guard, &error) != LH_OK) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    lh_guard_on_lost(guard, LH_CALLBACK_THREAD, on_lost, NULL, NULL, NULL);

    lh_guard_token(guard, &token);
    lh_client_force_release(operator_s, "/lock/long-work", token, NULL);

    unsigned long steps = 0;
    while (atomic_load(&reason) == 0)
        steps++; /* one step of the work */
    printf("stopped: %s\n", lh_reason_name(atomic_load(&reason)));

    int32_t status = lh_release(guard, &error);
    printf("release: %s\n", lh_strerror(status));
    lh_close(operator_s, NULL);
    lh_close(client, NULL);
    return status == LH_LOST ? 0 : 1;
}
