/* The lock in libuv's loop: its callbacks run on the loop's thread, and nothing else waits for them. */

#include <inttypes.h>
#include <leasehold.h>
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

static lh_client client;
static lh_loop loop;
static uv_poll_t readable;
static uv_timer_t ticking;
static int ticks;

static void must(int32_t status, const char *message) {
    if (status != LH_OK) {
        fprintf(stderr, "%s: %s\n", lh_strerror(status), message);
        exit(1);
    }
}

/* Whatever of leasehold's waits is called here. What a bounded round leaves, the next turn of the loop finds. */
static void on_readable(uv_poll_t *handle, int status, int events) {
    (void)handle, (void)status, (void)events;
    lh_dispatch(loop, NULL);
}

static void on_released(void *user_data, const lh_result *result) {
    (void)user_data;
    printf("released, %s\n", lh_strerror(result->status));
    /* Nothing is left to wait for: the loop ends by itself. The descriptor is leasehold's to close. */
    uv_close((uv_handle_t *)&readable, NULL);
    uv_close((uv_handle_t *)&ticking, NULL);
}

/* Meanwhile the loop did something else. */
static void on_worked(uv_timer_t *timer) {
    lh_guard *guard = timer->data;
    if (++ticks < 3)
        return;
    printf("%d steps of work\n", ticks);
    uv_timer_stop(timer);
    must(lh_guard_release_async(*guard, loop, on_released, NULL, NULL, NULL), "release");
    lh_guard_free(*guard); /* the handle; the release goes on */
}

static void on_acquired(void *user_data, const lh_result *result) {
    lh_guard *guard = user_data;
    int64_t token;
    must(result->status, result->message);
    *guard = result->guard;
    lh_guard_token(*guard, &token);
    printf("held, token %" PRId64 "\n", token);
    ticking.data = guard;
    uv_timer_start(&ticking, on_worked, 1, 1);
}

int main(int argc, char **argv) {
    const char *url = argc > 1 ? argv[1] : "http://127.0.0.1:2379";
    lh_guard guard;
    lh_error error;
    int fd;

    must(lh_client_open(url, NULL, &client, &error), error.message);
    must(lh_loop_open(&loop, &error), error.message);
    lh_poll_fd(loop, &fd);
    uv_poll_init(uv_default_loop(), &readable, fd);
    uv_poll_start(&readable, UV_READABLE, on_readable);
    uv_timer_init(uv_default_loop(), &ticking);

    must(lh_acquire_async(client, "/lock/libuv", NULL, loop, on_acquired, &guard, NULL, &error), error.message);
    uv_run(uv_default_loop(), UV_RUN_DEFAULT);

    lh_close(client, NULL);
    lh_loop_close(loop, NULL);
    return uv_loop_close(uv_default_loop()) == 0 ? 0 : 1;
}
