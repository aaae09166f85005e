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
// A call that fails throws leasehold::error. With std::nothrow as its first argument it returns a result instead, so with all
// calls that ask etcd: also for programs that are compiled with -fno-exceptions, where what would throw ends the process. An
// exception must not leave a callback (on_lost, on_state, observe): that ends the process. Callbacks run on the thread
// lh-callback: whoever waits there for a future is told LH_WOULD_DEADLOCK. What is not here, such as the log, is as easily had
// from leasehold.h.

#ifndef LEASEHOLD_HPP
#define LEASEHOLD_HPP

#include "leasehold/guard.hpp"

#if __has_include(<version>)
#include <version>
#endif
#ifdef __cpp_lib_jthread
#include <stop_token>
#endif
#ifdef __cpp_impl_coroutine
#include "leasehold/awaited.hpp"
#endif

namespace leasehold {
inline namespace LEASEHOLD_ABI {

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
    if (permits == 0)
        detail::fail(error(LH_INVALID_ARGUMENT, 0, "a semaphore gives at least 1 permit, not 0"));
    return claim{LH_PERMITS, permits, limit};
}

/// One of several names that are acquired together.
struct wanted {
    wanted(const char *of, leasehold::claim what = mutex) : name(of), claim(what) {}
    wanted(std::string of, leasehold::claim what = mutex) : name(std::move(of)), claim(what) {}
    wanted(std::string_view of, leasehold::claim what = mutex) : name(of), claim(what) {}

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
    std::optional<milliseconds> ttl{};
    bool renew = true;
    bool requeue = true;
    /// Acquires of this client share one place in the queue, within these bounds.
    std::optional<leasehold::local_first> local_first{};
    /// How long the place in the queue stays after a release with nobody waiting.
    milliseconds linger{0};
    /// Must live until the acquire has begun.
    const leasehold::cancel *cancel = nullptr;
};

/// Options of a client; see lh_client_opts.
struct client_options {
    std::optional<milliseconds> ttl{}, connect_timeout{}, request_timeout{};
    std::optional<std::string> namespace_{}, identity{}, user{}, password{}, ca_file{}, cert_file{}, key_file{};
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
    explicit client(const std::string &url, const client_options &options = {}) : client(open(std::nothrow, url, options).value()) {}
    /// Takes over a handle of C.
    explicit client(lh_client handle) noexcept : handle_(handle) {}

