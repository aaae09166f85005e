// leasehold for C++17 and newer: guards that release themselves, errors as exceptions or as results, waiting as a future, with
// a std::stop_token, or with co_await. Header only, over leasehold.h, whose texts hold here too: units, limits, threads, forks.
//
//   leasehold::client client("http://127.0.0.1:2379");
//   {
//       leasehold::guard guard = client.acquire("/lock/mylock");
//       write_somewhere(guard.token());
//   }                                            // released here, in the background
//   if (auto guard = client.try_acquire("/lock/other")) { … }
//   auto both = client.acquire_all({"/accounts/1", {"/accounts/2", leasehold::shared}});
//
// A call that fails throws leasehold::error; with std::nothrow as its first argument an acquire returns a result instead. An
// exception must not leave a callback (on_lost, on_state, observe): that ends the process. Callbacks run on the thread
// lh-callback: whoever waits there for a future is told LH_WOULD_DEADLOCK. What is not here, such as the log, is as easily had
// from leasehold.h.

#ifndef LEASEHOLD_HPP
#define LEASEHOLD_HPP

#include "leasehold.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <initializer_list>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#if __has_include(<version>)
#include <version>
#endif
#ifdef __cpp_lib_jthread
#include <stop_token>
#endif
#ifdef __cpp_impl_coroutine
#include <coroutine>
#endif

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

