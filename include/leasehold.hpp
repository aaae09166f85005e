// leasehold for C++17: guards that release themselves, errors as exceptions, waiting as std::future. Header only, over
// leasehold.h, whose texts hold here too: units, limits, threads, forks.
//
//   leasehold::client client("http://127.0.0.1:2379");
//   {
//       leasehold::guard guard = client.acquire("/lock/mylock");
//       write_somewhere(guard.token());
//   }                                            // released here, in the background
//   if (auto guard = client.try_acquire("/lock/other")) { … }
//
// A call that fails throws leasehold::error. An exception must not leave a callback (on_lost, on_state): that ends the
// process. What is not here, such as the log, is as easily had from leasehold.h.

#ifndef LEASEHOLD_HPP
#define LEASEHOLD_HPP

#include "leasehold.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <initializer_list>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace leasehold {

using milliseconds = std::chrono::milliseconds;

/// What a call fails with. what() is the message for people.
class error : public std::runtime_error {
public:
    error(std::int32_t code, std::int32_t reason, const char *message)
        : std::runtime_error(message), code_(code), reason_(reason) {}

    /// A number of lh_status.
    std::int32_t code() const noexcept { return code_; }
    /// With LH_LOST: a number of lh_reason, or 0 where it is not known.
    std::int32_t reason() const noexcept { return reason_; }
    /// The stable name of the code, such as "NOT_ACQUIRED".
    const char *name() const noexcept { return lh_strerror(code_); }

private:
    std::int32_t code_, reason_;
};

namespace detail {

inline void check(std::int32_t status, const lh_error &wrong) {
    if (status != LH_OK)
        throw error(status, wrong.reason, wrong.message);
}

inline void check(std::int32_t status) {
    if (status != LH_OK)
        throw error(status, 0, lh_strerror(status));
}

/// Calls a function of C, whose last parameter is the error.
template <typename Function, typename... Arguments> void call(Function function, Arguments... arguments) {
    lh_error wrong;
    check(function(arguments..., &wrong), wrong);
}

/// Starts an asynchronous operation of C. From then on its callback owns what it is given.
template <typename Owned, typename Function, typename... Arguments>
lh_op start(std::unique_ptr<Owned> owned, lh_callback callback, Function function, Arguments... arguments) {
    lh_op op;
    call(function, arguments..., LH_CALLBACK_THREAD, callback, owned.get(), &op);
    owned.release();
    return op;
}

inline const std::uint8_t *bytes(std::string_view text) { return reinterpret_cast<const std::uint8_t *>(text.data()); }

inline std::string text(const char *from) { return from ? from : ""; }

/// The texts that lh_guard_key and its like copy.
template <typename Handle>
std::string copied(std::int32_t (*copy)(Handle, char *, std::size_t, std::size_t *), Handle handle) {
    std::string buffer(LH_KEY_SIZE, '\0');
    std::size_t needed = 0;
    check(copy(handle, &buffer[0], buffer.size(), &needed));
    buffer.resize(needed - 1);
    return buffer;
}

} // namespace detail

/// The steps of guard::txn. They point to key and value, so write them into that call.
namespace op {
inline lh_txn_op put(std::string_view key, std::string_view value) {
    return {LH_TXN_PUT, detail::bytes(key), key.size(), detail::bytes(value), value.size()};
}
inline lh_txn_op erase(std::string_view key) { return {LH_TXN_DELETE, detail::bytes(key), key.size(), nullptr, 0}; }
/// Reads, after the writes that come before it.
inline lh_txn_op get(std::string_view key) { return {LH_TXN_GET, detail::bytes(key), key.size(), nullptr, 0}; }
} // namespace op

/// What a transaction did.
struct committed {
    /// The revision of etcd after it; if it wrote, the revision of its writes.
    std::int64_t revision = 0;
    /// How many keys were deleted.
    std::int64_t deleted = 0;
    /// What it read, in the order of the reads; nothing for a key that did not exist.
    std::vector<std::optional<std::string>> values;
};

