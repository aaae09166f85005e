// The conformance driver of leasehold.hpp: one JSON request a line on stdin, replies and events on stdout.
//
// It does no locking, waiting or retrying of its own. What waits for etcd runs on a thread of its own, and says what the call
// said. At the end of the input it ends at once and releases nothing.

#include "request.hpp"

#include <ctime>
#include <iostream>
#include <mutex>
#include <thread>
#include <unistd.h>

namespace {

struct closing {
    void operator()(json_t *value) const { json_decref(value); }
};
using json = std::unique_ptr<json_t, closing>;

std::int64_t mono_ns() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return std::int64_t(now.tv_sec) * 1000000000 + now.tv_nsec;
}

// A text of any bytes, for JSON: where they are no UTF-8, of its ASCII.
json_t *readable(std::string text) {
    if (json_t *value = json_stringn(text.data(), text.size()))
        return value;
    for (char &letter : text)
        letter = letter & 0x80 ? '?' : letter;
    return json_stringn(text.data(), text.size());
}

// --- output ----------------------------------------------------------------------------------------------------------

std::mutex output;

// Under that lock.
void print(json message) {
    char *line = json_dumps(message.get(), JSON_COMPACT);
    std::cout << line << std::endl;
    free(line);
    if (!std::cout)
        _exit(1); // nobody listens any more
}

void say(json message) {
    std::lock_guard<std::mutex> locked(output);
    print(std::move(message));
}

json answer(const json &id, json fields, std::int64_t when) {
    json_object_set_new(fields.get(), "ok", json_boolean(!json_object_get(fields.get(), "code")));
    json_object_set(fields.get(), "id", id.get());
    json_object_set_new(fields.get(), "mono_ns", json_integer(when));
    return fields;
}

json failure(const std::string &code, const std::string &message) {
    return json(json_pack("{ssso}", "code", code.c_str(), "message", readable(message)));
}

json nothing() { return json(json_object()); }

// What a call said, or how it failed.
template <typename Call> json told(Call call) {
    try {
        return call();
    } catch (const leasehold::error &error) {
        return failure(error.name(), error.what());
    } catch (const refusal &refusal) {
        return failure(refusal.code, refusal.message);
    }
}

// Runs what may wait for etcd, and answers when it is done.
template <typename Call> void later(const json &id, Call call) {
    std::thread([id = std::make_shared<json>(json_incref(id.get())), call = std::move(call)]() mutable {
        json fields = told(call);
        const auto when = mono_ns();
        say(answer(*id, std::move(fields), when));
    }).detach();
}

// --- what has a name -------------------------------------------------------------------------------------------------

// By name; never freed, because neither a name that is given anew nor the end of the driver releases anything.
template <typename T> class table {
public:
    void keep(const std::string &name, std::shared_ptr<T> value) {
        std::lock_guard<std::mutex> locked(lock_);
        all_[name] = value;
        kept_.push_back(std::move(value));
    }
    std::shared_ptr<T> find(const std::string &name) {
        std::lock_guard<std::mutex> locked(lock_);
        auto found = all_.find(name);
        return found == all_.end() ? nullptr : found->second;
    }

private:
    std::mutex lock_;
    std::map<std::string, std::shared_ptr<T>> all_;
    std::vector<std::shared_ptr<T>> kept_;
};

auto &clients = *new table<leasehold::client>;
auto &holds = *new table<leasehold::guard>;
auto &watches = *new table<leasehold::subscription>;
// What ends the acquire of a request; empty for other requests.
auto &requests = *new table<leasehold::cancel>;
auto &made = *new table<bool>;

std::shared_ptr<leasehold::client> client_of(const request &from) {
    const auto name = from.text("client");
    if (auto found = clients.find(name))
        return found;
    throw malformed("no client \"" + name + "\" was opened");
}

std::shared_ptr<leasehold::guard> hold_of(const request &from) {
    if (auto found = holds.find(from.text("hold")))
        return found;
    throw refusal{"NOT_HELD", "there is no such hold"};
}

std::string text_of(const json_t *id) {
    char *dumped = json_dumps(id, JSON_ENCODE_ANY);
    std::string text = dumped;
    free(dumped);
    return text;
}

// --- requests --------------------------------------------------------------------------------------------------------

