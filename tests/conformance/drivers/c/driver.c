/* The conformance driver of the C API: one JSON request a line on stdin, replies and events on stdout.
 *
 * It does no locking, waiting or retrying of its own. Operations are asynchronous, and their callbacks answer; a blocking
 * acquire (`via` is `sync`) has a thread of its own and a cancel handle. At the end of the input it ends at once and
 * releases nothing. Clients, holds and operations are kept as numbers in JSON objects, by name. */

#define _GNU_SOURCE
#include <jansson.h>
#include <leasehold.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Of the protocol, not of leasehold. */
#define BAD_REQUEST "BAD_REQUEST"

static json_t *clients, *holds, *operations;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* A request on its way: what its callback needs. */
struct call {
    json_t *id;
    char *hold;
    /* Of a blocking acquire. */
    lh_client client;
    char *name;
    lh_acquire_opts opts;
};

static json_int_t mono_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (json_int_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void say(json_t *message) {
    char *text = json_dumps(message, JSON_COMPACT);
    pthread_mutex_lock(&lock);
    if (!text || puts(text) < 0 || fflush(stdout) != 0)
        _exit(1); /* nobody listens any more */
    pthread_mutex_unlock(&lock);
    free(text);
    json_decref(message);
}

static void answer(json_t *id, json_int_t when, json_t *fields) {
    json_object_set_new(fields, "ok", json_boolean(!json_object_get(fields, "code")));
    json_object_set(fields, "id", id);
    json_object_set_new(fields, "mono_ns", json_integer(when));
    say(fields);
}

static json_t *failure(const char *code, const char *message) {
    return json_pack("{ssss}", "code", code, "message", message);
}

/* --- the fields of a request; whatever is wrong with one ends in the loop of main ------------------------------------ */

static jmp_buf refused;
static char refusal_code[32], refusal_message[1200];

_Noreturn static void refuse(const char *code, const char *format, ...) {
    va_list values;
    va_start(values, format);
    snprintf(refusal_code, sizeof refusal_code, "%s", code);
    vsnprintf(refusal_message, sizeof refusal_message, format, values);
    va_end(values);
    longjmp(refused, 1);
}

static json_t *field(json_t *request, const char *name, bool required) {
    json_t *value = json_object_get(request, name);
    if (json_is_null(value))
        value = NULL;
    if (!value && required)
        refuse(BAD_REQUEST, "the field \"%s\" is missing", name);
    return value;
}

static const char *c_text(json_t *value, const char *name) {
    if (!json_is_string(value))
        refuse(BAD_REQUEST, "the field \"%s\" must be a text", name);
    /* C has no such text. */
    if (strlen(json_string_value(value)) != json_string_length(value))
        refuse("INVALID_ARGUMENT", "the field \"%s\" contains a NUL byte", name);
    return json_string_value(value);
}

static const char *text(json_t *request, const char *name) { return c_text(field(request, name, true), name); }

static const char *optional_text(json_t *request, const char *name) {
    json_t *value = field(request, name, false);
    return value ? c_text(value, name) : NULL;
}

static int64_t integer(json_t *value, const char *name) {
    if (!json_is_integer(value))
        refuse(BAD_REQUEST, "the field \"%s\" must be a whole number", name);
    return json_integer_value(value);
}

/* An option in milliseconds. In C, 0 says that it is not set, so a 0 that somebody asks for cannot be given. */
static int64_t option_ms(json_t *request, const char *name) {
    json_t *value = field(request, name, false);
    if (value && integer(value, name) == 0)
        refuse("INVALID_ARGUMENT", "the option %s (TTL or timeout) cannot be 0, which says in C that it is not set", name);
    return value ? json_integer_value(value) : 0;
}

static bool is_false(json_t *request, const char *name) {
    json_t *value = field(request, name, false);
    if (value && !json_is_boolean(value))
        refuse(BAD_REQUEST, "the field \"%s\" must be true or false", name);
    return json_is_false(value);
}

static uint64_t look_up(json_t *table, const char *name) {
    pthread_mutex_lock(&lock);
    uint64_t found = (uint64_t)json_integer_value(json_object_get(table, name));
    pthread_mutex_unlock(&lock);
    return found;
}

static void keep(json_t *table, const char *name, uint64_t number) {
    pthread_mutex_lock(&lock);
    json_object_set_new(table, name, json_integer((json_int_t)number));
    pthread_mutex_unlock(&lock);
}

static lh_client client_of(json_t *request) {
    const char *name = text(request, "client");
    lh_client client = {look_up(clients, name)};
    if (!client.id)
        refuse(BAD_REQUEST, "no client \"%s\" was opened", name);
    return client;
}

static lh_guard guard_of(json_t *request) {
    lh_guard guard = {look_up(holds, text(request, "hold"))};
    if (!guard.id)
        refuse("NOT_HELD", "there is no such hold");
    return guard;
}

/* --- answers --------------------------------------------------------------------------------------------------------- */

static void finish(struct call *call) {
    json_decref(call->id);
    free(call->hold);
    free(call->name);
    free(call);
}

static json_t *acquired(const char *hold, lh_guard guard) {
    int64_t token, remaining;
    uint64_t sequence;
    char key[LH_KEY_SIZE], lease[17];
    lh_guard_token(guard, &token);
    lh_guard_sequence(guard, &sequence);
    lh_guard_remaining(guard, &remaining);
    lh_guard_key(guard, key, sizeof key, NULL);
    lh_guard_lease(guard, lease, sizeof lease, NULL);
    keep(holds, hold, guard.id);
    return json_pack("{sssIsIsssI}", "key", key, "token", (json_int_t)token, "sequence", (json_int_t)sequence, "lease",
                     lease, "remaining_ms", (json_int_t)remaining);
}

static void on_done(void *user_data, const lh_result *result) {
    json_int_t when = mono_ns();
    struct call *call = user_data;
    json_t *fields = json_object();
    if (result->status != LH_OK) {
        json_object_update_new(fields, failure(lh_strerror(result->status), result->message));
    } else if (call->hold) {
        json_object_update_new(fields, acquired(call->hold, result->guard));
    } else if (result->contenders) {
        json_t *list = json_array();
        for (size_t i = 0; i < result->contenders->count; i++) {
            const lh_contender *one = result->contenders->items[i];
            json_array_append_new(list, json_pack("{sssIss?ss?sb}", "key", one->key, "token", (json_int_t)one->token, "lease",
                                                  one->lease, "identity", one->identity, "foreign", one->foreign));
        }
        json_object_set_new(fields, "contenders", list);
    }
    answer(call->id, when, fields);
    finish(call);
}

static void on_lost(void *user_data, const lh_result *result) {
    json_int_t when = mono_ns();
    struct call *call = user_data;
    if (result->reason)
        say(json_pack("{sssssssI}", "event", "lost", "hold", call->hold, "reason", lh_reason_name(result->reason), "mono_ns",
                      when));
    finish(call);
}

static void *acquire_here(void *user_data) {
    struct call *call = user_data;
    lh_guard guard;
    lh_error error;
    int32_t status = lh_acquire(call->client, call->name, &call->opts, &guard, &error);
    json_int_t when = mono_ns();
    answer(call->id, when,
           status == LH_OK ? acquired(call->hold, guard) : failure(lh_strerror(status), error.message));
    finish(call);
    return NULL;
}

/* --- requests -------------------------------------------------------------------------------------------------------- */

static char *id_text(json_t *id) { return json_dumps(id, JSON_ENCODE_ANY); }

/* What `cancel` finds: an operation, or, below 0, the cancel handle of a blocking call. */
static void keep_operation(json_t *id, int64_t number) {
    char *name = id_text(id);
    keep(operations, name, (uint64_t)number);
    free(name);
}

static void open_client(json_t *request) {
    lh_client_opts opts = {
        .size = sizeof opts,
        .ttl_ms = option_ms(request, "ttl_ms"),
        .namespace_ = optional_text(request, "namespace"),
        .identity = optional_text(request, "identity"),
        .user = optional_text(request, "user"),
        .password = optional_text(request, "password"),
        .ca_file = optional_text(request, "ca_file"),
        .cert_file = optional_text(request, "cert_file"),
        .key_file = optional_text(request, "key_file"),
        .connect_timeout_ms = option_ms(request, "connect_timeout_ms"),
        .request_timeout_ms = option_ms(request, "request_timeout_ms"),
    };
    json_t *endpoints = field(request, "endpoints", true), *endpoint;
    char url[4096] = "";
    size_t i;
    if (!json_is_array(endpoints))
        refuse(BAD_REQUEST, "the field \"endpoints\" must be a list of texts");
    json_array_foreach(endpoints, i, endpoint) {
        size_t used = strlen(url);
        snprintf(url + used, sizeof url - used, "%s%s", i ? "," : "", c_text(endpoint, "endpoints"));
    }
    lh_client client;
    lh_error error;
    const char *name = text(request, "client");
    int32_t status = lh_client_open(url, &opts, &client, &error);
    if (status != LH_OK)
        refuse(lh_strerror(status), "%s", error.message);
    keep(clients, name, client.id);
}

static void acquire(json_t *id, json_t *request, struct call *call) {
    const char *kind = optional_text(request, "kind"), *mode = optional_text(request, "mode");
    const char *via = optional_text(request, "via"), *name = text(request, "lock"), *hold = text(request, "hold");
    json_t *wait = field(request, "wait_ms", false);
    lh_client client = client_of(request);
    lh_acquire_opts opts = {
        .size = sizeof opts,
        .wait_ms = wait ? integer(wait, "wait_ms") : -1,
        .ttl_ms = option_ms(request, "ttl_ms"),
        .no_renew = is_false(request, "renew"),
        .no_requeue = is_false(request, "requeue"),
    };
    if (kind && strcmp(kind, "mutex") != 0)
        refuse("UNSUPPORTED", "there is no lock of the kind \"%s\"", kind);
    if (mode && strcmp(mode, "try") == 0)
        opts.wait_ms = 0;
    else if (mode && strcmp(mode, "wait") != 0)
        refuse(BAD_REQUEST, "mode is wait or try, not \"%s\"", mode);
    call->hold = strdup(hold);
    /* What is meant where a request says nothing: see run-sync. */
    if (!via)
        via = getenv("LEASEHOLD_DRIVER_VIA");
    if (via && strcmp(via, "sync") == 0) {
        pthread_t thread;
        lh_cancel_new(&opts.cancel);
        call->client = client, call->name = strdup(name), call->opts = opts;
        keep_operation(id, -(int64_t)opts.cancel.id);
        if (pthread_create(&thread, NULL, acquire_here, call) != 0)
            refuse("RESOURCE_EXHAUSTED", "no thread for a blocking acquire");
        pthread_detach(thread);
        return;
    }
    if (via && strcmp(via, "async") != 0)
        refuse(BAD_REQUEST, "via is async or sync, not \"%s\"", via);
    lh_op op;
    lh_error error;
    int32_t status = lh_acquire_async(client, name, &opts, LH_CALLBACK_THREAD, on_done, call, &op, &error);
    if (status != LH_OK)
        refuse(lh_strerror(status), "%s", error.message);
    keep_operation(id, (int64_t)op.id);
}

static void cancel(json_t *request) {
    char *target = id_text(field(request, "target", true));
    int64_t number = (int64_t)look_up(operations, target);
    free(target);
    if (number == 0)
        refuse(BAD_REQUEST, "no such request was made, or it was answered at once");
    if (number < 0)
        lh_cancel_fire((lh_cancel){(uint64_t)-number});
    else
        lh_op_cancel((lh_op){(uint64_t)number});
}

/* Answers a request at once where it needs nobody else; otherwise starts what will answer it. */
static void handle(json_t *id, json_t *request) {
    const char *op = text(request, "op");
    json_t *fields = NULL;
    lh_op started = {0};
    lh_error error;
    int32_t status = LH_OK;
    struct call *call = calloc(1, sizeof *call);
    call->id = json_incref(id);
#define IS(name) (strcmp(op, name) == 0)
#define THEN LH_CALLBACK_THREAD, on_done, call, &started, &error
    if (IS("acquire")) {
        acquire(id, request, call);
        return;
    } else if (IS("open")) {
        open_client(request);
        fields = json_object();
    } else if (IS("cancel")) {
        cancel(request);
        fields = json_object();
    } else if (IS("version")) {
        fields = json_pack("{ssss}", "language", "c", "version", lh_version());
    } else if (IS("check")) {
        bool held;
        int64_t remaining;
        lh_guard guard = guard_of(request);
        lh_guard_held(guard, &held);
        lh_guard_remaining(guard, &remaining);
        fields = json_pack("{sbsI}", "held", held, "remaining_ms", (json_int_t)remaining);
    } else if (IS("on_lost")) {
        lh_guard guard = guard_of(request);
        call->hold = strdup(text(request, "hold"));
        status = lh_guard_on_lost(guard, LH_CALLBACK_THREAD, on_lost, call, NULL, &error);
        fields = json_object();
    } else if (IS("ping")) {
        status = lh_client_ping_async(client_of(request), THEN);
    } else if (IS("close")) {
        status = lh_client_close_async(client_of(request), THEN);
    } else if (IS("release")) {
        status = lh_guard_release_async(guard_of(request), THEN);
    } else if (IS("extend")) {
        int64_t ttl_ms = integer(field(request, "ttl_ms", true), "ttl_ms");
        status = lh_guard_extend_async(guard_of(request), ttl_ms, THEN);
    } else if (IS("guarded_put")) {
        lh_guard guard = guard_of(request);
        const char *key = text(request, "key"), *value = text(request, "value");
        status = lh_guard_put_async(guard, (const uint8_t *)key, strlen(key), (const uint8_t *)value, strlen(value), THEN);
    } else if (IS("queue")) {
        status = lh_client_queue_async(client_of(request), text(request, "lock"), THEN);
    } else if (IS("force_release")) {
        int64_t token = integer(field(request, "token", true), "token");
        status = lh_client_force_release_async(client_of(request), text(request, "lock"), token, THEN);
    } else {
        refuse("UNSUPPORTED", "the C driver knows no operation \"%s\"", op);
    }
    if (status != LH_OK)
        refuse(lh_strerror(status), "%s", error.message);
    if (started.id)
        keep_operation(id, (int64_t)started.id);
    if (fields)
        answer(id, mono_ns(), fields);
}

static void play(json_t *id, json_t *request, const char *problem) {
    if (setjmp(refused))
        answer(id, mono_ns(), failure(refusal_code, refusal_message));
    else if (!json_is_object(request))
        refuse(BAD_REQUEST, "a request is a JSON object: %s", request ? "this is another value" : problem);
    else if (json_is_null(id))
        refuse(BAD_REQUEST, "the field \"id\" is missing");
    else
        handle(id, request);
}

int main(void) {
    char *line = NULL;
    size_t room = 0;
    ssize_t length;
    clients = json_object(), holds = json_object(), operations = json_object();
    while ((length = getline(&line, &room, stdin)) >= 0) {
        json_error_t wrong;
        json_t *request = json_loadb(line, (size_t)length, JSON_ALLOW_NUL | JSON_DECODE_ANY, &wrong);
        json_t *id = json_object_get(request, "id");
        play(id ? id : json_null(), request, wrong.text);
        json_decref(request);
    }
    /* As a crash would: nothing is released, and no exit handler runs. */
    _exit(0);
}