/// A lock that is held: move-only. Destroyed without release() it is released in the background.
class guard {
public:
    /// Takes over a handle of C.
    explicit guard(lh_guard handle) noexcept : handle_(handle) {}
    guard(guard &&other) noexcept : handle_(std::exchange(other.handle_, lh_guard{0})) {}
    guard &operator=(guard &&other) noexcept {
        std::swap(handle_, other.handle_);
        return *this;
    }
    guard(const guard &) = delete;
    guard &operator=(const guard &) = delete;
    ~guard() {
        if (handle_.id != 0)
            lh_guard_free(handle_);
    }

    /// Releases and waits until etcd has confirmed it. Throws LH_LOST if the lock was lost before.
    void release() { detail::call(lh_guard_release, handle_); }

    /// The fencing token: send it along with every write that the lock protects.
    std::int64_t token() const { return ask<std::int64_t>(lh_guard_token); }
    /// Tells holds apart that share a token; always 0 for this kind of lock.
    std::uint64_t sequence() const { return ask<std::uint64_t>(lh_guard_sequence); }
    /// Whether the lock is certainly still held. Asks nobody.
    bool held() const { return ask<bool>(lh_guard_held); }
    /// How long it is certainly still held if no renewal succeeds from now on.
    milliseconds remaining() const { return milliseconds(ask<std::int64_t>(lh_guard_remaining)); }
    /// Why it is not held any more: a number of lh_reason, or 0.
    std::int32_t loss_reason() const { return ask<std::int32_t>(lh_guard_loss_reason); }
    /// The name of the lock.
    std::string name() const { return detail::copied(lh_guard_name, handle_); }
    /// The key in etcd that stands for this hold.
    std::string key() const { return detail::copied(lh_guard_key, handle_); }
    /// The id of its lease, in lower-case hexadecimal.
    std::string lease() const { return detail::copied(lh_guard_lease, handle_); }

    /// Makes the hold last at least this long from now, and waits for etcd's word on it.
    void extend(milliseconds ttl) { detail::call(lh_guard_extend, handle_, ttl.count()); }

    /// Writes `value` under `key` if the lock is still held; returns the revision of the write.
    std::int64_t put(std::string_view key, std::string_view value) {
        std::int64_t revision = 0;
        detail::call(lh_guard_put, handle_, detail::bytes(key), key.size(), detail::bytes(value), value.size(), &revision);
        return revision;
    }

    /// Deletes `key` if the lock is still held; returns whether it existed.
    bool erase(std::string_view key) {
        bool existed = false;
        detail::call(lh_guard_delete, handle_, detail::bytes(key), key.size(), &existed);
        return existed;
    }

    /// Reads and writes in one transaction that takes effect only if the lock is still held:
    /// guard.txn({op::put("/a", "1"), op::get("/b")}).
    committed txn(std::initializer_list<lh_txn_op> steps) {
        lh_committed *done = nullptr;
        detail::call(lh_guard_txn, handle_, steps.begin(), steps.size(), &done);
        std::unique_ptr<lh_committed, void (*)(lh_committed *)> owned(done, lh_committed_free);
        committed copy{done->revision, done->deleted, {}};
        for (std::size_t i = 0; i < done->count; i++) {
            const lh_value &value = done->values[i];
            copy.values.push_back(value.found ? std::optional(std::string(value.data, value.data + value.len)) : std::nullopt);
        }
        return copy;
    }

    /// Calls `told` with a number of lh_reason when the lock is lost, on the thread lh-callback. It must not throw.
    void on_lost(std::function<void(std::int32_t)> told) {
        using function = std::function<void(std::int32_t)>;
        auto call = [](void *user_data, const lh_result *result) {
            std::unique_ptr<function> owned(static_cast<function *>(user_data));
            if (result->reason != 0)
                (*owned)(result->reason);
        };
        detail::start(std::make_unique<function>(std::move(told)), call, lh_guard_on_lost, handle_);
    }

    /// The handle of C, which stays this object's.
    lh_guard handle() const noexcept { return handle_; }

private:
    template <typename T> T ask(std::int32_t (*question)(lh_guard, T *)) const {
        T answer{};
        detail::check(question(handle_, &answer));
        return answer;
    }

    lh_guard handle_;
};