json open_client(const request &from) {
    leasehold::client_options options;
    options.ttl = from.millis_if_any("ttl_ms");
    options.connect_timeout = from.millis_if_any("connect_timeout_ms");
    options.request_timeout = from.millis_if_any("request_timeout_ms");
    options.namespace_ = from.name_if_any("namespace");
    options.identity = from.name_if_any("identity");
    options.user = from.name_if_any("user");
    options.password = from.name_if_any("password");
    options.ca_file = from.name_if_any("ca_file");
    options.cert_file = from.name_if_any("cert_file");
    options.key_file = from.name_if_any("key_file");
    std::string url;
    for (const auto &endpoint : from.texts("endpoints", true))
        url += (url.empty() ? "" : ",") + endpoint;
    if (url.find('\0') != std::string::npos)
        throw invalid("an endpoint contains a NUL byte");
    const auto name = from.text("client");
    clients.keep(name, std::make_shared<leasehold::client>(url, options));
    return nothing();
}

// How an acquire or a campaign is to be made.
struct wanted_acquire {
    leasehold::acquire_options options;
    std::optional<leasehold::milliseconds> wait;
    std::vector<leasehold::wanted> names;
    std::optional<std::string> value;
    bool blocks = false;
};

wanted_acquire read_acquire(const request &from, bool is_campaign) {
    wanted_acquire wanted;
    auto &options = wanted.options;
    options.ttl = from.millis_if_any("ttl_ms");
    options.renew = from.flag_if_any("renew").value_or(true);
    options.requeue = from.flag_if_any("requeue").value_or(true);
    options.linger = from.millis_if_any("linger_ms").value_or(leasehold::milliseconds(0));
    wanted.wait = from.millis_if_any("wait_ms");
    const auto mode = from.text_if_any("mode").value_or("wait"), via = from.text_if_any("via").value_or("async");
    if (mode != "wait" && mode != "try")
        throw malformed("mode is wait or try, not \"" + mode + "\"");
    if (via != "async" && via != "sync")
        throw malformed("via is async or sync, not \"" + via + "\"");
    if (mode == "try")
        wanted.wait = leasehold::milliseconds(0);
    wanted.blocks = via == "sync";
    if (json_t *bounds = from.find("local_first"); json_is_object(bounds)) {
        leasehold::local_first local;
        local.turns = request(bounds).count("turns", local.turns);
        local.time = request(bounds).millis_if_any("ms").value_or(local.time);
        options.local_first = local;
    } else if (from.flag_if_any("local_first").value_or(false)) {
        options.local_first.emplace();
    }
    if (is_campaign) {
        wanted.names.emplace_back(from.name("election"));
        wanted.value = from.text("value");
    } else if (from.has("locks")) {
        for (const auto &one : from.objects("locks"))
            wanted.names.emplace_back(one.name("lock"), one.claim());
    } else {
        wanted.names.emplace_back(from.name("lock"));
    }
    options.claim = from.claim();
    return wanted;
}

leasehold::guard acquire(leasehold::client &client, const wanted_acquire &wanted, bool is_several) {
    const auto &[options, wait, names, value, blocks] = wanted;
    const auto &name = names.empty() ? std::string() : names[0].name;
    auto won = [](std::optional<leasehold::guard> got) {
        if (!got)
            throw leasehold::error(LH_NOT_ACQUIRED, 0, "the lock was not free in time");
        return std::move(*got);
    };
    if (is_several)
        return wait     ? won(client.acquire_all_for(names, *wait, options))
               : blocks ? client.acquire_all(names, options)
                        : client.acquire_all_async(names, options).get();
    if (value)
        return wait     ? won(client.campaign_for(name, *value, *wait, options))
               : blocks ? client.campaign(name, *value, options)
                        : client.campaign_async(name, *value, options).get();
    if (blocks)
        return wait ? won(client.acquire_for(name, *wait, options)) : client.acquire(name, options);
    return wait ? client.acquire_async_for(name, *wait, options).get() : client.acquire_async(name, options).get();
}

json acquired(const std::string &hold, leasehold::guard guard, bool is_several) {
    json fields(json_pack("{sssIsIsssI}", "key", guard.key().c_str(), "token", (json_int_t)guard.token(), "sequence",
                          (json_int_t)guard.sequence(), "lease", guard.lease().c_str(), "remaining_ms",
                          (json_int_t)guard.remaining().count()));
    if (is_several) {
        json_t *keys = json_array();
        for (const auto &key : guard.keys())
            json_array_append_new(keys, json_string(key.c_str()));
        json_object_set_new(fields.get(), "keys", keys);
    }
    holds.keep(hold, std::make_shared<leasehold::guard>(std::move(guard)));
    return fields;
}

