// leasehold.hpp in C++20: std::stop_token and co_await. Needs no etcd.

#include "check.h"

#include <leasehold.hpp>
#include <thread>

using namespace std::chrono_literals;
using leasehold::client;
using leasehold::guard;

// A coroutine that nobody waits for.
struct detached {
    struct promise_type {
        detached get_return_object() { return {}; }
        std::suspend_never initial_suspend() noexcept { return {}; }
        std::suspend_never final_suspend() noexcept { return {}; }
        void return_void() {}
        void unhandled_exception() { std::terminate(); }
    };
};

static void a_thread_that_is_stopped_stops_waiting() {
    client c(MEMORY);
    guard held = c.acquire("/w");
    std::atomic<int> code{LH_OK};
    {
        std::jthread waiter([&](std::stop_token stop) {
            try {
                guard never = c.acquire("/w", stop);
            } catch (const leasehold::error &error) {
                code = error.code();
            }
        });
        EVENTUALLY(c.queue("/w").size() == 2);
    } // asked to stop, and joined
    CHECK(code == LH_CANCELLED && c.queue("/w").size() == 1);
    std::stop_source stopped;
    stopped.request_stop();
    try {
        guard never = c.acquire("/other", stopped.get_token());
        CHECK(!"acquired although it was stopped");
    } catch (const leasehold::error &error) {
        CHECK(error.code() == LH_CANCELLED);
    }
}

static detached work(client &c, std::atomic<int> &done, std::atomic<int> &inside) {
    guard held = co_await c.acquire_awaitable("/co");
    CHECK(++inside == 1 && held.held());
    inside--;
    held.release();
    done++;
}

static detached fail(client &c, std::atomic<int> &code) {
    try {
        guard never = co_await c.acquire_awaitable("");
    } catch (const leasehold::error &error) {
        code = error.code();
    }
}

static void coroutines_wait_for_locks() {
    client c(MEMORY);
    std::atomic<int> done{0}, inside{0}, code{0};
    for (int i = 0; i < 50; i++)
        work(c, done, inside);
    fail(c, code);
    EVENTUALLY(done == 50 && code == LH_INVALID_ARGUMENT);
}

// A coroutine that its owner may end.
struct owned {
    struct promise_type {
        owned get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
        std::suspend_never initial_suspend() noexcept { return {}; }
        std::suspend_always final_suspend() noexcept { return {}; }
        void return_void() {}
        void unhandled_exception() { std::terminate(); }
    };

    std::coroutine_handle<promise_type> handle;
};

static owned wait_for_ever(client &c) {
    guard never = co_await c.acquire_awaitable("/destroyed");
    CHECK(!"went on although it was destroyed");
}

static void a_coroutine_that_is_destroyed_while_it_waits_withdraws() {
    client c(MEMORY);
    guard held = c.acquire("/destroyed");
    owned waiting = wait_for_ever(c);
    EVENTUALLY(c.queue("/destroyed").size() == 2);
    waiting.handle.destroy();
    EVENTUALLY(c.queue("/destroyed").size() == 1);
    held.release();
    CHECK(c.try_acquire("/destroyed").has_value());
}

int main() {
    a_thread_that_is_stopped_stops_waiting();
    coroutines_wait_for_locks();
    a_coroutine_that_is_destroyed_while_it_waits_withdraws();
    EVENTUALLY(nothing_lives());
    return 0;
}
