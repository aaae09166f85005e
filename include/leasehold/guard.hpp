// A lock that is held, and what is waited for or listened to. Part of leasehold.hpp: include that.

#ifndef LEASEHOLD_GUARD_HPP
#define LEASEHOLD_GUARD_HPP

#include "result.hpp"

#include <chrono>
#include <functional>
#include <future>
#include <initializer_list>
#include <memory>
#include <vector>

namespace leasehold {
inline namespace LEASEHOLD_ABI {

using milliseconds = std::chrono::milliseconds;

namespace detail {

/// Starts an asynchronous operation of C. From then on its callback owns what it is given. It is noexcept in all places: an
/// exception of the user's function ends the process there, by its own name.
template <typename Owned, typename Function, typename... Arguments>
lh_op start(std::unique_ptr<Owned> owned, lh_callback callback, Function function, Arguments... arguments) {
    lh_op op;
    call(function, arguments..., LH_CALLBACK_THREAD, callback, owned.get(), &op).value();
    owned.release();
    return op;
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
            detail::fail(error(LH_WOULD_DEADLOCK, 0, "a callback waits for a future that only its own thread, lh-callback, can complete"));
    }

    std::future<T> inner_;
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
    void release() { release(std::nothrow).value(); }
    result<void> release(std::nothrow_t) { return detail::call(lh_guard_release, handle_); }

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
            auto copy = [i](lh_guard of, char *buffer, std::size_t size, std::size_t *needed) {
                return lh_guard_key_at(of, i, buffer, size, needed);
            };
            all[i] = detail::copied(copy, handle_);
        }
        return all;
    }
    /// The id of its lease, in lower-case hexadecimal.
    std::string lease() const { return detail::copied(lh_guard_lease, handle_); }

    /// Makes the hold last at least this long from now, and waits for etcd's word on it.
    void extend(milliseconds ttl) { extend(std::nothrow, ttl).value(); }
    result<void> extend(std::nothrow_t, milliseconds ttl) { return detail::call(lh_guard_extend, handle_, ttl.count()); }

    /// Writes `value` under `key` if the lock is still held; returns the revision of the write.
    std::int64_t put(std::string_view key, std::string_view value) { return put(std::nothrow, key, value).value(); }
    result<std::int64_t> put(std::nothrow_t, std::string_view key, std::string_view value) {
        std::int64_t revision = 0;
        const auto *k = detail::bytes(key), *v = detail::bytes(value);
        return detail::brought(detail::call(lh_guard_put, handle_, k, key.size(), v, value.size(), &revision), revision);
    }

    /// Deletes `key` if the lock is still held; returns whether it existed.
    bool erase(std::string_view key) { return erase(std::nothrow, key).value(); }
    result<bool> erase(std::nothrow_t, std::string_view key) {
        bool existed = false;
        return detail::brought(detail::call(lh_guard_delete, handle_, detail::bytes(key), key.size(), &existed), existed);
    }

    /// Reads and writes in one transaction that takes effect only if the lock is still held:
    /// guard.txn({op::put("/a", "1"), op::get("/b")}).
    committed txn(std::initializer_list<lh_txn_op> steps) { return txn(steps.begin(), steps.size()); }
    result<committed> txn(std::nothrow_t, std::initializer_list<lh_txn_op> steps) {
        return txn(std::nothrow, steps.begin(), steps.size());
    }

    /// As above, with the steps of any range of lh_txn_op.
    template <typename Range> committed txn(const Range &range) { return txn(std::nothrow, range).value(); }
    template <typename Range> result<committed> txn(std::nothrow_t, const Range &range) {
        const std::vector<lh_txn_op> steps(std::begin(range), std::end(range));
        return txn(std::nothrow, steps.data(), steps.size());
    }

    /// As above, with `count` steps.
    committed txn(const lh_txn_op *steps, std::size_t count) { return txn(std::nothrow, steps, count).value(); }
    result<committed> txn(std::nothrow_t, const lh_txn_op *steps, std::size_t count) {
        lh_committed *found = nullptr;
        const auto done = detail::call(lh_guard_txn, handle_, steps, count, &found);
        if (!done)
            return done.error();
        std::unique_ptr<lh_committed, void (*)(lh_committed *)> owned(found, lh_committed_free);
        committed copy{found->revision, found->deleted, {}};
        for (std::size_t i = 0; i < found->count; i++) {
            const lh_value &value = found->values[i];
            copy.values.push_back(value.found ? std::optional(std::string(value.data, value.data + value.len)) : std::nullopt);
        }
        return copy;
    }

    /// Proclaims `value` instead of what was proclaimed before, if this guard still leads its election.
    void proclaim(std::string_view value) { proclaim(std::nothrow, value).value(); }
    result<void> proclaim(std::nothrow_t, std::string_view value) {
        return detail::call(lh_guard_proclaim, handle_, detail::bytes(value), value.size());
    }

    /// Calls `told` with a number of lh_reason when the lock is lost, on the thread lh-callback. It must not throw.
    subscription on_lost(std::function<void(std::int32_t)> told) {
        using function = std::function<void(std::int32_t)>;
        auto call = [](void *user_data, const lh_result *result) noexcept {
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
        if (handle_.id == 0)
            detail::fail(error(LH_INVALID_ARGUMENT, 0, "this guard holds nothing: it was moved from, or never acquired"));
        T answer{};
        detail::check(question(handle_, &answer));
        return answer;
    }

    lh_guard handle_{};
};

namespace detail {

/// What an acquire has brought, or why it failed.
inline result<guard> outcome(std::int32_t status, std::int32_t reason, const char *message, lh_guard won) {
    if (status == LH_OK)
        return guard(won);
    return error(status, reason, message);
}

} // namespace detail
} // namespace LEASEHOLD_ABI
} // namespace leasehold

#endif // LEASEHOLD_GUARD_HPP