json contenders(const std::vector<leasehold::contender> &queue) {
    json_t *all = json_array();
    auto text = [](const std::string &value) { return value.empty() ? nullptr : value.c_str(); };
    for (const auto &one : queue)
        json_array_append_new(all, json_pack("{sssIss?ss?sb}", "key", one.key.c_str(), "token", (json_int_t)one.token, "lease",
                                             text(one.lease), "identity", text(one.identity), "foreign", one.foreign));
    return json(json_pack("{so}", "contenders", all));
}

json values(const leasehold::committed &done) {
    json_t *all = json_array();
    for (const auto &value : done.values)
        json_array_append_new(all, value ? readable(*value) : json_null());
    return json(json_pack("{so}", "values", all));
}

json leader_fields(const std::optional<leasehold::leader> &leader) {
    if (!leader)
        return json(json_pack("{snsn}", "value", "token"));
    return json(json_pack("{sosI}", "value", readable(leader->value), "token", (json_int_t)leader->token));
}

// Subscribes and answers before the first event does: whoever tells one waits for the output.
template <typename Subscribe> void subscribed(const json &id, Subscribe subscribe) {
    std::lock_guard<std::mutex> locked(output);
    json fields = told([&] { return subscribe(), nothing(); });
    print(answer(id, std::move(fields), mono_ns()));
}

void event(json fields, const char *kind, const char *about, const std::string &name) {
    const auto when = mono_ns();
    json_object_set_new(fields.get(), "event", json_string(kind));
    json_object_set_new(fields.get(), about, json_string(name.c_str()));
    json_object_set_new(fields.get(), "mono_ns", json_integer(when));
    say(std::move(fields));
}

json cancel(const request &from) {
    if (!from.has("target"))
        throw malformed("the field \"target\" is missing");
    const auto target = text_of(from.find("target"));
    if (!made.find(target))
        throw malformed("no such request was made");
    if (auto found = requests.find(target))
        found->fire(); // no effect on what is over
    return nothing();
}