/// Ends waiting acquires from another thread.
class cancel {
public:
    cancel() { detail::check(lh_cancel_new(&handle_)); }
    cancel(const cancel &) = delete;
    cancel &operator=(const cancel &) = delete;
    ~cancel() { lh_cancel_free(handle_); }

    /// Every acquire that was or will be started with it throws LH_CANCELLED, unless it had won before.
    void fire() { detail::check(lh_cancel_fire(handle_)); }
    lh_cancel handle() const noexcept { return handle_; }

private:
    lh_cancel handle_{};
};

/// How a lock is acquired; see lh_acquire_opts.
struct acquire_options {
    /// The TTL of this hold instead of the client's.
    std::optional<milliseconds> ttl;
    bool renew = true;
    bool requeue = true;
    /// Must live until the acquire has begun.
    const leasehold::cancel *cancel = nullptr;
};

/// Options of a client; see lh_client_opts.
struct client_options {
    std::optional<milliseconds> ttl, connect_timeout, request_timeout;
    std::optional<std::string> namespace_, identity, user, password, ca_file, cert_file, key_file;
    bool plaintext_password = false;
};

/// Somebody in a queue; what is not said is empty, or 0.
struct contender {
    std::string key;
    std::int64_t token = 0;
    std::string lease, identity, host, since, version;
    std::uint32_t pid = 0;
    bool foreign = false;
};

/// A connection to an etcd cluster and the sessions of the locks taken through it: move-only. Its destructor closes it,
/// which releases everything and blocks for at most the request timeout.
class client {
public:
    explicit client(const std::string &url, const client_options &options = {}) {
        auto millis = [](const std::optional<milliseconds> &span) { return span ? given(*span) : 0; };
        auto text = [](const std::optional<std::string> &value) { return value ? value->c_str() : nullptr; };
        lh_client_opts opts{};
        opts.size = sizeof opts;
        opts.ttl_ms = millis(options.ttl);
        opts.namespace_ = text(options.namespace_);
        opts.identity = text(options.identity);
        opts.user = text(options.user);
        opts.password = text(options.password);
        opts.plaintext_password = options.plaintext_password ? 1 : 0;
        opts.ca_file = text(options.ca_file);
        opts.cert_file = text(options.cert_file);
        opts.key_file = text(options.key_file);
        opts.connect_timeout_ms = millis(options.connect_timeout);
        opts.request_timeout_ms = millis(options.request_timeout);
        detail::call(lh_client_open, url.c_str(), &opts, &handle_);
    }
    client(client &&other) noexcept : handle_(std::exchange(other.handle_, lh_client{0})) {}
    client &operator=(client &&other) noexcept {
        std::swap(handle_, other.handle_);
        return *this;
    }
    client(const client &) = delete;
    client &operator=(const client &) = delete;
    ~client() {
        if (handle_.id != 0)
            lh_close(handle_, nullptr);
    }

    /// Waits until the lock is ours, for as long as it takes.
    guard acquire(const std::string &name, const acquire_options &options = {}) {
        auto opts = c_options(options, -1);
        lh_guard won;
        detail::call(lh_acquire, handle_, name.c_str(), &opts, &won);
        return guard(won);
    }

    /// Waits for at most `wait`; nothing if that was too short.
    std::optional<guard> acquire_for(const std::string &name, milliseconds wait, const acquire_options &options = {}) {
        auto opts = c_options(options, limit(wait));
        lh_error wrong;
        lh_guard won;
        const auto status = lh_acquire(handle_, name.c_str(), &opts, &won, &wrong);
        if (status == LH_NOT_ACQUIRED)
            return std::nullopt;
        detail::check(status, wrong);
        return guard(won);
    }

    /// Takes the lock if nobody holds it or waits for it.
    std::optional<guard> try_acquire(const std::string &name, const acquire_options &options = {}) {
        return acquire_for(name, milliseconds(0), options);
    }

    /// Waits in the background. A future that is dropped does not end the wait, a fired cancel does; a guard that nobody
    /// takes out of its future is released with it.
    std::future<guard> acquire_async(const std::string &name, const acquire_options &options = {}) {
        return start_acquire(name, -1, options);
    }

