/* Whatever a program does wrong with the library, it gets a status: no crash, no hang, no second callback. Needs no etcd. */

#include "check.h"

#include <sys/mman.h>

static lh_error error;

/* --- NULL and zero handles in every function ------------------------------------------------------------------------- */

static void never_called(void *user_data, const lh_result *result) {
    (void)user_data, (void)result;
    CHECK(!"a callback of an operation that was refused");
}

static void handles_that_are_none(lh_client c, lh_guard g, lh_cancel k, lh_loop l) {
    lh_client client;
    lh_guard guard;
    lh_op op;
    lh_contenders *contenders;
    lh_committed *committed;
    lh_leader *leader;
    lh_wanted wanted = {.name = "n"};
    char text[LH_KEY_SIZE];
    const uint8_t *key = (const uint8_t *)"k";
    lh_txn_op get = {.kind = LH_TXN_GET, .key = key, .key_len = 1};
    lh_acquire_opts cancelled = {.size = sizeof cancelled, .wait_ms = 10, .cancel = k};
    int64_t number;
    uint64_t sequence;
    int32_t small;
    bool flag;
    int fd;
    size_t count;
#define BAD(call) IS(LH_INVALID_ARGUMENT, call)
#define THEN LH_CALLBACK_THREAD, never_called, NULL, &op, &error
    BAD(lh_client_close(c, &error));
    CHECK(error.code == LH_INVALID_ARGUMENT && strlen(error.message) > 10);
    BAD(lh_client_close_async(c, THEN));
    CHECK(op.id == 0);
    BAD(lh_close(c, &error));
    BAD(lh_client_free(c));
    BAD(lh_client_ping(c, &error));
    BAD(lh_client_ping_async(c, THEN));
    BAD(lh_client_identity(c, text, sizeof text, &count));
    BAD(lh_client_queue(c, "n", &contenders, &error));
    BAD(lh_client_queue_async(c, "n", THEN));
    BAD(lh_client_force_release(c, "n", 1, &error));
    BAD(lh_client_force_release_async(c, "n", 1, THEN));
    BAD(lh_client_on_state(c, THEN));
    BAD(lh_acquire(c, "n", NULL, &guard, &error));
    CHECK(guard.id == 0);
    BAD(lh_acquire_async(c, "n", NULL, THEN));
    BAD(lh_try_acquire(c, "n", NULL, &guard, &error));
    BAD(lh_try_acquire_async(c, "n", NULL, THEN));
    BAD(lh_acquire_all(c, &wanted, 1, NULL, &guard, &error));
    BAD(lh_acquire_all_async(c, &wanted, 1, NULL, THEN));
    BAD(lh_try_acquire_all(c, &wanted, 1, NULL, &guard, &error));
    BAD(lh_try_acquire_all_async(c, &wanted, 1, NULL, THEN));
    BAD(lh_campaign(c, "n", key, 1, NULL, &guard, &error));
    BAD(lh_campaign_async(c, "n", key, 1, NULL, THEN));
    BAD(lh_try_campaign(c, "n", key, 1, NULL, &guard, &error));
    BAD(lh_try_campaign_async(c, "n", key, 1, NULL, THEN));
    BAD(lh_client_leader(c, "n", &leader, &error));
    CHECK(leader == NULL);
    BAD(lh_client_leader_async(c, "n", THEN));
    BAD(lh_client_observe(c, "n", THEN));
    BAD(lh_client_metrics(c, text, sizeof text, &count));
    BAD(lh_guard_proclaim(g, key, 1, &error));
    BAD(lh_guard_proclaim_async(g, key, 1, THEN));
    BAD(lh_guard_key_count(g, &count));
    BAD(lh_guard_key_at(g, 0, text, sizeof text, NULL));
    BAD(lh_guard_release(g, &error));
    BAD(lh_guard_release_async(g, THEN));
    BAD(lh_release(g, &error));
    BAD(lh_guard_free(g));
    BAD(lh_guard_token(g, &number));
    BAD(lh_guard_sequence(g, &sequence));
    BAD(lh_guard_remaining(g, &number));
    BAD(lh_guard_loss_reason(g, &small));
    flag = true;
    BAD(lh_guard_held(g, &flag));
    CHECK(!flag);
    BAD(lh_guard_name(g, text, sizeof text, NULL));
    BAD(lh_guard_key(g, text, sizeof text, NULL));
    BAD(lh_guard_lease(g, text, sizeof text, NULL));
    BAD(lh_guard_extend(g, 5000, &error));
    BAD(lh_guard_extend_async(g, 5000, THEN));
    BAD(lh_guard_put(g, key, 1, key, 1, NULL, &error));
    BAD(lh_guard_put_async(g, key, 1, key, 1, THEN));
    BAD(lh_guard_delete(g, key, 1, NULL, &error));
    BAD(lh_guard_delete_async(g, key, 1, THEN));
    BAD(lh_guard_txn(g, &get, 1, &committed, &error));
    BAD(lh_guard_txn_async(g, &get, 1, THEN));
    BAD(lh_guard_on_lost(g, THEN));
    BAD(lh_cancel_fire(k));
    BAD(lh_cancel_free(k));
    BAD(lh_poll_fd(l, &fd));
    BAD(lh_dispatch(l, &count));
    BAD(lh_loop_close(l, &error));
    if (k.id != 0) {
        OK(lh_client_open(MEMORY, NULL, &client, &error));
        BAD(lh_acquire(client, "n", &cancelled, &guard, &error));
        BAD(lh_acquire_async(client, "n", NULL, l, never_called, NULL, &op, &error));
        OK(lh_close(client, &error));
    }
}