    /// As the constructor. No connection is opened: what it can refuse is what it is told.
    static result<client> open(std::nothrow_t, const std::string &url, const client_options &options = {}) {
        auto millis = [](const std::optional<milliseconds> &span) { return span ? given(*span) : 0; };
        auto wrong = detail::whole(url);
        auto text = [&wrong](const std::optional<std::string> &value) -> const char * {
            if (value && wrong)
                wrong = detail::whole(*value);
            return value ? value->c_str() : nullptr;
        };
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
        if (!wrong)
            return wrong.error();
        lh_client opened{};
        const auto done = detail::call(lh_client_open, url.c_str(), &opts, &opened);
        if (!done)
            return done.error();
        return client(opened);
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
    guard acquire(std::string_view name, const acquire_options &options = {}) {
        return win(one(name), options, std::nullopt).value();
    }

    /// Waits for at most `wait`; nothing if that was too short.
    [[nodiscard]] std::optional<guard> acquire_for(std::string_view name, milliseconds wait, const acquire_options &options = {}) {
        return if_won(win(one(name), options, wait));
    }

    /// Takes the lock if it is free.
    [[nodiscard]] std::optional<guard> try_acquire(std::string_view name, const acquire_options &options = {}) {
        return acquire_for(name, milliseconds(0), options);
    }

    /// As acquire, acquire_for (with a `wait`) and try_acquire (with one of 0); LH_NOT_ACQUIRED is an error here. So with several
    /// names, and in an election.
    result<guard> acquire(std::nothrow_t, std::string_view name, const acquire_options &options = {},
                          std::optional<milliseconds> wait = std::nullopt) {
        return win(one(name), options, wait);
    }

    /// Waits until all of up to 32 locks are ours: all or none, and never in a circle with others who do so, too.
    guard acquire_all(const std::vector<wanted> &names, const acquire_options &options = {}) {
        return win(all(names), options, std::nullopt).value();
    }
    result<guard> acquire_all(std::nothrow_t, const std::vector<wanted> &names, const acquire_options &options = {},
                              std::optional<milliseconds> wait = std::nullopt) {
        return win(all(names), options, wait);
    }

    /// As acquire_all, for at most `wait`; with one of 0 it takes them if all are free.
    [[nodiscard]] std::optional<guard> acquire_all_for(const std::vector<wanted> &names, milliseconds wait,
                                                       const acquire_options &options = {}) {
        return if_won(win(all(names), options, wait));
    }

    /// Campaigns in an election until it is won. The guard leads, and resigns when it is released.
    guard campaign(std::string_view election, std::string_view value, const acquire_options &options = {}) {
        return win(lead(election, value), options, std::nullopt).value();
    }
    result<guard> campaign(std::nothrow_t, std::string_view election, std::string_view value,
                           const acquire_options &options = {}, std::optional<milliseconds> wait = std::nullopt) {
        return win(lead(election, value), options, wait);
    }

    /// As campaign, for at most `wait`.
    [[nodiscard]] std::optional<guard> campaign_for(std::string_view election, std::string_view value, milliseconds wait,
                                                    const acquire_options &options = {}) {
        return if_won(win(lead(election, value), options, wait));
    }

    /// Waits in the background. A fired cancel ends the wait; a future that is dropped does not.
    future<guard> acquire_async(std::string_view name, const acquire_options &options = {}) {
        return later(one(name), options, std::nullopt);
    }

    /// As acquire_async, for at most `wait`: the future then throws an error with LH_NOT_ACQUIRED.
    future<guard> acquire_async_for(std::string_view name, milliseconds wait, const acquire_options &options = {}) {
        return later(one(name), options, wait);
    }

    /// acquire_all in the background.
    future<guard> acquire_all_async(const std::vector<wanted> &names, const acquire_options &options = {}) {
        return later(all(names), options, std::nullopt);
    }

    /// campaign in the background.
    future<guard> campaign_async(std::string_view election, std::string_view value, const acquire_options &options = {}) {
        return later(lead(election, value), options, std::nullopt);
    }

#ifdef __cpp_lib_jthread
    /// As acquire; throws LH_CANCELLED when a stop is requested. For std::jthread. options.cancel is not used.
    guard acquire(std::string_view name, std::stop_token stop, acquire_options options = {}) {
        leasehold::cancel cancel;
        options.cancel = &cancel;
        const std::stop_callback fire(stop, [&] { cancel.fire(); });
        return acquire(name, options);
    }
#endif

#ifdef __cpp_impl_coroutine
    /// guard g = co_await client.acquire_awaitable(name); goes on, on the thread lh-callback, when the lock is ours, and throws
    /// if it cannot be. A coroutine that is destroyed while it waits withdraws from the queue; the program must see to it that
    /// it does not go on at that moment. Who cannot, ends the wait with options.cancel.
    auto acquire_awaitable(std::string_view name, const acquire_options &options = {}) {
        struct awaiter {
            client &from;
            asked what;
            acquire_options options;
            detail::wait wait;

            bool await_ready() const noexcept { return false; }
            bool await_suspend(std::coroutine_handle<> handle) {
                return wait.begin(handle, [this](lh_callback done, void *owned, lh_op *op) {
                    return from.begin(what, options, std::nullopt, done, owned, op);
                });
            }
            guard await_resume() { return wait.take(); }
        };
        return awaiter{*this, one(name), options, {}};
    }
#endif

    /// Who leads an election; nothing if nobody does.
    std::optional<leader> leader_of(std::string_view election) { return leader_of(std::nothrow, election).value(); }
    result<std::optional<leader>> leader_of(std::nothrow_t, std::string_view election) {
        lh_leader *found = nullptr;
        const auto done = named(election, [&](const char *of) { return detail::call(lh_client_leader, handle_, of, &found); });
        if (!done)
            return done.error();
        std::unique_ptr<lh_leader, void (*)(lh_leader *)> owned(found, lh_leader_free);
        return copied(found);
    }

    /// Calls `told` with who leads an election, at once and at every change, on the thread lh-callback, until the client is
    /// closed or the subscription is taken back. It must not throw.
    subscription observe(const std::string &election, std::function<void(const observed &)> told) {
        using function = std::function<void(const observed &)>;
        auto call = [](void *user_data, const lh_result *result) noexcept {
            auto *kept = static_cast<function *>(user_data);
            if (!result->is_last || (result->status != LH_OK && result->status != LH_CANCELLED))
                (*kept)({copied(result->leader), result->after_gap, result->status});
            if (result->is_last)
                delete kept;
        };
        detail::whole(election).value();
        auto owned = std::make_unique<function>(std::move(told));
        return subscription(detail::start(std::move(owned), call, lh_client_observe, handle_, election.c_str()));
    }

    /// What it has counted and timed, as text in the format of OpenMetrics. Asks nobody.
    std::string metrics() const { return detail::copied(lh_client_metrics, handle_); }

    /// Everybody in the queue of a lock, the holder first.
    std::vector<contender> queue(std::string_view name) { return queue(std::nothrow, name).value(); }
    result<std::vector<contender>> queue(std::nothrow_t, std::string_view name) {
        lh_contenders *list = nullptr;
        const auto done = named(name, [&](const char *of) { return detail::call(lh_client_queue, handle_, of, &list); });
        if (!done)
            return done.error();
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
    void force_release(std::string_view name, std::int64_t token) { force_release(std::nothrow, name, token).value(); }
    result<void> force_release(std::nothrow_t, std::string_view name, std::int64_t token) {
        return named(name, [&](const char *of) { return detail::call(lh_client_force_release, handle_, of, token); });
    }

    /// Calls `told` with every change of the session's state, and the reason of a loss, on the thread lh-callback, until
    /// the client is closed or the subscription is taken back. It must not throw.
    subscription on_state(std::function<void(lh_state, std::int32_t)> told) {
        using function = std::function<void(lh_state, std::int32_t)>;
        auto call = [](void *user_data, const lh_result *result) noexcept {
            auto *kept = static_cast<function *>(user_data);
            if (result->state != 0)
                (*kept)(static_cast<lh_state>(result->state), result->reason);
            if (result->is_last)
                delete kept;
        };
        return subscription(detail::start(std::make_unique<function>(std::move(told)), call, lh_client_on_state, handle_));
    }

    /// Asks etcd for a sign of life.
    void ping() { ping(std::nothrow).value(); }
    result<void> ping(std::nothrow_t) { return detail::call(lh_client_ping, handle_); }

    /// Releases everything and ends the client; what comes later throws LH_CLOSED.
    void close() { close(std::nothrow).value(); }
    result<void> close(std::nothrow_t) { return detail::call(lh_client_close, handle_); }

    /// Who it says it is in the queue.
    std::string identity() const { return detail::copied(lh_client_identity, handle_); }

    /// The handle of C, which stays this object's.
    lh_client handle() const noexcept { return handle_; }

private:
    /// What is to be acquired: one lock, several, or the lead of an election.
    struct asked {
        std::vector<wanted> names;
        bool is_one;
        std::optional<std::string> value;

        std::vector<lh_wanted> c_names() const {
            std::vector<lh_wanted> all;
            for (const auto &one : names)
                all.push_back({one.name.c_str(), one.claim.kind, one.claim.permits, one.claim.limit});
            return all;
        }
    };

    static asked one(std::string_view name) { return {{wanted(name)}, true, std::nullopt}; }
    static asked lead(std::string_view election, std::string_view value) { return {{wanted(election)}, true, std::string(value)}; }
    static asked all(const std::vector<wanted> &names) { return {names, false, std::nullopt}; }

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
            opts.local_first = 1;
            opts.local_turns = options.local_first->turns;
            opts.local_ms = given(options.local_first->time);
        }
        opts.linger_ms = options.linger.count();
        return opts;
    }

