/* cycles URL CYCLES CANCELS: acquires and releases, and cancels acquires after 0 to 3 ms; then live handles, threads and
 * descriptors are where they began. Blocking and asynchronous forms take turns. */

#include "check.h"

static lh_client client;
static lh_error error;
static atomic_int done;
static atomic_int won, cancelled;

static void on_released(void *user_data, const lh_result *result) {
    (void)user_data;
    OK(result->status);
    atomic_fetch_add(&done, 1);
}

static void on_acquired(void *user_data, const lh_result *result) {
    (void)user_data;
    OK(result->status);
    OK(lh_guard_release_async(result->guard, LH_CALLBACK_THREAD, on_released, NULL, NULL, NULL));
    OK(lh_guard_free(result->guard));
}

static void cycle(int number) {
    if (number % 2) {
        lh_guard guard;
        OK(lh_acquire(client, "/c/cycles", NULL, &guard, &error));
        OK(lh_release(guard, &error));
    } else {
        int before = atomic_load(&done);
        OK(lh_acquire_async(client, "/c/cycles", NULL, LH_CALLBACK_THREAD, on_acquired, NULL, NULL, &error));
        for (int i = 0; atomic_load(&done) == before; i++) {
            CHECK(i < 1000000);
            pause_us(50);
        }
    }
}

static void note(int32_t status, lh_guard guard) {
    CHECK(status == LH_OK || status == LH_CANCELLED);
    if (status == LH_OK)
        OK(lh_release(guard, NULL));
    atomic_fetch_add(status == LH_OK ? &won : &cancelled, 1);
}

static void on_cancelled(void *user_data, const lh_result *result) {
    (void)user_data;
    note(result->status, result->guard);
}

static void *fire(void *user_data) {
    lh_cancel *cancel = user_data;
    pause_us(rand() % 3000);
    OK(lh_cancel_fire(*cancel));
    return NULL;
}

static void cancel_one(int number) {
    if (number % 2) {
        lh_acquire_opts opts = {.size = sizeof opts};
        lh_guard guard;
        pthread_t thread;
        OK(lh_cancel_new(&opts.cancel));
        CHECK(pthread_create(&thread, NULL, fire, &opts.cancel) == 0);
        int32_t status = lh_acquire(client, "/c/cancels", &opts, &guard, &error);
        note(status, guard);
        pthread_join(thread, NULL);
        OK(lh_cancel_free(opts.cancel));
    } else {
        lh_op op;
        OK(lh_acquire_async(client, "/c/cancels", NULL, LH_CALLBACK_THREAD, on_cancelled, NULL, &op, &error));
        pause_us(rand() % 3000);
        OK(lh_op_cancel(op));
    }
}

int main(int argc, char **argv) {
    CHECK(argc == 4);
    int cycles = atoi(argv[2]), cancels = atoi(argv[3]);
    OK(lh_client_open(argv[1], NULL, &client, &error));
    for (int i = 0; i < 10; i++)
        cycle(i); /* starts the threads, opens the connection */
    int threads = count_of("task"), descriptors = count_of("fd");
    for (int i = 0; i < cycles; i++)
        cycle(i);
    /* Half of the cancels meet a free lock, half a taken one. */
    for (int round = 0; round < 2; round++) {
        lh_guard holder = {0};
        if (round == 1)
            OK(lh_acquire(client, "/c/cancels", NULL, &holder, &error));
        for (int i = 0; i < cancels / 2; i++)
            cancel_one(i);
        EVENTUALLY(atomic_load(&won) + atomic_load(&cancelled) == (round + 1) * (cancels / 2));
        if (round == 1)
            OK(lh_release(holder, &error));
    }
    /* The queue is empty: nothing of what was cancelled stayed in etcd. */
    lh_contenders *left = NULL;
    EVENTUALLY((lh_contenders_free(left), lh_client_queue(client, "/c/cancels", &left, &error) == LH_OK && left->count == 0));
    lh_contenders_free(left);
    EVENTUALLY(live().operations == 0);
    CHECK(live().guards == 0);
    EVENTUALLY(count_of("task") <= threads && count_of("fd") <= descriptors);
    OK(lh_close(client, &error));
    EVENTUALLY(nothing_lives());
    printf("%d cycles, %d cancels: %d won, %d cancelled; %d threads, %d descriptors, as before\n", cycles, cancels, won,
           cancelled, threads - 2, descriptors - 2);
    return 0;
}