static void places_that_are_null(void) {
    lh_client client;
    lh_guard guard;
    lh_op op;
    lh_txn_op wrong = {.kind = 7, .key = (const uint8_t *)"k", .key_len = 1}, keyless = {.kind = LH_TXN_PUT, .key_len = 3};
    BAD(lh_client_open(MEMORY, NULL, NULL, &error));
    BAD(lh_client_open(NULL, NULL, &client, &error));
    OK(lh_client_open(MEMORY, NULL, &client, NULL));
    BAD(lh_acquire(client, NULL, NULL, &guard, NULL));
    BAD(lh_acquire(client, "n", NULL, NULL, &error));
    BAD(lh_acquire_async(client, "n", NULL, LH_CALLBACK_THREAD, NULL, NULL, &op, &error));
    BAD(lh_client_queue(client, "n", NULL, &error));
    BAD(lh_client_identity(client, NULL, 0, NULL));
    lh_wanted nameless = {.kind = LH_SHARED}, many[33], twice[2] = {{.name = "a"}, {.name = "a"}};
    for (int i = 0; i < 33; i++)
        many[i].kind = LH_MUTEX, many[i].permits = many[i].limit = 0, many[i].name = "abcdefghijklmnopqrstuvwxyz0123456" + i;
    BAD(lh_acquire_all(client, NULL, 1, NULL, &guard, &error));
    BAD(lh_acquire_all(client, NULL, 0, NULL, &guard, &error));
    BAD(lh_acquire_all(client, &nameless, 1, NULL, &guard, &error));
    BAD(lh_acquire_all(client, &nameless, SIZE_MAX, NULL, &guard, &error));
    BAD(lh_acquire_all(client, many, 33, NULL, &guard, &error));
    BAD(lh_acquire_all(client, twice, 2, NULL, &guard, &error));
    OK(lh_acquire_all(client, many, 32, NULL, &guard, &error));
    OK(lh_release(guard, &error));
    BAD(lh_campaign(client, "n", NULL, 1, NULL, &guard, &error));
    BAD(lh_campaign(client, NULL, NULL, 0, NULL, &guard, &error));
    BAD(lh_client_leader(client, "n", NULL, &error));
    BAD(lh_client_metrics(client, NULL, 0, NULL));
    OK(lh_acquire(client, "n", NULL, &guard, NULL));
    size_t count = 0;
    OK(lh_guard_key_count(guard, &count));
    CHECK(count == 1);
    BAD(lh_guard_key_count(guard, NULL));
    char key_text[LH_KEY_SIZE];
    BAD(lh_guard_key_at(guard, 1, key_text, sizeof key_text, NULL));
    OK(lh_guard_key_at(guard, 0, key_text, sizeof key_text, &count));
    BAD(lh_guard_token(guard, NULL));
    BAD(lh_guard_key(guard, NULL, 100, NULL));
    BAD(lh_guard_put(guard, NULL, 1, NULL, 0, NULL, &error));
    BAD(lh_guard_put(guard, (const uint8_t *)"k", 1, NULL, 1, NULL, &error));
    OK(lh_guard_put(guard, (const uint8_t *)"k", 1, NULL, 0, NULL, &error));
    BAD(lh_guard_txn(guard, NULL, 1, NULL, &error));
    BAD(lh_guard_txn(guard, &wrong, 1, NULL, &error));
    BAD(lh_guard_txn(guard, &keyless, 1, NULL, &error));
    BAD(lh_guard_txn(guard, &keyless, SIZE_MAX, NULL, &error));
    OK(lh_release(guard, NULL));
    BAD(lh_cancel_new(NULL));
    BAD(lh_loop_open(NULL, &error));
    BAD(lh_poll_fd(LH_CALLBACK_THREAD, NULL));
    BAD(lh_live_count(NULL));
    BAD(lh_op_cancel((lh_op){0}));
    BAD(lh_op_cancel((lh_op){UINT64_MAX}));
    BAD(lh_log_listen(0, LH_CALLBACK_THREAD, never_called, NULL, &error));
    BAD(lh_log_listen(LH_LEVEL_INFO, LH_CALLBACK_THREAD, NULL, NULL, &error));
    lh_contenders_free(NULL);
    lh_committed_free(NULL);
    lh_leader_free(NULL);
    OK(lh_close(client, NULL));
}

