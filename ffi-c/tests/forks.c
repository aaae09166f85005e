/* forks URL COUNT: a child uses its parent's client (with a session of its own) and guard (LH_FORKED, and nothing happens to
 * the parent's hold), while threads of the parent acquire. No child hangs. */

#include "check.h"
#include <sys/wait.h>

static lh_client client;
static lh_guard held;
static lh_loop loop;
static lh_cancel cancel;
static lh_error error;
static atomic_int stop;

static void *acquire_all_the_time(void *user_data) {
    char name[32];
    snprintf(name, sizeof name, "/c/forks/%ld", (long)(intptr_t)user_data);
    while (!atomic_load(&stop)) {
        lh_guard guard;
        OK(lh_acquire(client, name, NULL, &guard, NULL));
        OK(lh_release(guard, NULL));
    }
    return NULL;
}

static void never_called(void *user_data, const lh_result *result) {
    (void)user_data, (void)result;
    CHECK(!"a callback of the parent's in the child");
}

static atomic_int called;

static void on_acquired(void *user_data, const lh_result *result) {
    (void)user_data;
    OK(result->status);
    OK(lh_release(result->guard, NULL));
    atomic_fetch_add(&called, 1);
}

static void child(bool uses_the_client) {
    bool is_held = true;
    int32_t reason;
    int fd;
    alarm(90); /* a hang is a failure */
    OK(lh_guard_held(held, &is_held));
    CHECK(!is_held);
    OK(lh_guard_loss_reason(held, &reason));
    CHECK(reason == LH_LOST_FORKED);
    IS(LH_FORKED, lh_guard_release(held, &error));
    IS(LH_FORKED, lh_guard_put(held, (const uint8_t *)"k", 1, NULL, 0, NULL, &error));
    IS(LH_FORKED, lh_poll_fd(loop, &fd));
    IS(LH_FORKED, lh_dispatch(loop, NULL));
    IS(LH_FORKED, lh_acquire_async(client, "/c/forks/child", NULL, loop, never_called, NULL, NULL, &error));
    IS(LH_FORKED, lh_release(held, &error));
    if (uses_the_client) {
        lh_guard guard;
        lh_acquire_opts opts = {.size = sizeof opts, .wait_ms = 60000, .cancel = cancel};
        OK(lh_acquire(client, "/c/forks/child", &opts, &guard, &error));
        OK(lh_release(guard, &error));
        OK(lh_acquire_async(client, "/c/forks/child", NULL, LH_CALLBACK_THREAD, on_acquired, NULL, NULL, &error));
        EVENTUALLY(atomic_load(&called) == 1);
        OK(lh_close(client, &error));
    }
    _exit(0);
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    int count = atoi(argv[2]);
    pthread_t threads[3];
    int64_t token, after;
    bool is_held;
    OK(lh_client_open(argv[1], NULL, &client, &error));
    OK(lh_cancel_new(&cancel));
    OK(lh_loop_open(&loop, &error));
    OK(lh_acquire(client, "/c/forks/held", NULL, &held, &error));
    OK(lh_guard_token(held, &token));
    /* Something of the callback thread's that the child must not see. */
    OK(lh_guard_on_lost(held, LH_CALLBACK_THREAD, never_called, NULL, NULL, &error));
    for (intptr_t i = 0; i < 3; i++)
        CHECK(pthread_create(&threads[i], NULL, acquire_all_the_time, (void *)i) == 0);
    for (int i = 0; i < count; i++) {
        int status;
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0)
            child(i % 10 == 0);
        CHECK(waitpid(pid, &status, 0) == pid);
        if (status != 0)
            fprintf(stderr, "child %d ended with %s %d\n", i, WIFSIGNALED(status) ? "signal" : "code",
                    WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
        CHECK(status == 0);
    }
    atomic_store(&stop, 1);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    /* The parent still holds, with the same token: etcd says so, too. */
    OK(lh_guard_held(held, &is_held));
    CHECK(is_held);
    lh_contenders *queue;
    OK(lh_client_queue(client, "/c/forks/held", &queue, &error));
    CHECK(queue->count == 1);
    after = queue->items[0]->token;
    CHECK(after == token);
    lh_contenders_free(queue);
    OK(lh_guard_put(held, (const uint8_t *)"/c/forks/data", 13, NULL, 0, NULL, &error));
    printf("%d forks while three threads acquired: no hang, and the parent held throughout\n", count);
    fflush(stdout);
    _exit(0);
}
