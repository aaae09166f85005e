/* The conformance driver of the C API: one JSON request a line on stdin, replies and events on stdout.
 *
 * It does no locking, waiting or retrying of its own. Operations are asynchronous, and their callbacks answer; where `via` is
 * `sync`, the blocking function is called on a thread of its own, for the acquire and for all that is done with its hold. At the
 * end of the input it ends at once and releases nothing. Clients, holds and requests are kept as numbers in JSON objects, by
 * name. */

#define _GNU_SOURCE
#include <jansson.h>
#include <leasehold.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "acquiring.h"
#include "request.h"

/* What a cancel finds instead of an operation (above 0) or a cancel handle (below): a request that is answered, and a blocking
 * call that C cannot end from another thread. */
#define ANSWERED 0
#define STUCK INT64_MIN

static json_t *clients, *holds, *blocking_holds, *requests, *watches;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

enum verb { PING, CLOSE, QUEUE, FORCE_RELEASE, LEADER, ACQUIRE, CAMPAIGN, RELEASE, EXTEND, PUT, DELETE, TXN, PROCLAIM };

/* A request on its way: what it asks for, and what its callback needs. Its texts are the request's. */
struct call {
    json_t *id, *request;
    enum verb verb;
    bool blocks, tries, is_answered;
    lh_client client;
    lh_guard guard;
    const char *client_name, *hold, *lock, *key, *value, *watch; /* `lock` is a lock or an election */
    size_t key_len, value_len;
    int64_t number; /* a TTL or a token */
    lh_acquire_opts opts;
    lh_txn_op *ops;
    lh_wanted *wanted; /* the names, where there are several */
    size_t count;
};