static void options_that_are_wrong(void) {
    lh_client client;
    lh_guard guard;
    lh_client_opts opts = {.ttl_ms = 5000};
    BAD(lh_client_open(MEMORY, &opts, &client, &error)); /* its size was forgotten */
    CHECK(strstr(error.message, "sizeof(lh_client_opts)"));
    opts.size = sizeof opts;
    opts.ttl_ms = -1;
    BAD(lh_client_open(MEMORY, &opts, &client, &error));
    opts.ttl_ms = INT64_MAX;
    BAD(lh_client_open(MEMORY, &opts, &client, &error));
    opts.ttl_ms = 0;
    opts.password = "secret";
    BAD(lh_client_open(MEMORY, &opts, &client, &error));
    CHECK(!strstr(error.message, "secret"));
    opts.user = "root";
    BAD(lh_client_open("http://192.0.2.1:1", &opts, &client, &error)); /* readable on the way */
    CHECK(strstr(error.message, "plaintext_password") && !strstr(error.message, "secret"));
    opts.plaintext_password = 1;
    CHECK(lh_client_open("http://192.0.2.1:1", &opts, &client, &error) == LH_OK);
    CHECK(lh_close(client, &error) == LH_OK);
    opts.plaintext_password = 0;
    opts.user = NULL;
    opts.password = NULL;
    opts.identity = "\xff\xfe";
    BAD(lh_client_open(MEMORY, &opts, &client, &error));
    CHECK(strstr(error.message, "UTF-8"));
    opts.identity = NULL;
    /* A size that nobody set, or that of a later version: refused before anything beyond it is read (see `sizes`). */
    opts.size = sizeof opts + 8;
    BAD(lh_client_open(MEMORY, &opts, &client, &error));
    CHECK(strstr(error.message, "sizeof(lh_client_opts)") && strstr(error.message, LH_VERSION));
    opts.size = sizeof opts;
    /* Waits at the end of the range. */
    OK(lh_client_open(MEMORY, NULL, &client, &error));
    lh_acquire_opts endless = {.size = sizeof endless, .wait_ms = INT64_MAX};
    OK(lh_acquire(client, "n", &endless, &guard, &error));
    lh_guard second;
    BAD(lh_try_acquire(client, "n", &endless, &second, &error)); /* a try does not wait */
    lh_acquire_opts kind = {.size = sizeof kind, .kind = 3}, permits = {.size = sizeof permits, .kind = LH_PERMITS};
    BAD(lh_acquire(client, "k", &kind, &second, &error));
    BAD(lh_acquire(client, "k", &permits, &second, &error)); /* of how many? */
    permits.permits = 4, permits.limit = 3;
    BAD(lh_acquire(client, "k", &permits, &second, &error));
    permits.limit = UINT32_MAX;
    BAD(lh_acquire(client, "k", &permits, &second, &error));
    kind.kind = LH_SHARED, kind.limit = 2;
    BAD(lh_acquire(client, "k", &kind, &second, &error));
    kind.limit = 0, kind.linger_ms = -1;
    BAD(lh_acquire(client, "k", &kind, &second, &error));
    kind.linger_ms = 0, kind.local_turns = 3; /* of what? */
    BAD(lh_acquire(client, "k", &kind, &second, &error));
    endless.wait_ms = -2;
    BAD(lh_acquire(client, "n", &endless, &second, &error)); /* what is left of a deadline that has passed */
    endless.wait_ms = 0;
    IS(LH_NOT_ACQUIRED, lh_try_acquire(client, "n", &endless, &second, &error));
    IS(LH_NOT_ACQUIRED, lh_try_acquire(client, "n", NULL, &second, &error));
    endless.wait_ms = 1;
    IS(LH_NOT_ACQUIRED, lh_acquire(client, "n", &endless, &second, &error));
    BAD(lh_guard_extend(guard, INT64_MIN, &error));
    BAD(lh_guard_extend(guard, INT64_MAX, &error));
    BAD(lh_acquire(client, "\xff", NULL, &second, &error));
    OK(lh_release(guard, &error));
    OK(lh_close(client, &error));
}

