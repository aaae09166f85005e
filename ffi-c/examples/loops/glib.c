/* The lock in GLib's main loop, as programs with GTK have it: callbacks run where the loop runs. */

#include <glib-unix.h>
#include <inttypes.h>
#include <leasehold.h>
#include <stdio.h>
#include <stdlib.h>

static GMainLoop *main_loop;
static lh_loop loop;

static void must(int32_t status, const char *message) {
    if (status != LH_OK) {
        fprintf(stderr, "%s: %s\n", lh_strerror(status), message);
        exit(1);
    }
}

/* Whatever of leasehold's waits is called here. What a bounded round leaves, the next turn of the loop finds. */
static gboolean on_readable(gint fd, GIOCondition condition, gpointer user_data) {
    (void)fd, (void)condition, (void)user_data;
    lh_dispatch(loop, NULL);
    return G_SOURCE_CONTINUE;
}

static void on_released(void *user_data, const lh_result *result) {
    (void)user_data;
    printf("released, %s\n", lh_strerror(result->status));
    g_main_loop_quit(main_loop);
}

/* Meanwhile the loop did something else. */
static gboolean on_worked(gpointer user_data) {
    lh_guard *guard = user_data;
    puts("some work");
    must(lh_guard_release_async(*guard, loop, on_released, NULL, NULL, NULL), "release");
    lh_guard_free(*guard); /* the handle; the release goes on */
    return G_SOURCE_REMOVE;
}

static void on_acquired(void *user_data, const lh_result *result) {
    lh_guard *guard = user_data;
    int64_t token;
    must(result->status, result->message);
    *guard = result->guard;
    lh_guard_token(*guard, &token);
    printf("held, token %" PRId64 "\n", token);
    g_timeout_add(1, on_worked, guard);
}

int main(int argc, char **argv) {
    const char *url = argc > 1 ? argv[1] : "http://127.0.0.1:2379";
    lh_client client;
    lh_guard guard;
    lh_error error;
    int fd;

    must(lh_client_open(url, NULL, &client, &error), error.message);
    must(lh_loop_open(&loop, &error), error.message);
    lh_poll_fd(loop, &fd);
    main_loop = g_main_loop_new(NULL, FALSE);
    guint source = g_unix_fd_add(fd, G_IO_IN, on_readable, NULL);

    must(lh_acquire_async(client, "/lock/glib", NULL, loop, on_acquired, &guard, NULL, &error), error.message);
    g_main_loop_run(main_loop);

    g_source_remove(source); /* before the descriptor is closed */
    lh_close(client, NULL);
    lh_loop_close(loop, NULL);
    g_main_loop_unref(main_loop);
    return 0;
}