// Answers a request at once where it needs nobody else; otherwise starts what will answer it.
void handle(const json &id, const request &from) {
    const auto op = from.text("op");
    auto now = [&](json fields) { say(answer(id, std::move(fields), mono_ns())); };
    if (op == "open") {
        now(open_client(from));
    } else if (op == "cancel") {
        now(cancel(from));
    } else if (op == "version") {
        now(json(json_pack("{ssss}", "language", "cpp", "version", lh_version())));
    } else if (op == "unobserve") {
        auto watch = watches.find(from.text("watch"));
        if (!watch)
            throw malformed("nothing is observed by that name");
        watch->cancel();
        now(nothing());
    } else if (op == "acquire" || op == "campaign") {
        const auto hold = from.text("hold");
        const auto client = client_of(from);
        auto wanted = read_acquire(from, op == "campaign");
        auto cancel = std::make_shared<leasehold::cancel>();
        wanted.options.cancel = cancel.get();
        requests.keep(text_of(id.get()), cancel);
        const bool is_several = from.has("locks");
        later(id, [=] { return acquired(hold, acquire(*client, wanted, is_several), is_several); });
    } else if (op == "ping" || op == "close") {
        const auto client = client_of(from);
        later(id, [=] { return op == "ping" ? client->ping() : client->close(), nothing(); });
    } else if (op == "queue") {
        later(id, [client = client_of(from), lock = from.name("lock")] { return contenders(client->queue(lock)); });
    } else if (op == "force_release") {
        later(id, [client = client_of(from), lock = from.name("lock"), token = from.integer("token")] {
            return client->force_release(lock, token), nothing();
        });
    } else if (op == "leader") {
        later(id, [client = client_of(from), name = from.name("election")] { return leader_fields(client->leader_of(name)); });
    } else if (op == "metrics") {
        now(json(json_pack("{so}", "text", readable(client_of(from)->metrics()))));
    } else if (op == "on_state") {
        subscribed(id, [client = client_of(from), name = from.text("client")] {
            client->on_state([name](lh_state state, std::int32_t) {
                static const std::map<lh_state, const char *> names{
                    {LH_STATE_OK, "OK"}, {LH_STATE_SUSPECT, "SUSPECT"}, {LH_STATE_LOST, "LOST"}};
                event(json(json_pack("{ss}", "state", names.at(state))), "state", "client", name);
            });
        });
    } else if (op == "observe") {
        // The first result answers the request: with the first leader, or with why there is nothing to observe.
        auto first = std::make_shared<json>(json_incref(id.get()));
        const auto watch = from.text("watch");
        auto seen = [watch, first](const leasehold::observed &now) {
            if (*first) {
                const json id = std::move(*first);
                say(answer(id, now.ended == LH_OK ? nothing() : failure(lh_strerror(now.ended), "there is nothing to observe"), mono_ns()));
            }
            if (now.ended == LH_OK)
                event(leader_fields(now.leader), "leader", "watch", watch);
        };
        const auto client = client_of(from);
        const auto election = from.name("election");
        std::lock_guard<std::mutex> locked(output); // whoever tells the first waits for it, so it can be taken back by then
        watches.keep(watch, std::make_shared<leasehold::subscription>(client->observe(election, seen)));
    } else if (op == "check") {
        const auto hold = hold_of(from);
        now(json(json_pack("{sbsI}", "held", hold->held(), "remaining_ms", (json_int_t)hold->remaining().count())));
    } else if (op == "on_lost") {
        subscribed(id, [hold = hold_of(from), name = from.text("hold")] {
            hold->on_lost([name](std::int32_t reason) {
                event(json(json_pack("{ss}", "reason", lh_reason_name(reason))), "lost", "hold", name);
            });
        });
    } else if (op == "release") {
        later(id, [hold = hold_of(from)] { return hold->release(), nothing(); });
    } else if (op == "extend") {
        const auto ttl = leasehold::milliseconds(from.integer("ttl_ms"));
        later(id, [hold = hold_of(from), ttl] { return hold->extend(ttl), nothing(); });
    } else if (op == "proclaim") {
        later(id, [value = from.text("value"), hold = hold_of(from)] { return hold->proclaim(value), nothing(); });
    } else if (op == "guarded_put") {
        later(id, [key = from.text("key"), value = from.text("value"), hold = hold_of(from)] {
            return hold->put(key, value), nothing();
        });
    } else if (op == "guarded_delete") {
        later(id, [key = from.text("key"), hold = hold_of(from)] { return hold->erase(key), values({}); });
    } else if (op == "guarded_txn") {
        later(id, [puts = from.pairs("puts"), deletes = from.texts("deletes"), gets = from.texts("gets"), hold = hold_of(from)] {
            std::vector<lh_txn_op> steps;
            for (const auto &[key, value] : puts)
                steps.push_back(leasehold::op::put(key, value));
            for (const auto &key : deletes)
                steps.push_back(leasehold::op::erase(key));
            for (const auto &key : gets)
                steps.push_back(leasehold::op::get(key));
            return values(hold->txn(steps));
        });
    } else {
        throw refusal{"UNSUPPORTED", "the C++ driver knows no operation \"" + op + "\""};
    }
}

void play(json_t *object, const char *problem) {
    const json id(json_incref(json_is_object(object) && json_object_get(object, "id") ? json_object_get(object, "id") : json_null()));
    const json refused = told([&] {
        if (!json_is_object(object))
            throw malformed(std::string("a request is a JSON object: ") + (object ? "this is another value" : problem));
        if (json_is_null(id.get()))
            throw malformed("the field \"id\" is missing");
        made.keep(text_of(id.get()), std::make_shared<bool>(true));
        handle(id, request(object));
        return json();
    });
    if (refused)
        say(answer(id, json(json_incref(refused.get())), mono_ns()));
}

// A number that is too large for C's widest makes all of them inexact; the id is not to suffer from that.
json parse(const std::string &line, json_error_t &wrong) {
    const std::size_t flags = JSON_ALLOW_NUL | JSON_DECODE_ANY;
    json object(json_loadb(line.data(), line.size(), flags, &wrong));
    if (!object && json_error_code(&wrong) == json_error_numeric_overflow) {
        object.reset(json_loadb(line.data(), line.size(), flags | JSON_DECODE_INT_AS_REAL, &wrong));
        json_t *id = json_object_get(object.get(), "id");
        if (json_is_real(id) && std::abs(json_real_value(id)) < 0x1p53)
            json_object_set_new(object.get(), "id", json_integer(static_cast<json_int_t>(json_real_value(id))));
    }
    return object;
}

} // namespace

int main() {
    for (std::string line; std::getline(std::cin, line);) {
        json_error_t wrong;
        const json object = parse(line, wrong);
        play(object.get(), wrong.text);
    }
    _exit(0);
}