/* A struct at the end of the memory that may be read: whoever looks beyond its size crashes. */
static void sizes(void) {
    long page = sysconf(_SC_PAGESIZE);
    char *end = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(end != MAP_FAILED && mprotect(end + page, page, PROT_NONE) == 0);
    lh_client client;
    lh_guard guard;
    lh_error error;
    OK(lh_client_open(MEMORY, NULL, &client, &error));
    /* Nothing but the size is there. */
    for (size_t wrong = 1; wrong; wrong <<= 1) {
        size_t *size = (size_t *)(end + page - sizeof *size);
        *size = wrong == sizeof(lh_acquire_opts) ? 0 : wrong;
        BAD(lh_acquire(client, "n", (lh_acquire_opts *)size, &guard, &error));
        *size = wrong == sizeof(lh_client_opts) ? 0 : wrong;
        BAD(lh_client_open(MEMORY, (lh_client_opts *)size, &(lh_client){0}, &error));
        *size = wrong == sizeof(lh_live) ? 0 : wrong;
        BAD(lh_live_count((lh_live *)size));
    }
    /* And all of it. */
    lh_acquire_opts *whole = (lh_acquire_opts *)(end + page - sizeof *whole);
    *whole = (lh_acquire_opts){.size = sizeof *whole};
    OK(lh_acquire(client, "n", whole, &guard, &error));
    lh_live *counted = (lh_live *)(end + page - sizeof *counted);
    *counted = (lh_live){.size = sizeof *counted};
    OK(lh_live_count(counted));
    CHECK(counted->guards == 1 && counted->size == sizeof *counted);
    OK(lh_release(guard, &error));
    OK(lh_close(client, &error));
    munmap(end, 2 * page);
}

/* --- the life of handles --------------------------------------------------------------------------------------------- */

static void *release_elsewhere(void *guard) {
    OK(lh_guard_release(*(lh_guard *)guard, NULL));
    return NULL;
}