    /// What C cannot see: 0 is not given there, and a text ends at its first NUL.
    static result<void> sound(const asked &what, const acquire_options &options) {
        if (options.local_first && options.local_first->turns == 0)
            return error(LH_INVALID_ARGUMENT, 0, "local_first needs at least 1 turn");
        for (const auto &one : what.names)
            if (auto wrong = detail::whole(one.name); !wrong)
                return wrong;
        return {};
    }

    template <typename Call> static result<void> named(std::string_view name, Call call) {
        if (auto wrong = detail::whole(name); !wrong)
            return wrong;
        return call(std::string(name).c_str());
    }

    static bool is_try(std::optional<milliseconds> wait) { return wait && wait->count() <= 0; }

    static std::optional<leader> copied(const lh_leader *found) {
        if (!found)
            return std::nullopt;
        return leader{found->key, found->token, std::string(found->value, found->value + found->value_len)};
    }

    result<guard> win(const asked &what, const acquire_options &options, std::optional<milliseconds> wait) {
        if (const auto fine = sound(what, options); !fine)
            return fine.error();
        const auto opts = c_options(options, wait);
        const bool tries = is_try(wait);
        lh_guard won{};
        lh_error wrong;
        std::int32_t status;
        if (what.value) {
            const auto call = tries ? lh_try_campaign : lh_campaign;
            status = call(handle_, what.names[0].name.c_str(), detail::bytes(*what.value), what.value->size(), &opts, &won, &wrong);
        } else if (what.is_one) {
            status = (tries ? lh_try_acquire : lh_acquire)(handle_, what.names[0].name.c_str(), &opts, &won, &wrong);
        } else {
            const auto call = tries ? lh_try_acquire_all : lh_acquire_all;
            const auto names = what.c_names();
            status = call(handle_, names.data(), names.size(), &opts, &won, &wrong);
        }
        return detail::outcome(status, wrong.reason, wrong.message, won);
    }