    /// As acquire_async, for at most `wait`: the future then throws an error with LH_NOT_ACQUIRED.
    std::future<guard> acquire_async_for(const std::string &name, milliseconds wait, const acquire_options &options = {}) {
        return start_acquire(name, limit(wait), options);
    }

    /// Everybody in the queue of a lock, the holder first.
    std::vector<contender> queue(const std::string &name) {
        lh_contenders *list = nullptr;
        detail::call(lh_client_queue, handle_, name.c_str(), &list);
        std::unique_ptr<lh_contenders, void (*)(lh_contenders *)> owned(list, lh_contenders_free);
        std::vector<contender> found;
        for (std::size_t i = 0; i < list->count; i++) {
            const lh_contender &one = *list->items[i];
            contender copy;
            copy.key = one.key;
            copy.token = one.token;
            copy.lease = detail::text(one.lease);
            copy.identity = detail::text(one.identity);
            copy.host = detail::text(one.host);
            copy.since = detail::text(one.since);
            copy.version = detail::text(one.version);
            copy.pid = one.pid;
            copy.foreign = one.foreign;
            found.push_back(std::move(copy));
        }
        return found;
    }

    /// Takes the lock away from the contender with this token: for operators.
    void force_release(const std::string &name, std::int64_t token) {
        detail::call(lh_client_force_release, handle_, name.c_str(), token);
    }

    /// Calls `told` with every change of the session's state, and the reason of a loss, on the thread lh-callback, until
    /// the client is closed or the operation that is returned here is given to lh_op_cancel. It must not throw.
    lh_op on_state(std::function<void(lh_state, std::int32_t)> told) {
        using function = std::function<void(lh_state, std::int32_t)>;
        auto call = [](void *user_data, const lh_result *result) {
            auto *kept = static_cast<function *>(user_data);
            if (result->state != 0)
                (*kept)(static_cast<lh_state>(result->state), result->reason);
            if (result->is_last)
                delete kept;
        };
        return detail::start(std::make_unique<function>(std::move(told)), call, lh_client_on_state, handle_);
    }

    /// Asks etcd for a sign of life.
    void ping() { detail::call(lh_client_ping, handle_); }

    /// Releases everything and ends the client; what comes later throws LH_CLOSED.
    void close() { detail::call(lh_client_close, handle_); }

    /// Who it says it is in the queue.
    std::string identity() const { return detail::copied(lh_client_identity, handle_); }

    /// The handle of C, which stays this object's.
    lh_client handle() const noexcept { return handle_; }

private:
    /// In C, 0 says that nothing is given. A span of 0 is given, and wrong: -1 is refused with a message that says so.
    static std::int64_t given(milliseconds span) { return span.count() == 0 ? -1 : span.count(); }

    static lh_acquire_opts c_options(const acquire_options &options, std::int64_t wait_ms) {
        lh_acquire_opts opts{};
        opts.size = sizeof opts;
        opts.wait_ms = wait_ms;
        opts.ttl_ms = options.ttl ? given(*options.ttl) : 0;
        opts.no_renew = !options.renew;
        opts.no_requeue = !options.requeue;
        opts.cancel = options.cancel ? options.cancel->handle() : lh_cancel{0};
        return opts;
    }

    /// A wait limit for C: one that is negative would be none.
    static std::int64_t limit(milliseconds wait) { return wait.count() < 0 ? 0 : wait.count(); }

    std::future<guard> start_acquire(const std::string &name, std::int64_t wait, const acquire_options &options) {
        auto opts = c_options(options, wait);
        auto promise = std::make_unique<std::promise<guard>>();
        auto future = promise->get_future();
        auto done = [](void *user_data, const lh_result *result) {
            std::unique_ptr<std::promise<guard>> owned(static_cast<std::promise<guard> *>(user_data));
            if (result->status == LH_OK)
                owned->set_value(guard(result->guard));
            else
                owned->set_exception(std::make_exception_ptr(error(result->status, result->reason, result->message)));
        };
        detail::start(std::move(promise), done, lh_acquire_async, handle_, name.c_str(), &opts);
        return future;
    }

    lh_client handle_{};
};

} // namespace leasehold

#endif // LEASEHOLD_HPP
