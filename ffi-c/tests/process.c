/* What a program does with its process: signals that it waits for, destructors of threads, a loop around edges, and a sandbox that
 * allows no more threads. Needs no etcd. */

#include "check.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static lh_error error;

static void count(void *user_data, const lh_result *result) {
    (void)result;
    if (user_data)
        atomic_fetch_add((atomic_int *)user_data, 1);
}

/* A program that waits for a signal, as with sigwait or signalfd, is ended by it where one thread does not block it. */
static void signals_are_for_the_threads_of_the_program(void) {
    lh_client client;
    lh_guard guard;
    OK(lh_client_open(MEMORY, NULL, &client, &error));
    OK(lh_acquire(client, "signals", NULL, &guard, &error));
    atomic_int told = 0;
    OK(lh_guard_on_lost(guard, LH_CALLBACK_THREAD, count, &told, NULL, &error)); /* its thread starts before they are blocked */
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    OK(pthread_sigmask(SIG_BLOCK, &signals, NULL));
    CHECK(kill(getpid(), SIGTERM) == 0);
    int received = 0;
    CHECK(sigwait(&signals, &received) == 0 && received == SIGTERM);
    OK(lh_release(guard, &error));
    EVENTUALLY(atomic_load(&told) == 1);
    OK(lh_close(client, &error));
}

static pthread_key_t key;
static lh_client of_threads;
static atomic_int ended;

static void end(void *kept) {
    lh_guard *guard = kept;
    lh_error wrong;
    OK(lh_release(*guard, &wrong));
    OK(lh_acquire(of_threads, "threads", NULL, guard, &wrong)); /* waits, in a thread that has few of its variables left */
    OK(lh_guard_free(*guard));
    free(guard);
    atomic_fetch_add(&ended, 1);
}

static void *hold(void *unused) {
    (void)unused;
    lh_error wrong;
    lh_guard *guard = malloc(sizeof *guard);
    CHECK(guard);
    OK(lh_acquire(of_threads, "threads", NULL, guard, &wrong));
    CHECK(pthread_setspecific(key, guard) == 0);
    return NULL;
}

static void a_thread_may_release_and_acquire_in_its_destructors(void) {
    CHECK(pthread_key_create(&key, end) == 0);
    OK(lh_client_open(MEMORY, NULL, &of_threads, &error));
    pthread_t threads[8];
    for (int i = 0; i < 8; i++)
        CHECK(pthread_create(&threads[i], NULL, hold, NULL) == 0);
    for (int i = 0; i < 8; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(atomic_load(&ended) == 8);
    OK(lh_close(of_threads, &error));
}

/* A round of lh_dispatch is bounded: whoever is told of edges only must be told of what is left. */
static void a_loop_that_is_told_of_edges_hears_everything(void) {
    enum { OPERATIONS = 300 };
    lh_client client;
    lh_loop loop;
    int fd;
    atomic_int told = 0;
    OK(lh_client_open(MEMORY, NULL, &client, &error));
    OK(lh_loop_open(&loop, &error));
    OK(lh_poll_fd(loop, &fd));
    int poll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN | EPOLLET};
    CHECK(poll >= 0 && epoll_ctl(poll, EPOLL_CTL_ADD, fd, &event) == 0);
    for (int i = 0; i < OPERATIONS; i++)
        OK(lh_client_ping_async(client, loop, count, &told, NULL, &error));
    while (atomic_load(&told) < OPERATIONS) {
        int ready = epoll_wait(poll, &event, 1, 300000);
        CHECK(ready == 1 || (ready < 0 && errno == EINTR));
        OK(lh_dispatch(loop, NULL));
    }
    close(poll);
    OK(lh_loop_close(loop, &error));
    OK(lh_close(client, &error));
}

/* A child has no thread of the library yet, and can start none from here on. */
static void where_no_thread_can_be_started_that_is_said(void) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        struct sock_filter refuse[] = {
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 1, 0),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 1),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAGAIN),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        struct sock_fprog program = {sizeof refuse / sizeof refuse[0], refuse};
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
            _exit(77); /* inside another sandbox */
        lh_client client;
        lh_guard guard;
        OK(lh_client_open(MEMORY, NULL, &client, &error));
        IS(LH_RESOURCE_EXHAUSTED, lh_acquire(client, "sandbox", NULL, &guard, &error));
        CHECK(guard.id == 0 && strstr(error.message, "lh-io-0"));
        IS(LH_RESOURCE_EXHAUSTED, lh_acquire_async(client, "sandbox", NULL, LH_CALLBACK_THREAD, count, NULL, NULL, &error));
        CHECK(strstr(error.message, "lh-callback"));
        OK(lh_client_free(client));
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        puts("left out: a sandbox without threads, as none can be made here");
    else
        CHECK(WEXITSTATUS(status) == 0);
}

int main(void) {
    signals_are_for_the_threads_of_the_program();
    a_thread_may_release_and_acquire_in_its_destructors();
    a_loop_that_is_told_of_edges_hears_everything();
    where_no_thread_can_be_started_that_is_said();
    return 0;
}
