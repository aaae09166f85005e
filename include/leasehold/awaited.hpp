// The wait of a coroutine for a lock. Part of leasehold.hpp: include that.

#ifndef LEASEHOLD_AWAITED_HPP
#define LEASEHOLD_AWAITED_HPP

#include "guard.hpp"

#include <atomic>
#include <coroutine>

namespace leasehold {
inline namespace LEASEHOLD_ABI {
namespace detail {

/// Lives in the coroutine, which may be destroyed while the callback is still to come: what that needs, both share.
class wait {
public:
    wait() : shared_(std::make_shared<state>()) {}
    wait(const wait &) = delete;
    wait &operator=(const wait &) = delete;
    /// Of a coroutine that waits: it withdraws, and a lock that comes all the same is released.
    ~wait() {
        if (!shared_->decided.exchange(true) && shared_->op.id != 0)
            lh_op_cancel(shared_->op);
    }

    /// Calls `start` with what an asynchronous acquire needs. False if it could not be started: take() says why.
    template <typename Start> bool begin(std::coroutine_handle<> coroutine, Start start) {
        const auto kept = shared_; // the coroutine may have gone on and be over, with this object, before `start` returns
        kept->coroutine = coroutine;
        auto owned = std::make_unique<std::shared_ptr<state>>(kept);
        auto done = [](void *user_data, const lh_result *result) noexcept {
            const std::unique_ptr<std::shared_ptr<state>> mine(static_cast<std::shared_ptr<state> *>(user_data));
            state &waits = **mine;
            waits.brought.emplace(outcome(result->status, result->reason, result->message, result->guard));
            if (!waits.decided.exchange(true))
                waits.coroutine.resume();
        };
        const auto begun = start(done, owned.get(), &kept->op);
        if (begun) {
            owned.release(); // the callback's
            return true;
        }
        kept->decided = true;
        kept->brought.emplace(begun.error());
        return false;
    }

    guard take() { return std::move(*shared_->brought).value(); }

private:
    struct state {
        std::coroutine_handle<> coroutine;
        lh_op op{};
        std::optional<result<guard>> brought;
        /// What becomes of the coroutine: the callback resumes it, or it is destroyed.
        std::atomic<bool> decided{false};
    };

    std::shared_ptr<state> shared_;
};

} // namespace detail
} // namespace LEASEHOLD_ABI
} // namespace leasehold

#endif // LEASEHOLD_AWAITED_HPP