    static std::optional<guard> if_won(result<guard> got) {
        if (!got && got.error().code() == LH_NOT_ACQUIRED)
            return std::nullopt;
        return std::move(got).value();
    }

    /// `done` is called with `owned`, once, unless this fails.
    result<void> begin(const asked &what, const acquire_options &options, std::optional<milliseconds> wait, lh_callback done,
                       void *owned, lh_op *op = nullptr) {
        if (auto fine = sound(what, options); !fine)
            return fine;
        const auto opts = c_options(options, wait);
        const bool tries = is_try(wait);
        const lh_loop thread = LH_CALLBACK_THREAD;
        if (what.value) {
            const auto call = tries ? lh_try_campaign_async : lh_campaign_async;
            return detail::call(call, handle_, what.names[0].name.c_str(), detail::bytes(*what.value), what.value->size(), &opts,
                                thread, done, owned, op);
        }
        if (what.is_one) {
            const auto call = tries ? lh_try_acquire_async : lh_acquire_async;
            return detail::call(call, handle_, what.names[0].name.c_str(), &opts, thread, done, owned, op);
        }
        const auto call = tries ? lh_try_acquire_all_async : lh_acquire_all_async;
        const auto names = what.c_names();
        return detail::call(call, handle_, names.data(), names.size(), &opts, thread, done, owned, op);
    }

    future<guard> later(const asked &what, const acquire_options &options, std::optional<milliseconds> wait) {
        auto promise = std::make_unique<std::promise<guard>>();
        future<guard> brought(promise->get_future());
        auto done = [](void *user_data, const lh_result *from) noexcept {
            std::unique_ptr<std::promise<guard>> owned(static_cast<std::promise<guard> *>(user_data));
            if (from->status == LH_OK)
                owned->set_value(guard(from->guard));
            else
                owned->set_exception(std::make_exception_ptr(error(from->status, from->reason, from->message)));
        };
        begin(what, options, wait, done, promise.get()).value();
        promise.release(); // the callback's from now on
        return brought;
    }

    lh_client handle_{};
};

} // namespace LEASEHOLD_ABI
} // namespace leasehold

#endif // LEASEHOLD_HPP