static void lives_that_end_twice(void) {
    lh_client client;
    lh_guard guard;
    bool held;
    int64_t token;
    char text[4];
    size_t needed;
    pthread_t thread;
    OK(lh_client_open(MEMORY, NULL, &client, &error));
    OK(lh_acquire(client, "n", NULL, &guard, &error));
    BAD(lh_guard_key(guard, text, sizeof text, &needed));
    CHECK(needed > sizeof text && text[0] == '\0');
    /* Release from another thread, then again here. */
    CHECK(pthread_create(&thread, NULL, release_elsewhere, &guard) == 0);
    pthread_join(thread, NULL);
    IS(LH_NOT_HELD, lh_guard_release(guard, &error));
    IS(LH_NOT_HELD, lh_guard_put(guard, (const uint8_t *)"k", 1, NULL, 0, NULL, &error));
    OK(lh_guard_held(guard, &held));
    CHECK(!held);
    OK(lh_guard_token(guard, &token));
    CHECK(token > 0);
    OK(lh_guard_free(guard));
    BAD(lh_guard_free(guard));
    BAD(lh_release(guard, &error));
    BAD(lh_guard_token(guard, &token));
    CHECK(token == 0);
    /* lh_release twice, and a guard that takes the freed one's place is not hit by it. */
    OK(lh_acquire(client, "n", NULL, &guard, &error));
    OK(lh_release(guard, &error));
    lh_guard other;
    OK(lh_acquire(client, "n", NULL, &other, &error));
    BAD(lh_release(guard, &error));
    OK(lh_guard_held(other, &held));
    CHECK(held);
    /* A closed client. */
    OK(lh_client_close(client, &error));
    OK(lh_client_close(client, &error));
    IS(LH_LOST, lh_guard_release(other, &error));
    CHECK(error.reason == LH_LOST_CLIENT_CLOSED);
    OK(lh_guard_free(other));
    IS(LH_CLOSED, lh_acquire(client, "n", NULL, &guard, &error));
    IS(LH_CLOSED, lh_client_ping(client, &error));
    OK(lh_client_free(client));
    BAD(lh_client_free(client));
    BAD(lh_client_close(client, &error));
    BAD(lh_acquire(client, "n", NULL, &guard, &error));
    /* A guard outlives the handle of its client. */
    OK(lh_client_open(MEMORY, NULL, &client, &error));
    OK(lh_acquire(client, "n", NULL, &guard, &error));
    OK(lh_client_free(client));
    OK(lh_guard_held(guard, &held));
    CHECK(held);
    OK(lh_release(guard, &error));
}

/* --- closing while operations are pending ---------------------------------------------------------------------------- */

#define MANY 100

struct seen {
    atomic_int calls, status;
};

static void note(void *user_data, const lh_result *result) {
    struct seen *seen = user_data;
    atomic_store(&seen->status, result->status);
    CHECK(result->is_last && result->op.id != 0 && result->message);
    if (result->guard.id)
        lh_guard_free(result->guard);
    atomic_fetch_add(&seen->calls, 1);
}

static int sum(struct seen *seen) {
    int calls = 0;
    for (int i = 0; i < MANY; i++)
        calls += atomic_load(&seen[i].calls);
    return calls;
}

static void each_is_called_once(struct seen *seen, int32_t status) {
    EVENTUALLY(sum(seen) >= MANY);
    EVENTUALLY(live().operations == 0);
    for (int i = 0; i < MANY; i++)
        CHECK(atomic_load(&seen[i].calls) == 1 && atomic_load(&seen[i].status) == status);
}

static void a_client_closed_under_pending_operations(void) {
    struct seen seen[MANY] = {0};
    lh_client client;
    lh_guard guard;
    OK(lh_client_open(MEMORY, NULL, &client, &error));
    OK(lh_acquire(client, "n", NULL, &guard, &error));
    for (int i = 0; i < MANY; i++)
        OK(lh_acquire_async(client, "n", NULL, LH_CALLBACK_THREAD, note, &seen[i], NULL, &error));
    OK(lh_close(client, &error));
    each_is_called_once(seen, LH_CLOSED);
    OK(lh_guard_free(guard));
}

