/* Panics and failures inside the library become statuses, and the library lives on. Built with the feature `testing`. */

#include "check.h"

int32_t lh_testing_panic(int32_t stage, lh_error *error);
int32_t lh_testing_fail(int32_t status, lh_error *error);
int32_t lh_testing_never_async(lh_loop loop, lh_callback callback, void *user_data, lh_op *op);
int32_t lh_testing_echo_async(lh_loop loop, lh_callback callback, void *user_data, lh_op *op);

static atomic_int calls, last;

static void note(void *user_data, const lh_result *result) {
    (void)user_data;
    atomic_store(&last, result->status);
    atomic_fetch_add(&calls, 1);
}

static int64_t ns_since(struct timespec begun) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (now.tv_sec - begun.tv_sec) * 1000000000LL + (now.tv_nsec - begun.tv_nsec);
}

static void cost_of_nothing(void) {
    enum { CALLS = 20000 };
    struct timespec begun;
    lh_client client;
    lh_guard guard;
    int64_t token;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    for (int i = 0; i < CALLS; i++)
        lh_abi_version();
    printf("a call that does nothing: %lld ns\n", (long long)ns_since(begun) / CALLS);
    OK(lh_client_open(MEMORY, NULL, &client, NULL));
    OK(lh_acquire(client, "n", NULL, &guard, NULL));
    clock_gettime(CLOCK_MONOTONIC, &begun);
    for (int i = 0; i < CALLS; i++)
        lh_guard_token(guard, &token);
    printf("a call that looks up a handle: %lld ns\n", (long long)ns_since(begun) / CALLS);
    clock_gettime(CLOCK_MONOTONIC, &begun);
    for (int i = 0; i < CALLS / 10; i++)
        lh_testing_fail(LH_NOT_ACQUIRED, NULL);
    printf("an operation that does nothing, blocking: %lld ns\n", (long long)ns_since(begun) / (CALLS / 10));
    OK(lh_release(guard, NULL));
    OK(lh_close(client, NULL));
}

int main(void) {
    lh_error error;
    lh_op op;
    for (int stage = 0; stage <= 4; stage++) {
        IS(LH_INTERNAL, lh_testing_panic(stage, &error));
        CHECK(error.code == LH_INTERNAL && strstr(error.message, "report"));
    }
    static const int32_t statuses[] = {10, 11, 12, 13, 14, 20, 21, 22, 30, 31, 32, 33, 34, 35, 36, 99};
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++)
        IS(statuses[i], lh_testing_fail(statuses[i], &error));
    OK(lh_testing_echo_async(LH_CALLBACK_THREAD, note, NULL, &op));
    EVENTUALLY(atomic_load(&calls) == 1 && atomic_load(&last) == LH_OK);
    OK(lh_testing_never_async(LH_CALLBACK_THREAD, note, NULL, &op));
    pause_us(10000);
    CHECK(atomic_load(&calls) == 1 && live().operations == 1);
    OK(lh_op_cancel(op));
    EVENTUALLY(atomic_load(&calls) == 2 && atomic_load(&last) == LH_CANCELLED);
    EVENTUALLY(nothing_lives());
    cost_of_nothing();
    return 0;
}