static json_int_t mono_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (json_int_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* A text of any bytes, for JSON: where they are no UTF-8 (a message that was cut, a value of somebody else's), of its ASCII. */
static json_t *readable(const char *bytes, size_t length) {
    json_t *text = json_stringn(bytes, length);
    if (!text) {
        char *plain = malloc(length);
        for (size_t i = 0; i < length; i++)
            plain[i] = bytes[i] & 0x80 ? '?' : bytes[i];
        text = json_stringn(plain, length);
        free(plain);
    }
    return text;
}

/* Under the lock. */
static void print(json_t *message) {
    char *text = json_dumps(message, JSON_COMPACT);
    if (!text || puts(text) < 0 || fflush(stdout) != 0)
        _exit(1); /* nobody listens any more */
    free(text);
    json_decref(message);
}

static void say(json_t *message) {
    pthread_mutex_lock(&lock);
    print(message);
    pthread_mutex_unlock(&lock);
}

static json_t *answer(json_t *id, json_int_t when, json_t *fields) {
    json_object_set_new(fields, "ok", json_boolean(!json_object_get(fields, "code")));
    json_object_set(fields, "id", id);
    json_object_set_new(fields, "mono_ns", json_integer(when));
    return fields;
}

static json_t *failure(const char *code, const char *message) {
    return json_pack("{ssso}", "code", code, "message", readable(message, strlen(message)));
}

/* --- what has a name ------------------------------------------------------------------------------------------------- */

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

static lh_client client_of(struct call *call) {
    lh_client client = {look_up(clients, call->client_name)};
    if (!client.id)
        refuse(BAD_REQUEST, "no client \"%s\" was opened", call->client_name);
    return client;
}

static lh_guard guard_of(struct call *call) {
    lh_guard guard = {look_up(holds, call->hold)};
    if (!guard.id)
        refuse("NOT_HELD", "there is no such hold");
    return guard;
}

/* What `cancel` finds under the id of a request. */
static void keep_request(json_t *id, int64_t number) {
    char *name = json_dumps(id, JSON_ENCODE_ANY);
    keep(requests, name, (uint64_t)number);
    free(name);
}

/* --- answers --------------------------------------------------------------------------------------------------------- */

static void finish(struct call *call) {
    json_decref(call->id);
    json_decref(call->request);
    free(call->ops);
    free(call->wanted);
    free(call);
}

static json_t *acquired(struct call *call, lh_guard guard) {
    int64_t token, remaining;
    uint64_t sequence;
    char key[LH_KEY_SIZE], lease[17];
    lh_guard_token(guard, &token);
    lh_guard_sequence(guard, &sequence);
    lh_guard_remaining(guard, &remaining);
    lh_guard_key(guard, key, sizeof key, NULL);
    lh_guard_lease(guard, lease, sizeof lease, NULL);
    keep(blocking_holds, call->hold, call->blocks);
    keep(holds, call->hold, guard.id);
    json_t *fields = json_pack("{sssIsIsssI}", "key", key, "token", (json_int_t)token, "sequence", (json_int_t)sequence,
                               "lease", lease, "remaining_ms", (json_int_t)remaining);
    if (call->wanted) {
        json_t *keys = json_array();
        size_t count;
        lh_guard_key_count(guard, &count);
        for (size_t i = 0; i < count; i++) {
            lh_guard_key_at(guard, i, key, sizeof key, NULL);
            json_array_append_new(keys, json_string(key));
        }
        json_object_set_new(fields, "keys", keys);
    }
    return fields;
}

static json_t *contenders(const lh_contenders *found) {
    json_t *all = json_array();
    for (size_t i = 0; i < found->count; i++) {
        const lh_contender *one = found->items[i];
        json_array_append_new(all, json_pack("{sssIss?ss?sb}", "key", one->key, "token", (json_int_t)one->token, "lease",
                                             one->lease, "identity", one->identity, "foreign", one->foreign));
    }
    return json_pack("{so}", "contenders", all);
}

static json_t *values(const lh_committed *committed) {
    json_t *all = json_array();
    for (size_t i = 0; committed && i < committed->count; i++) {
        const lh_value *one = &committed->values[i];
        json_array_append_new(all, one->found ? readable((const char *)one->data, one->len) : json_null());
    }
    return json_pack("{so}", "values", all);
}

/* Null, both, where nobody leads. */
static json_t *leader_fields(const lh_leader *leader) {
    if (!leader)
        return json_pack("{snsn}", "value", "token");
    return json_pack("{sosI}", "value", readable((const char *)leader->value, leader->value_len), "token",
                     (json_int_t)leader->token);
}

static void on_done(void *user_data, const lh_result *result) {
    json_int_t when = mono_ns();
    struct call *call = user_data;
    json_t *fields;
    if (result->status != LH_OK)
        fields = failure(lh_strerror(result->status), result->message);
    else if (call->verb == ACQUIRE || call->verb == CAMPAIGN)
        fields = acquired(call, result->guard);
    else if (call->verb == LEADER)
        fields = leader_fields(result->leader);
    else if (call->verb == QUEUE)
        fields = contenders(result->contenders);
    else if (call->verb == TXN || call->verb == DELETE)
        fields = values(result->committed);
    else
        fields = json_object();
    keep_request(call->id, ANSWERED);
    if (call->opts.cancel.id)
        lh_cancel_free(call->opts.cancel);
    say(answer(call->id, when, fields));
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

static void on_state(void *user_data, const lh_result *result) {
    static const char *const names[] = {[LH_STATE_OK] = "OK", [LH_STATE_SUSPECT] = "SUSPECT", [LH_STATE_LOST] = "LOST"};
    json_int_t when = mono_ns();
    struct call *call = user_data;
    if (result->state)
        say(json_pack("{sssssssI}", "event", "state", "client", call->client_name, "state", names[result->state], "mono_ns",
                      when));
    if (result->is_last)
        finish(call);
}

/* The first result answers the request: with the first leader, or with why there is nothing to observe. */
static void on_leader(void *user_data, const lh_result *result) {
    json_int_t when = mono_ns();
    struct call *call = user_data;
    if (!call->is_answered) {
        call->is_answered = true;
        bool failed = result->is_last && result->status != LH_OK;
        say(answer(call->id, when, failed ? failure(lh_strerror(result->status), result->message) : json_object()));
    }
    if (result->is_last) {
        finish(call);
        return;
    }
    json_t *event = leader_fields(result->leader);
    json_object_set_new(event, "event", json_string("leader"));
    json_object_set_new(event, "watch", json_string(call->watch));
    json_object_set_new(event, "mono_ns", json_integer(when));
    pthread_mutex_lock(&lock);
    if (json_object_get(watches, call->watch)) /* what was on its way when it was taken back is not told */
        print(event);
    else
        json_decref(event);
    pthread_mutex_unlock(&lock);
}

/* --- the two forms of every operation -------------------------------------------------------------------------------- */

/* With the same result as a callback has, so that the rest is the same. */
static void *blocking(void *user_data) {
    struct call *c = user_data;
    lh_contenders *found = NULL;
    lh_committed *committed = NULL;
    lh_leader *leader = NULL;
    lh_result result = {.size = sizeof result};
    lh_error error = {.message = ""};
    const uint8_t *key = (const uint8_t *)c->key, *value = (const uint8_t *)c->value;
    switch (c->verb) {
    case PING: result.status = lh_client_ping(c->client, &error); break;
    case CLOSE: result.status = lh_client_close(c->client, &error); break;
    case QUEUE: result.status = lh_client_queue(c->client, c->lock, &found, &error); break;
    case FORCE_RELEASE: result.status = lh_client_force_release(c->client, c->lock, c->number, &error); break;
    case LEADER: result.status = lh_client_leader(c->client, c->lock, &leader, &error); break;
    case ACQUIRE:
        if (c->wanted)
            result.status = (c->tries ? lh_try_acquire_all : lh_acquire_all)(c->client, c->wanted, c->count, &c->opts,
                                                                           &result.guard, &error);
        else
            result.status = (c->tries ? lh_try_acquire : lh_acquire)(c->client, c->lock, &c->opts, &result.guard, &error);
        break;
    case CAMPAIGN:
        result.status = (c->tries ? lh_try_campaign : lh_campaign)(c->client, c->lock, value, c->value_len, &c->opts,
                                                                   &result.guard, &error);
        break;
    case PROCLAIM: result.status = lh_guard_proclaim(c->guard, value, c->value_len, &error); break;
    case RELEASE: result.status = lh_guard_release(c->guard, &error); break;
    case EXTEND: result.status = lh_guard_extend(c->guard, c->number, &error); break;
    case PUT: result.status = lh_guard_put(c->guard, key, c->key_len, value, c->value_len, NULL, &error); break;
    case DELETE: result.status = lh_guard_delete(c->guard, key, c->key_len, NULL, &error); break;
    case TXN: result.status = lh_guard_txn(c->guard, c->ops, c->count, &committed, &error); break;
    }
    result.message = error.message, result.contenders = found, result.committed = committed, result.leader = leader;
    on_done(c, &result);
    lh_contenders_free(found);
    lh_committed_free(committed);
    lh_leader_free(leader);
    return NULL;
}

#define THEN LH_CALLBACK_THREAD, on_done, c, op, error

static int32_t start(struct call *c, lh_op *op, lh_error *error) {
    const uint8_t *key = (const uint8_t *)c->key, *value = (const uint8_t *)c->value;
    switch (c->verb) {
    case PING: return lh_client_ping_async(c->client, THEN);
    case CLOSE: return lh_client_close_async(c->client, THEN);
    case QUEUE: return lh_client_queue_async(c->client, c->lock, THEN);
    case FORCE_RELEASE: return lh_client_force_release_async(c->client, c->lock, c->number, THEN);
    case LEADER: return lh_client_leader_async(c->client, c->lock, THEN);
    case ACQUIRE:
        if (c->wanted)
            return (c->tries ? lh_try_acquire_all_async : lh_acquire_all_async)(c->client, c->wanted, c->count, &c->opts, THEN);
        return (c->tries ? lh_try_acquire_async : lh_acquire_async)(c->client, c->lock, &c->opts, THEN);
    case CAMPAIGN:
        return (c->tries ? lh_try_campaign_async : lh_campaign_async)(c->client, c->lock, value, c->value_len, &c->opts, THEN);
    case PROCLAIM: return lh_guard_proclaim_async(c->guard, value, c->value_len, THEN);
    case RELEASE: return lh_guard_release_async(c->guard, THEN);
    case EXTEND: return lh_guard_extend_async(c->guard, c->number, THEN);
    case PUT: return lh_guard_put_async(c->guard, key, c->key_len, value, c->value_len, THEN);
    case DELETE: return lh_guard_delete_async(c->guard, key, c->key_len, THEN);
    default: return lh_guard_txn_async(c->guard, c->ops, c->count, THEN);
    }
}

/* From here on the call is its callback's, which may have freed it already. */
static void perform(struct call **pending, json_t *id) {
    struct call *call = *pending;
    lh_op op = {0};
    lh_error error;
    int32_t status;
    if (call->blocks) {
        pthread_t thread;
        keep_request(id, call->opts.cancel.id ? -(int64_t)call->opts.cancel.id : STUCK);
        if (pthread_create(&thread, NULL, blocking, call) != 0)
            refuse("RESOURCE_EXHAUSTED", "no thread for a blocking call");
        pthread_detach(thread);
    } else if ((status = start(call, &op, &error)) != LH_OK) {
        refuse(lh_strerror(status), "%s", error.message);
    } else {
        /* To cancel what is over has no effect. */
        keep_request(id, (int64_t)op.id);
    }
    *pending = NULL;
}

/* Answers before the first event does, whose callback waits for the lock; the first leader is an answer by itself. */
static void subscribe(struct call **pending, json_t *id) {
    struct call *call = *pending;
    lh_error error;
    lh_op op;
    int32_t status;
    const bool observes = call->watch != NULL;
    pthread_mutex_lock(&lock);
    if (call->hold)
        status = lh_guard_on_lost(call->guard, LH_CALLBACK_THREAD, on_lost, call, NULL, &error);
    else if (call->watch)
        status = lh_client_observe(call->client, call->lock, LH_CALLBACK_THREAD, on_leader, call, &op, &error);
    else
        status = lh_client_on_state(call->client, LH_CALLBACK_THREAD, on_state, call, NULL, &error);
    if (status == LH_OK) {
        *pending = NULL;
        if (observes) /* its callback waits for the lock, and has not freed it */
            json_object_set_new(watches, call->watch, json_integer((json_int_t)op.id));
    }
    if (status != LH_OK || !observes)
        print(answer(id, mono_ns(), status == LH_OK ? json_object() : failure(lh_strerror(status), error.message)));
    pthread_mutex_unlock(&lock);
}

/* --- requests -------------------------------------------------------------------------------------------------------- */

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
    json_t *endpoints = list(request, "endpoints", true), *endpoint;
    const char *name = text(request, "client");
    size_t i, room = 1;
    json_array_foreach(endpoints, i, endpoint) room += strlen(c_text(endpoint, "endpoints")) + 1;
    char *url = calloc(1, room), *end = url;
    json_array_foreach(endpoints, i, endpoint) {
        if (i)
            end = stpcpy(end, ",");
        end = stpcpy(end, json_string_value(endpoint));
    }
    lh_client client;
    lh_error error;
    int32_t status = lh_client_open(url, &opts, &client, &error);
    free(url);
    if (status != LH_OK)
        refuse(lh_strerror(status), "%s", error.message);
    keep(clients, name, client.id);
}

/* What is meant where a request says nothing: see run-sync. */
static bool blocks_by_default(void) {
    const char *via = getenv("LEASEHOLD_DRIVER_VIA");
    return via && strcmp(via, "sync") == 0;
}

static void read_acquire(json_t *request, struct call *call) {
    const char *via = optional_text(request, "via");
    call->hold = text(request, "hold"), call->client_name = text(request, "client");
    if (call->verb == CAMPAIGN) {
        call->lock = text(request, "election");
        call->value = any_text(field(request, "value", true), "value", &call->value_len);
    } else if (!(call->wanted = wanted_of(request, &call->count))) {
        call->lock = text(request, "lock");
    }
    call->client = client_of(call);
    call->opts = opts_of(request, &call->tries);
    if (via && strcmp(via, "sync") != 0 && strcmp(via, "async") != 0)
        refuse(BAD_REQUEST, "via is async or sync, not \"%s\"", via);
    call->blocks = via ? strcmp(via, "sync") == 0 : blocks_by_default();
    if (call->blocks)
        lh_cancel_new(&call->opts.cancel);
}

static void read_txn(json_t *request, struct call *call) {
    json_t *puts = field(request, "puts", false), *deletes = list(request, "deletes", false), *item;
    json_t *gets = list(request, "gets", false);
    const char *key;
    size_t i;
    if (puts && !json_is_object(puts))
        refuse(BAD_REQUEST, "the field \"puts\" must be an object of texts");
    call->ops = calloc(json_object_size(puts) + json_array_size(deletes) + json_array_size(gets) + 1, sizeof *call->ops);
    json_object_foreach(puts, key, item) {
        lh_txn_op *op = &call->ops[call->count++];
        op->kind = LH_TXN_PUT, op->key = (const uint8_t *)key, op->key_len = strlen(key);
        op->value = (const uint8_t *)any_text(item, "puts", &op->value_len);
    }
    json_array_foreach(deletes, i, item) {
        lh_txn_op *op = &call->ops[call->count++];
        op->kind = LH_TXN_DELETE, op->key = (const uint8_t *)any_text(item, "deletes", &op->key_len);
    }
    json_array_foreach(gets, i, item) {
        lh_txn_op *op = &call->ops[call->count++];
        op->kind = LH_TXN_GET, op->key = (const uint8_t *)any_text(item, "gets", &op->key_len);
    }
}

static json_t *cancel(json_t *request) {
    char *target = json_dumps(field(request, "target", true), JSON_ENCODE_ANY);
    pthread_mutex_lock(&lock);
    json_t *found = json_object_get(requests, target);
    int64_t number = json_integer_value(found);
    pthread_mutex_unlock(&lock);
    free(target);
    if (!found)
        refuse(BAD_REQUEST, "no such request was made");
    if (number == STUCK)
        refuse("UNSUPPORTED", "C cannot end this blocking call from another thread");
    if (number < 0)
        lh_cancel_fire((lh_cancel){(uint64_t)-number});
    else if (number != ANSWERED)
        lh_op_cancel((lh_op){(uint64_t)number});
    return json_object();
}

static json_t *check(struct call *call) {
    bool held;
    int64_t remaining;
    lh_guard_held(call->guard, &held);
    lh_guard_remaining(call->guard, &remaining);
    return json_pack("{sbsI}", "held", held, "remaining_ms", (json_int_t)remaining);
}

static json_t *metrics(lh_client client) {
    size_t room = 0;
    char *text = NULL;
    lh_client_metrics(client, NULL, 0, &room);
    do {
        text = realloc(text, room *= 2);
    } while (lh_client_metrics(client, text, room, &room) == LH_INVALID_ARGUMENT && room > 0);
    json_t *fields = json_pack("{so}", "text", json_string(text));
    free(text);
    return fields;
}

/* Answers a request at once where it needs nobody else; otherwise starts what will answer it. */
static void handle(json_t *id, json_t *request, struct call **pending) {
    const char *op = json_string_value(field(request, "op", true));
    struct call *call = *pending;
    if (!op)
        refuse(BAD_REQUEST, "the field \"op\" must be a text");
#define IS(name) (strcmp(op, name) == 0)
    json_t *fields = NULL;
    if (IS("open")) {
        open_client(request);
        fields = json_object();
    } else if (IS("cancel")) {
        fields = cancel(request);
    } else if (IS("unobserve")) {
        lh_op watch = {look_up(watches, text(request, "watch"))};
        if (!watch.id)
            refuse(BAD_REQUEST, "nothing is observed by that name");
        lh_op_cancel(watch);
        pthread_mutex_lock(&lock);
        json_object_del(watches, text(request, "watch"));
        pthread_mutex_unlock(&lock);
        fields = json_object();
    } else if (IS("version")) {
        fields = json_pack("{ssss}", "language", "c", "version", lh_version());
    }
    if (fields) {
        say(answer(id, mono_ns(), fields));
        return;
    }
    if (IS("acquire") || IS("campaign")) {
        call->verb = IS("acquire") ? ACQUIRE : CAMPAIGN;
        read_acquire(request, call);
        perform(pending, id);
        return;
    }
    if (IS("ping") || IS("close") || IS("queue") || IS("force_release") || IS("on_state") || IS("leader") ||
        IS("observe") || IS("metrics")) {
        call->client_name = text(request, "client");
        if (IS("queue") || IS("force_release"))
            call->lock = text(request, "lock");
        if (IS("leader") || IS("observe"))
            call->lock = text(request, "election");
        if (IS("observe"))
            call->watch = text(request, "watch");
        if (IS("force_release"))
            call->number = integer(field(request, "token", true), "token");
        call->verb = IS("ping") ? PING : IS("close") ? CLOSE : IS("queue") ? QUEUE : IS("leader") ? LEADER : FORCE_RELEASE;
        call->client = client_of(call);
        call->blocks = blocks_by_default();
        if (IS("metrics"))
            say(answer(id, mono_ns(), metrics(call->client)));
        else
            IS("on_state") || IS("observe") ? subscribe(pending, id) : perform(pending, id);
        return;
    }
    if (IS("check") || IS("on_lost") || IS("release") || IS("extend") || IS("guarded_put") || IS("guarded_delete") ||
        IS("guarded_txn") || IS("proclaim")) {
        call->hold = text(request, "hold");
        if (IS("extend"))
            call->number = integer(field(request, "ttl_ms", true), "ttl_ms");
        if (IS("guarded_put") || IS("guarded_delete"))
            call->key = any_text(field(request, "key", true), "key", &call->key_len);
        if (IS("guarded_put") || IS("proclaim"))
            call->value = any_text(field(request, "value", true), "value", &call->value_len);
        if (IS("guarded_txn"))
            read_txn(request, call);
        call->verb = IS("release")          ? RELEASE
                     : IS("extend")         ? EXTEND
                     : IS("guarded_put")    ? PUT
                     : IS("guarded_delete") ? DELETE
                     : IS("proclaim")       ? PROCLAIM
                                            : TXN;
        call->guard = guard_of(call);
        call->blocks = look_up(blocking_holds, call->hold);
        if (IS("check"))
            say(answer(id, mono_ns(), check(call)));
        else
            IS("on_lost") ? subscribe(pending, id) : perform(pending, id);
        return;
    }
    refuse("UNSUPPORTED", "the C driver knows no operation \"%s\"", op);
}

static void play(json_t *request, const char *problem) {
    json_t *id = json_object_get(request, "id");
    /* What nobody else has taken when the request is handled, or refused. */
    static struct call *pending;
    if (setjmp(refused)) {
        say(answer(id ? id : json_null(), mono_ns(), failure(refusal_code, refusal_message)));
    } else if (!json_is_object(request)) {
        refuse(BAD_REQUEST, "a request is a JSON object: %s", request ? "this is another value" : problem);
    } else if (!id || json_is_null(id)) {
        refuse(BAD_REQUEST, "the field \"id\" is missing");
    } else {
        pending = calloc(1, sizeof *pending);
        pending->id = json_incref(id);
        pending->request = json_incref(request);
        keep_request(id, ANSWERED);
        handle(id, request, &pending);
    }
    if (pending)
        finish(pending);
    pending = NULL;
}

/* A number that is too large for C's widest makes all of them inexact; the id is not to suffer from that. */
static json_t *parse(const char *line, size_t length, json_error_t *wrong) {
    const size_t flags = JSON_ALLOW_NUL | JSON_DECODE_ANY;
    json_t *request = json_loadb(line, length, flags, wrong);
    if (!request && json_error_code(wrong) == json_error_numeric_overflow) {
        request = json_loadb(line, length, flags | JSON_DECODE_INT_AS_REAL, wrong);
        int64_t id;
        if (whole(json_object_get(request, "id"), &id) == WHOLE)
            json_object_set_new(request, "id", json_integer(id));
    }
    return request;
}

int main(void) {
    char *line = NULL;
    size_t room = 0;
    ssize_t length;
    clients = json_object(), holds = json_object(), blocking_holds = json_object(), requests = json_object();
    watches = json_object();
    while ((length = getline(&line, &room, stdin)) >= 0) {
        json_error_t wrong;
        json_t *request = parse(line, (size_t)length, &wrong);
        play(request, wrong.text);
        json_decref(request);
    }
    /* As a crash would: nothing is released, and no exit handler runs. */
    _exit(0);
}
