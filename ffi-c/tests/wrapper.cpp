// leasehold.hpp: what it adds to leasehold.h, namely lifetimes, exceptions, optionals and futures. Needs no etcd.

#include "check.h"

#include <leasehold.hpp>
#include <thread>

using namespace std::chrono_literals;
using leasehold::client;
using leasehold::guard;

static std::int32_t code_of(const std::function<void()> &call) {
    try {
        call();
    } catch (const leasehold::error &error) {
        CHECK(std::string(error.what()).size() > 5);
        return error.code();
    }
    return LH_OK;
}

static void guards_release_themselves() {
    client c(MEMORY);
    {
        guard first = c.acquire("/w");
        CHECK(first.held() && first.token() > 0 && first.sequence() == 0 && first.remaining() > 1s);
        CHECK(first.name() == "/w" && first.key().find("/w/" + first.lease()) == 0);
        CHECK(!c.try_acquire("/w") && !c.acquire_for("/w", 20ms));
        guard moved = std::move(first);
        CHECK(moved.held() && code_of([&] { first.token(); }) == LH_INVALID_ARGUMENT);
        CHECK(moved.put("/data", "value") > 0 && moved.erase("/data") && !moved.erase("/data"));
        moved.extend(20s);
    }
    std::optional<guard> next = c.try_acquire("/w");
    CHECK(next);
    next->release();
    CHECK(code_of([&] { next->release(); }) == LH_NOT_HELD);
}

static void errors_are_exceptions() {
    CHECK(code_of([] { client c(""); }) == LH_INVALID_ARGUMENT);
    leasehold::client_options options;
    options.ttl = 0ms;
    CHECK(code_of([&] { client c(MEMORY, options); }) == LH_INVALID_ARGUMENT);
    options.ttl = 10s;
    options.identity = "wrapper-1";
    client c(MEMORY, options);
    CHECK(c.identity() == "wrapper-1");
    leasehold::acquire_options short_ttl;
    short_ttl.ttl = 1ms;
    CHECK(code_of([&] { c.acquire("/w", short_ttl); }) == LH_INVALID_ARGUMENT);
    guard held = c.acquire("/w");
    auto queue = c.queue("/w");
    CHECK(queue.size() == 1 && queue[0].identity == "wrapper-1" && queue[0].token == held.token() && !queue[0].foreign);
    CHECK(code_of([&] { c.force_release("/w", held.token() + 1); }) == LH_NOT_HELD);
    c.close();
    CHECK(code_of([&] { c.ping(); }) == LH_CLOSED);
    try {
        held.release();
        CHECK(!"released after its client was closed");
    } catch (const leasehold::error &lost) {
        CHECK(lost.code() == LH_LOST && lost.reason() == LH_LOST_CLIENT_CLOSED && lost.name() == std::string("LOST"));
    }
    CHECK(held.loss_reason() == LH_LOST_CLIENT_CLOSED);
}

static void waiting_can_be_left_and_ended() {
    client c(MEMORY);
    guard held = c.acquire("/w");
    leasehold::cancel patience;
    leasehold::acquire_options options;
    options.cancel = &patience;
    std::future<guard> later = c.acquire_async("/w", options);
    std::thread waiter([&] { CHECK(code_of([&] { c.acquire("/w", options); }) == LH_CANCELLED); });
    CHECK(later.wait_for(20ms) == std::future_status::timeout);
    patience.fire();
    waiter.join();
    CHECK(code_of([&] { later.get(); }) == LH_CANCELLED);
    CHECK(code_of([&] { c.acquire_async_for("/w", 20ms).get(); }) == LH_NOT_ACQUIRED);
    std::future<guard> next = c.acquire_async("/w");
    held.release();
    CHECK(next.get().held());
    // Nobody takes this one out of its future.
    c.acquire_async("/w").wait();
    CHECK(c.acquire_for("/w", 5s));
}

static void a_transaction_reads_and_writes() {
    client c(MEMORY);
    guard held = c.acquire("/w");
    const std::string binary("a\0b", 3);
    namespace op = leasehold::op;
    auto first = held.txn({op::put("/x", binary), op::put("/y", ""), op::get("/x"), op::get("/y"), op::get("/z")});
    CHECK(first.revision > held.token() && first.deleted == 0 && first.values.size() == 3);
    CHECK(first.values[0] == binary && first.values[1] == "" && first.values[2] == std::nullopt);
    auto second = held.txn({op::erase("/x"), op::erase("/z"), op::get("/x")});
    CHECK(second.deleted == 1 && second.values.size() == 1 && !second.values[0]);
    held.release();
    CHECK(code_of([&] { held.txn({op::put("/x", "")}); }) == LH_NOT_HELD);
}

static void states_are_told_until_the_end() {
    std::atomic<int> calls{0}, last{0}, reason{0};
    auto alive = std::make_shared<int>();
    std::weak_ptr<int> watched = alive;
    {
        client c(MEMORY);
        c.on_state([&, alive = std::move(alive)](lh_state state, std::int32_t why) { last = state, reason = why; });
        c.acquire("/w");
        CHECK(!watched.expired());
        c.close();
        EVENTUALLY(last == LH_STATE_LOST && reason == LH_LOST_CLIENT_CLOSED);
    }
    EVENTUALLY(watched.expired()); // nobody tells any more
    client other(MEMORY);
    calls = 0;
    lh_op op = other.on_state([&](lh_state, std::int32_t) { calls++; });
    OK(lh_op_cancel(op));
    EVENTUALLY(live().operations == 0);
    other.acquire("/w");
    other.close();
    CHECK(calls == 0);
}

static void losses_are_told_once_and_only_losses() {
    std::atomic<int> told{0};
    {
        client c(MEMORY);
        guard held = c.acquire("/w");
        held.on_lost([&](std::int32_t) { told += 100; });
        held.release();
        guard lost = c.acquire("/w");
        lost.on_lost([&](std::int32_t reason) { told += reason; });
        c.force_release("/w", lost.token());
        EVENTUALLY(told == LH_LOST_KEY_DELETED);
    }
    EVENTUALLY(nothing_lives());
    CHECK(told == LH_LOST_KEY_DELETED);
}

int main() {
    guards_release_themselves();
    errors_are_exceptions();
    waiting_can_be_left_and_ended();
    a_transaction_reads_and_writes();
    states_are_told_until_the_end();
    losses_are_told_once_and_only_losses();
    return 0;
}