static void a_loop_closed_under_pending_operations(void) {
    struct seen seen[MANY] = {0};
    lh_client client;
    lh_guard guard;
    lh_loop loop;
    lh_op op;
    size_t count;
    int fd;
    OK(lh_client_open(MEMORY, NULL, &client, &error));
    OK(lh_acquire(client, "n", NULL, &guard, &error));
    OK(lh_loop_open(&loop, &error));
    OK(lh_poll_fd(loop, &fd));
    for (int i = 0; i < MANY; i++)
        OK(lh_acquire_async(client, "n", NULL, loop, note, &seen[i], &op, &error));
    OK(lh_dispatch(loop, &count));
    CHECK(count == 0 && sum(seen) == 0);
    OK(lh_loop_close(loop, &error));
    CHECK(sum(seen) == MANY);
    each_is_called_once(seen, LH_CLOSED);
    BAD(lh_loop_close(loop, &error));
    BAD(lh_dispatch(loop, NULL));
    BAD(lh_acquire_async(client, "n", NULL, loop, never_called, NULL, NULL, &error));
    OK(lh_op_cancel(op)); /* over: no effect */
    OK(lh_release(guard, &error));
    /* Nobody is left in front. */
    EVENTUALLY(lh_try_acquire(client, "n", NULL, &guard, &error) == LH_OK);
    OK(lh_close(client, &error));
    OK(lh_guard_free(guard));
}

static void operations_cancelled_one_by_one(void) {
    struct seen seen[MANY] = {0};
    lh_op ops[MANY];
    lh_client client;
    lh_guard guard;
    OK(lh_client_open(MEMORY, NULL, &client, &error));
    OK(lh_acquire(client, "n", NULL, &guard, &error));
    for (int i = 0; i < MANY; i++)
        OK(lh_acquire_async(client, "n", NULL, LH_CALLBACK_THREAD, note, &seen[i], &ops[i], &error));
    for (int i = 0; i < MANY; i++) {
        OK(lh_op_cancel(ops[i]));
        OK(lh_op_cancel(ops[i]));
    }
    each_is_called_once(seen, LH_CANCELLED);
    OK(lh_release(guard, &error));
    OK(lh_close(client, &error));
}

/* --- a callback that calls back in ----------------------------------------------------------------------------------- */

struct nest {
    lh_client client;
    pthread_t starter;
    atomic_int depth;
};

static void nested(void *user_data, const lh_result *result) {
    struct nest *nest = user_data;
    OK(result->status);
    CHECK(!pthread_equal(pthread_self(), nest->starter)); /* never inline */
    char name[16] = "";
    CHECK(pthread_getname_np(pthread_self(), name, sizeof name) == 0 && strcmp(name, "lh-callback") == 0);
    /* Blocking calls, and the next asynchronous one, from inside. */
    OK(lh_release(result->guard, NULL));
    OK(lh_client_ping(nest->client, NULL));
    if (atomic_fetch_add(&nest->depth, 1) < 20)
        OK(lh_acquire_async(nest->client, "nest", NULL, LH_CALLBACK_THREAD, nested, nest, NULL, NULL));
}

static void a_callback_that_calls_back_in(void) {
    struct nest nest = {.starter = pthread_self()};
    OK(lh_client_open(MEMORY, NULL, &nest.client, &error));
    OK(lh_acquire_async(nest.client, "nest", NULL, LH_CALLBACK_THREAD, nested, &nest, NULL, &error));
    EVENTUALLY(atomic_load(&nest.depth) == 21);
    EVENTUALLY(live().operations == 0);
    OK(lh_close(nest.client, &error));
}

/* --- handles freed and used by several threads at once ---------------------------------------------------------------- */

static void *hammer(void *user_data) {
    lh_guard *guard = user_data;
    for (int i = 0; i < 4000; i++) {
        int64_t token;
        bool held;
        int32_t status = lh_guard_token(*guard, &token);
        CHECK(status == LH_OK || status == LH_INVALID_ARGUMENT);
        lh_guard_held(*guard, &held);
        if (i % 50 == 0)
            lh_guard_put(*guard, (const uint8_t *)"k", 1, NULL, 0, NULL, NULL);
    }
    return NULL;
}

static void a_guard_freed_while_others_use_it(void) {
    lh_client client;
    lh_guard guard;
    pthread_t threads[4];
    OK(lh_client_open(MEMORY, NULL, &client, &error));
    OK(lh_acquire(client, "n", NULL, &guard, &error));
    for (int i = 0; i < 4; i++)
        CHECK(pthread_create(&threads[i], NULL, hammer, &guard) == 0);
    pause_us(3000);
    OK(lh_release(guard, &error));
    OK(lh_close(client, &error));
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
}