/// What a call brought, or why it failed; for programs without exceptions in their own code.
template <typename T> class [[nodiscard]] result {
public:
    result(T value) : held_(std::in_place_index<0>, std::move(value)) {}
    result(leasehold::error error) : held_(std::in_place_index<1>, std::move(error)) {}

    bool has_value() const noexcept { return held_.index() == 0; }
    explicit operator bool() const noexcept { return has_value(); }
    /// What it brought; throws the error if it failed.
    T &value() & { return checked(), std::get<0>(held_); }
    T &&value() && { return checked(), std::get<0>(std::move(held_)); }
    /// What it brought; only after has_value().
    T &operator*() & noexcept { return *std::get_if<0>(&held_); }
    T &&operator*() && noexcept { return std::move(*std::get_if<0>(&held_)); }
    T *operator->() noexcept { return std::get_if<0>(&held_); }
    /// Why it failed; only if it did.
    const leasehold::error &error() const noexcept { return *std::get_if<1>(&held_); }

private:
    void checked() const {
        if (!has_value())
            throw error();
    }

    std::variant<T, leasehold::error> held_;
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
template <typename Copy, typename Handle> std::string copied(Copy copy, Handle handle) {
    std::string buffer(LH_KEY_SIZE, '\0');
    std::size_t needed = 0;
    while (copy(handle, &buffer[0], buffer.size(), &needed) != LH_OK) {
        if (needed <= buffer.size())
            check(copy(handle, &buffer[0], buffer.size(), &needed));
        buffer.resize(needed + needed / 4); // what is counted grows meanwhile
    }
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

/// Something that calls back: taken back by cancel(), after which the function is not called again and is destroyed.
/// Destroying this object changes nothing.
class subscription {
public:
    subscription() noexcept = default;
    explicit subscription(lh_op op) noexcept : op_(op) {}

    /// Takes it back; no effect if it is over. A call that runs on the thread lh-callback meanwhile goes on.
    void cancel() { detail::check(lh_op_cancel(op_)); }
    /// The operation of C.
    lh_op handle() const noexcept { return op_; }

private:
    lh_op op_{};
};

/// A result to wait for. Destroyed, it does not end what it waits for; a guard that nobody takes out is released with it.
template <typename T> class [[nodiscard]] future {
public:
    future() noexcept = default;
    explicit future(std::future<T> inner) noexcept : inner_(std::move(inner)) {}

    /// Waits, and gives what was brought, or throws why it was not. LH_WOULD_DEADLOCK on the thread lh-callback, which would
    /// have to bring it.
    T get() {
        may_wait();
        return inner_.get();
    }
    void wait() const {
        may_wait();
        inner_.wait();
    }
    template <typename Rep, typename Period>
    std::future_status wait_for(const std::chrono::duration<Rep, Period> &span) const {
        return inner_.wait_for(span);
    }
    template <typename Clock, typename Duration>
    std::future_status wait_until(const std::chrono::time_point<Clock, Duration> &when) const {
        return inner_.wait_until(when);
    }
    bool valid() const noexcept { return inner_.valid(); }
    /// The future of the standard library, for whoever combines them; it does not look where it waits.
    std::future<T> into_std() && { return std::move(inner_); }

private:
    void may_wait() const {
        if (lh_is_callback_thread() && inner_.wait_for(std::chrono::seconds(0)) != std::future_status::ready)
            throw error(LH_WOULD_DEADLOCK, 0, "a callback waits for a future that only its own thread, lh-callback, can complete");
    }

    std::future<T> inner_;
};

/// What an acquire claims of a name.
struct claim {
    lh_kind kind = LH_MUTEX;
    std::uint32_t permits = 0, limit = 0;
};

/// One owner at a time.
inline constexpr claim mutex{};
/// Many owners at a time, but none beside a mutex of the same name: the read side of a read-write lock.
inline constexpr claim shared{LH_SHARED, 0, 0};
/// `permits`, at least 1, of a semaphore that has `limit` in all.
inline constexpr claim permits(std::uint32_t permits, std::uint32_t limit) {
    // In C, 0 says that nothing is given.
    return permits > 0 ? claim{LH_PERMITS, permits, limit}
                       : throw error(LH_INVALID_ARGUMENT, 0, "a semaphore gives at least 1 permit, not 0");
}

/// One of several names that are acquired together.
struct wanted {
    wanted(const char *name, leasehold::claim claim = mutex) : name(name), claim(claim) {}
    wanted(std::string name, leasehold::claim claim = mutex) : name(std::move(name)), claim(claim) {}

    std::string name;
    leasehold::claim claim;
};

/// Who leads an election, and what it proclaims.
struct leader {
    std::string key;
    std::int64_t token = 0;
    std::string value;
};

/// What an observer of an election is told.
struct observed {
    /// Who leads now; nothing if nobody does.
    std::optional<leasehold::leader> leader;
    /// Whether there may have been others since the last time, of whom nobody knows.
    bool after_gap = false;
    /// Not LH_OK: nothing more comes, and this is why.
    std::int32_t ended = LH_OK;
};

/// What a transaction did.
struct committed {
    /// The revision of etcd after it; if it wrote, the revision of its writes.
    std::int64_t revision = 0;
    /// How many keys were deleted.
    std::int64_t deleted = 0;
    /// What it read, in the order of the reads; nothing for a key that did not exist.
    std::vector<std::optional<std::string>> values;
};

/// A lock that is held, or nothing: move-only. Destroyed or overwritten without release() it is released in the background.
class [[nodiscard]] guard {
public:
    /// Holds nothing.
    guard() noexcept = default;
    /// Takes over a handle of C.
    explicit guard(lh_guard handle) noexcept : handle_(handle) {}
    guard(guard &&other) noexcept : handle_(std::exchange(other.handle_, lh_guard{0})) {}
    guard &operator=(guard &&other) noexcept {
        reset(std::exchange(other.handle_, lh_guard{0}));
        return *this;
    }
    guard(const guard &) = delete;
    guard &operator=(const guard &) = delete;
    ~guard() { reset(); }

    /// Whether there is a hold, released and lost ones included: held() tells whether it lasts.
    explicit operator bool() const noexcept { return handle_.id != 0; }

    /// Releases in the background, and takes over `handle`.
    void reset(lh_guard handle = lh_guard{0}) noexcept {
        const auto old = std::exchange(handle_, handle);
        if (old.id != 0 && old.id != handle.id)
            lh_guard_free(old);
    }

    /// Releases and waits until etcd has confirmed it. Throws LH_LOST if the lock was lost before.
    void release() { detail::call(lh_guard_release, handle_); }

    /// The fencing token: send it along with every write that the lock protects.
    std::int64_t token() const { return ask<std::int64_t>(lh_guard_token); }
    /// Tells holds apart that share a token, which owners of one place in the queue do: see acquire_options::local_first.
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
    /// All of its keys, in the order of the names.
    std::vector<std::string> keys() const {
        std::vector<std::string> all(ask<std::size_t>(lh_guard_key_count));
        for (std::size_t i = 0; i < all.size(); i++) {
            auto copy = [i](lh_guard guard, char *buffer, std::size_t size, std::size_t *needed) {
                return lh_guard_key_at(guard, i, buffer, size, needed);
            };
            all[i] = detail::copied(copy, handle_);
        }
        return all;
    }
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
    committed txn(std::initializer_list<lh_txn_op> steps) { return txn(steps.begin(), steps.size()); }

    /// As above, with the steps of any range of lh_txn_op.
    template <typename Range> committed txn(const Range &range) {
        const std::vector<lh_txn_op> steps(std::begin(range), std::end(range));
        return txn(steps.data(), steps.size());
    }

    /// As above, with `count` steps.
    committed txn(const lh_txn_op *steps, std::size_t count) {
        lh_committed *done = nullptr;
        detail::call(lh_guard_txn, handle_, steps, count, &done);
        std::unique_ptr<lh_committed, void (*)(lh_committed *)> owned(done, lh_committed_free);
        committed copy{done->revision, done->deleted, {}};
        for (std::size_t i = 0; i < done->count; i++) {
            const lh_value &value = done->values[i];
            copy.values.push_back(value.found ? std::optional(std::string(value.data, value.data + value.len)) : std::nullopt);
        }
        return copy;
    }

    /// Proclaims `value` instead of what was proclaimed before, if this guard still leads its election.
    void proclaim(std::string_view value) {
        detail::call(lh_guard_proclaim, handle_, detail::bytes(value), value.size());
    }

    /// Calls `told` with a number of lh_reason when the lock is lost, on the thread lh-callback. It must not throw.
    subscription on_lost(std::function<void(std::int32_t)> told) {
        using function = std::function<void(std::int32_t)>;
        auto call = [](void *user_data, const lh_result *result) {
            std::unique_ptr<function> owned(static_cast<function *>(user_data));
            if (result->reason != 0)
                (*owned)(result->reason);
        };
        return subscription(detail::start(std::make_unique<function>(std::move(told)), call, lh_guard_on_lost, handle_));
    }

    /// The handle of C, which stays this object's.
    lh_guard handle() const noexcept { return handle_; }

private:
    template <typename T> T ask(std::int32_t (*question)(lh_guard, T *)) const {
        T answer{};
        detail::check(question(handle_, &answer));
        return answer;
    }

    lh_guard handle_{};
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

/// How many owners in a row, and for how long, while others wait.
struct local_first {
    std::uint32_t turns = 64;
    milliseconds time{100};
};

/// How a lock is acquired; see lh_acquire_opts.
struct acquire_options {
    /// What is claimed of the name.
    leasehold::claim claim = mutex;
    /// The TTL of this hold instead of the client's.
    std::optional<milliseconds> ttl;
    bool renew = true;
    bool requeue = true;
    /// Acquires of this client share one place in the queue, within these bounds.
    std::optional<leasehold::local_first> local_first;
    /// How long the place in the queue stays after a release with nobody waiting.
    milliseconds linger{0};
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
    leasehold::claim claim;
    /// Whether it holds the lock; otherwise it waits.
    bool holds = false;
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
    /// Closes the client that was here before, as the destructor does.
    client &operator=(client &&other) noexcept {
        const auto old = std::exchange(handle_, std::exchange(other.handle_, lh_client{0}));
        if (old.id != 0 && old.id != handle_.id)
            lh_close(old, nullptr);
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
        return win(one(name), options, std::nullopt).value();
    }

    /// Waits for at most `wait`; nothing if that was too short.
    [[nodiscard]] std::optional<guard> acquire_for(const std::string &name, milliseconds wait,
                                                   const acquire_options &options = {}) {
        return if_won(win(one(name), options, wait));
    }

    /// Takes the lock if it is free.
    [[nodiscard]] std::optional<guard> try_acquire(const std::string &name, const acquire_options &options = {}) {
        return acquire_for(name, milliseconds(0), options);
    }

    /// As acquire, acquire_for (with a `wait`) and try_acquire (with one of 0), without exceptions; LH_NOT_ACQUIRED is an error
    /// here.
    result<guard> acquire(std::nothrow_t, const std::string &name, const acquire_options &options = {},
                          std::optional<milliseconds> wait = std::nullopt) {
        try {
            return win(one(name), options, wait);
        } catch (const error &wrong) { // an option
            return wrong;
        }
    }

    /// Waits until all of up to 32 locks are ours: all or none, and never in a circle with others who do so, too.
    guard acquire_all(const std::vector<wanted> &names, const acquire_options &options = {}) {
        return win(all(names), options, std::nullopt).value();
    }

    /// As acquire_all, for at most `wait`; with one of 0 it takes them if all are free.
    [[nodiscard]] std::optional<guard> acquire_all_for(const std::vector<wanted> &names, milliseconds wait,
                                                       const acquire_options &options = {}) {
        return if_won(win(all(names), options, wait));
    }

    /// Campaigns in an election until it is won. The guard leads, and resigns when it is released.
    guard campaign(const std::string &election, std::string_view value, const acquire_options &options = {}) {
        return win(lead(election, value), options, std::nullopt).value();
    }

    /// As campaign, for at most `wait`.
    [[nodiscard]] std::optional<guard> campaign_for(const std::string &election, std::string_view value, milliseconds wait,
                                                    const acquire_options &options = {}) {
        return if_won(win(lead(election, value), options, wait));
    }

    /// Waits in the background. A fired cancel ends the wait; a future that is dropped does not.
    future<guard> acquire_async(const std::string &name, const acquire_options &options = {}) {
        return later(one(name), options, std::nullopt);
    }

    /// As acquire_async, for at most `wait`: the future then throws an error with LH_NOT_ACQUIRED.
    future<guard> acquire_async_for(const std::string &name, milliseconds wait, const acquire_options &options = {}) {
        return later(one(name), options, wait);
    }

    /// acquire_all in the background.
    future<guard> acquire_all_async(const std::vector<wanted> &names, const acquire_options &options = {}) {
        return later(all(names), options, std::nullopt);
    }

    /// campaign in the background.
    future<guard> campaign_async(const std::string &election, std::string_view value, const acquire_options &options = {}) {
        return later(lead(election, value), options, std::nullopt);
    }

#ifdef __cpp_lib_jthread
    /// As acquire; throws LH_CANCELLED when a stop is requested. For std::jthread. options.cancel is not used.
    guard acquire(const std::string &name, std::stop_token stop, acquire_options options = {}) {
        leasehold::cancel cancel;
        options.cancel = &cancel;
        const std::stop_callback fire(stop, [&] { cancel.fire(); });
        return acquire(name, options);
    }
#endif

#ifdef __cpp_impl_coroutine
    /// guard g = co_await client.acquire_awaitable(name); goes on, on the thread lh-callback, when the lock is ours, and throws
    /// if it cannot be. Destroyed while it waits, the coroutine must not be: end the wait with options.cancel.
    auto acquire_awaitable(std::string name, const acquire_options &options = {}) {
        struct awaiter {
            client &from;
            std::string name;
            acquire_options options;
            std::optional<result<guard>> brought;
            std::coroutine_handle<> waiting;

            bool await_ready() const noexcept { return false; }
            void await_suspend(std::coroutine_handle<> handle) {
                waiting = handle;
                auto done = [](void *user_data, const lh_result *from) {
                    auto *self = static_cast<awaiter *>(user_data);
                    self->brought.emplace(outcome(from->status, from->reason, from->message, from->guard));
                    self->waiting.resume();
                };
                from.begin(one(name), options, std::nullopt, done, this);
            }
            guard await_resume() { return std::move(*brought).value(); }
        };
        return awaiter{*this, std::move(name), options, std::nullopt, {}};
    }
#endif

    /// Who leads an election; nothing if nobody does.
    std::optional<leader> leader_of(const std::string &election) {
        lh_leader *found = nullptr;
        detail::call(lh_client_leader, handle_, election.c_str(), &found);
        std::unique_ptr<lh_leader, void (*)(lh_leader *)> owned(found, lh_leader_free);
        return copied(found);
    }

    /// Calls `told` with who leads an election, at once and at every change, on the thread lh-callback, until the client is
    /// closed or the subscription is taken back. It must not throw.
    subscription observe(const std::string &election, std::function<void(const observed &)> told) {
        using function = std::function<void(const observed &)>;
        auto call = [](void *user_data, const lh_result *result) {
            auto *kept = static_cast<function *>(user_data);
            if (!result->is_last || (result->status != LH_OK && result->status != LH_CANCELLED))
                (*kept)({copied(result->leader), result->after_gap, result->status});
            if (result->is_last)
                delete kept;
        };
        auto owned = std::make_unique<function>(std::move(told));
        return subscription(detail::start(std::move(owned), call, lh_client_observe, handle_, election.c_str()));
    }

    /// What it has counted and timed, as text in the format of OpenMetrics. Asks nobody.
    std::string metrics() const { return detail::copied(lh_client_metrics, handle_); }

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
            copy.claim = {static_cast<lh_kind>(one.kind), one.permits, one.limit};
            copy.holds = one.holds;
            found.push_back(std::move(copy));
        }
        return found;
    }

    /// Takes the lock away from the contender with this token: for operators.
    void force_release(const std::string &name, std::int64_t token) {
        detail::call(lh_client_force_release, handle_, name.c_str(), token);
    }

    /// Calls `told` with every change of the session's state, and the reason of a loss, on the thread lh-callback, until
    /// the client is closed or the subscription is taken back. It must not throw.
    subscription on_state(std::function<void(lh_state, std::int32_t)> told) {
        using function = std::function<void(lh_state, std::int32_t)>;
        auto call = [](void *user_data, const lh_result *result) {
            auto *kept = static_cast<function *>(user_data);
            if (result->state != 0)
                (*kept)(static_cast<lh_state>(result->state), result->reason);
            if (result->is_last)
                delete kept;
        };
        return subscription(detail::start(std::make_unique<function>(std::move(told)), call, lh_client_on_state, handle_));
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

    /// No `wait` is for ever; one that is not positive is a try, for which C has other functions.
    static lh_acquire_opts c_options(const acquire_options &options, std::optional<milliseconds> wait) {
        lh_acquire_opts opts{};
        opts.size = sizeof opts;
        opts.wait_ms = wait && wait->count() > 0 ? wait->count() : 0;
        opts.ttl_ms = options.ttl ? given(*options.ttl) : 0;
        opts.no_renew = !options.renew;
        opts.no_requeue = !options.requeue;
        opts.cancel = options.cancel ? options.cancel->handle() : lh_cancel{0};
        opts.kind = options.claim.kind;
        opts.permits = options.claim.permits;
        opts.limit = options.claim.limit;
        if (options.local_first) {
            if (options.local_first->turns == 0) // in C, not given
                throw error(LH_INVALID_ARGUMENT, 0, "local_first needs at least 1 turn");
            opts.local_first = 1;
            opts.local_turns = options.local_first->turns;
            opts.local_ms = given(options.local_first->time);
        }
        opts.linger_ms = options.linger.count();
        return opts;
    }

    static bool is_try(std::optional<milliseconds> wait) { return wait && wait->count() <= 0; }

    static result<guard> outcome(std::int32_t status, std::int32_t reason, const char *message, lh_guard won) {
        if (status == LH_OK)
            return guard(won);
        return error(status, reason, message);
    }

    static std::optional<leader> copied(const lh_leader *found) {
        if (!found)
            return std::nullopt;
        return leader{found->key, found->token, std::string(found->value, found->value + found->value_len)};
    }

    /// What is to be acquired: one lock, several, or the lead of an election. Lives as long as the call that takes it.
    struct asked {
        const char *name = nullptr;
        std::vector<lh_wanted> several;
        std::optional<std::string_view> value;
    };

    static asked one(const std::string &name) { return {name.c_str(), {}, std::nullopt}; }
    static asked lead(const std::string &election, std::string_view value) { return {election.c_str(), {}, value}; }
    static asked all(const std::vector<wanted> &names) {
        asked what;
        for (const auto &one : names)
            what.several.push_back({one.name.c_str(), one.claim.kind, one.claim.permits, one.claim.limit});
        return what;
    }

    result<guard> win(const asked &what, const acquire_options &options, std::optional<milliseconds> wait) {
        const auto opts = c_options(options, wait);
        const bool tries = is_try(wait);
        lh_guard won{};
        lh_error wrong;
        std::int32_t status;
        if (what.value) {
            const auto call = tries ? lh_try_campaign : lh_campaign;
            status = call(handle_, what.name, detail::bytes(*what.value), what.value->size(), &opts, &won, &wrong);
        } else if (what.name) {
            status = (tries ? lh_try_acquire : lh_acquire)(handle_, what.name, &opts, &won, &wrong);
        } else {
            const auto call = tries ? lh_try_acquire_all : lh_acquire_all;
            status = call(handle_, what.several.data(), what.several.size(), &opts, &won, &wrong);
        }
        return outcome(status, wrong.reason, wrong.message, won);
    }

    static std::optional<guard> if_won(result<guard> got) {
        if (!got && got.error().code() == LH_NOT_ACQUIRED)
            return std::nullopt;
        return std::move(got).value();
    }

    /// `done` is called with `owned`, once, unless this throws.
    void begin(const asked &what, const acquire_options &options, std::optional<milliseconds> wait, lh_callback done, void *owned) {
        const auto opts = c_options(options, wait);
        const bool tries = is_try(wait);
        lh_error wrong;
        std::int32_t status;
        if (what.value) {
            const auto call = tries ? lh_try_campaign_async : lh_campaign_async;
            status = call(handle_, what.name, detail::bytes(*what.value), what.value->size(), &opts, LH_CALLBACK_THREAD, done, owned,
                          nullptr, &wrong);
        } else if (what.name) {
            const auto call = tries ? lh_try_acquire_async : lh_acquire_async;
            status = call(handle_, what.name, &opts, LH_CALLBACK_THREAD, done, owned, nullptr, &wrong);
        } else {
            const auto call = tries ? lh_try_acquire_all_async : lh_acquire_all_async;
            status = call(handle_, what.several.data(), what.several.size(), &opts, LH_CALLBACK_THREAD, done, owned, nullptr, &wrong);
        }
        detail::check(status, wrong);
    }

    future<guard> later(const asked &what, const acquire_options &options, std::optional<milliseconds> wait) {
        auto promise = std::make_unique<std::promise<guard>>();
        future<guard> brought(promise->get_future());
        auto done = [](void *user_data, const lh_result *from) {
            std::unique_ptr<std::promise<guard>> owned(static_cast<std::promise<guard> *>(user_data));
            if (from->status == LH_OK)
                owned->set_value(guard(from->guard));
            else
                owned->set_exception(std::make_exception_ptr(error(from->status, from->reason, from->message)));
        };
        begin(what, options, wait, done, promise.get());
        promise.release(); // the callback's from now on
        return brought;
    }

    lh_client handle_{};
};

} // namespace leasehold

#endif // LEASEHOLD_HPP