/* --- states, logs and losses end once --------------------------------------------------------------------------------- */

static atomic_int states, last_state, ends, losses, releases;

static void on_state(void *user_data, const lh_result *result) {
    (void)user_data;
    if (result->state) {
        atomic_fetch_add(&states, 1);
        atomic_store(&last_state, result->state);
    }
    if (result->is_last)
        atomic_fetch_add(&ends, 1);
}

static void on_lost(void *user_data, const lh_result *result) {
    (void)user_data;
    CHECK(result->is_last);
    atomic_fetch_add(result->reason ? &losses : &releases, 1);
}

static void listeners_hear_the_end(void) {
    lh_client client;
    lh_guard guard;
    OK(lh_client_open(MEMORY, NULL, &client, &error));
    OK(lh_client_on_state(client, LH_CALLBACK_THREAD, on_state, NULL, NULL, &error));
    OK(lh_log_listen(LH_LEVEL_TRACE, LH_CALLBACK_THREAD, on_state, NULL, &error));
    OK(lh_acquire(client, "n", NULL, &guard, &error));
    OK(lh_guard_on_lost(guard, LH_CALLBACK_THREAD, on_lost, NULL, NULL, &error));
    OK(lh_release(guard, &error));
    EVENTUALLY(atomic_load(&releases) == 1);
    OK(lh_acquire(client, "n", NULL, &guard, &error));
    OK(lh_guard_on_lost(guard, LH_CALLBACK_THREAD, on_lost, NULL, NULL, &error));
    OK(lh_close(client, &error));
    OK(lh_guard_free(guard));
    EVENTUALLY(atomic_load(&losses) == 1 && atomic_load(&ends) == 1);
    CHECK(atomic_load(&last_state) == LH_STATE_LOST);
    OK(lh_log_stop());
    EVENTUALLY(atomic_load(&ends) == 2);
    OK(lh_log_stop());
    CHECK(atomic_load(&releases) == 1 && atomic_load(&losses) == 1);
}

/* --- threads that are cancelled ---------------------------------------------------------------------------------------- */

static void *take_turns(void *client) {
    for (;;) {
        lh_guard guard;
        OK(lh_acquire(*(lh_client *)client, "n", NULL, &guard, NULL));
        OK(lh_release(guard, NULL));
        pthread_testcancel();
    }
    return NULL;
}

/* The call comes to its end first: it does not unwind through the library, and keeps no lock that nobody knows. */
static void a_thread_that_is_cancelled_in_a_call(void) {
    lh_client client;
    lh_guard guard;
    pthread_t thread;
    void *how;
    OK(lh_client_open(MEMORY, NULL, &client, &error));
    for (int i = 0; i < 100; i++) {
        CHECK(pthread_create(&thread, NULL, take_turns, &client) == 0);
        pause_us(i * 10);
        CHECK(pthread_cancel(thread) == 0 && pthread_join(thread, &how) == 0 && how == PTHREAD_CANCELED);
    }
    OK(lh_acquire(client, "n", NULL, &guard, &error));
    OK(lh_release(guard, &error));
    OK(lh_close(client, &error));
}

int main(void) {
    CHECK(lh_abi_version() == LH_ABI_VERSION);
    handles_that_are_none((lh_client){0}, (lh_guard){0}, (lh_cancel){0}, (lh_loop){0});
    handles_that_are_none((lh_client){0x100000007}, (lh_guard){0x100000007}, (lh_cancel){0x100000007}, (lh_loop){0x100000007});
    handles_that_are_none((lh_client){UINT64_MAX}, (lh_guard){UINT64_MAX}, (lh_cancel){UINT64_MAX}, (lh_loop){UINT64_MAX});
    places_that_are_null();
    options_that_are_wrong();
    sizes();
    lives_that_end_twice();
    a_client_closed_under_pending_operations();
    a_loop_closed_under_pending_operations();
    operations_cancelled_one_by_one();
    a_callback_that_calls_back_in();
    a_guard_freed_while_others_use_it();
    listeners_hear_the_end();
    a_thread_that_is_cancelled_in_a_call();
    OK(lh_close_all(-1, &error));
    EVENTUALLY(nothing_lives());
    return 0;
}
