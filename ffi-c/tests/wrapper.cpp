// leasehold.hpp in C++17: what it adds to leasehold.h, namely lifetimes, exceptions, results, optionals and futures. Needs no
// etcd. modern.cpp has what later standards add.

#include "check.h"

#include <leasehold.hpp>
#include <mutex>
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

static void a_guard_that_is_overwritten_releases_at_once() {
    client c(MEMORY);
    guard kept;
    CHECK(!kept);
    kept = c.acquire("/first");
    CHECK(kept && kept.name() == "/first");
    kept = c.acquire("/second");
    // The other one is not held until the end of a scope that has nothing to do with it.
    CHECK(c.acquire_for("/first", 60s));
    kept.reset();
    CHECK(!kept && c.acquire_for("/second", 60s));
    client other(MEMORY), moved(MEMORY);
    guard held = other.acquire("/third");
    other = std::move(moved); // closes the client that held it
    CHECK(held.loss_reason() == LH_LOST_CLIENT_CLOSED);
}

static void results_say_what_exceptions_would() {
    client c(MEMORY);
    auto won = c.acquire(std::nothrow, "/w");
    CHECK(won && won->held() && (*won).token() > 0);
    auto tried = c.acquire(std::nothrow, "/w", {}, 0ms);
    CHECK(!tried && tried.error().code() == LH_NOT_ACQUIRED);
    CHECK(code_of([&] { std::move(tried).value().held(); }) == LH_NOT_ACQUIRED);
    guard taken = std::move(won).value();
    taken.release();
    CHECK(c.acquire(std::nothrow, "").error().code() == LH_INVALID_ARGUMENT);
    leasehold::acquire_options no_turn;
    no_turn.local_first = {0, 100ms};
    CHECK(c.acquire(std::nothrow, "/w", no_turn).error().code() == LH_INVALID_ARGUMENT);
    CHECK(client::open(std::nothrow, "nowhere").error().code() == LH_INVALID_ARGUMENT);
    client opened = client::open(std::nothrow, MEMORY).value();
    const auto both = opened.acquire_all(std::nothrow, {"/a", "/b"});
    CHECK(both && both->held() && (*both).keys().size() == 2 && both.value().name() == "/a");
    CHECK(opened.acquire_all(std::nothrow, {"/b", "/c"}, {}, 0ms).error().code() == LH_NOT_ACQUIRED);
    CHECK(opened.acquire(std::nothrow, "/b", {}, 0ms).value_or(guard{}).handle().id == 0);
    guard leads = opened.campaign(std::nothrow, "/e", "me").value();
    CHECK(leads.proclaim(std::nothrow, "still me") && opened.leader_of(std::nothrow, "/e").value()->value == "still me");
    CHECK(leads.put(std::nothrow, "/x", "1").value() > 0 && leads.erase(std::nothrow, "/x").value() && leads.extend(std::nothrow, 20s));
    CHECK(leads.txn(std::nothrow, {leasehold::op::get("/x")})->values.size() == 1);
    CHECK(opened.queue(std::nothrow, "/e")->size() == 1 && opened.ping(std::nothrow));
    CHECK(opened.force_release(std::nothrow, "/e", 1).error().code() == LH_NOT_HELD);
    CHECK(leads.release(std::nothrow) && leads.release(std::nothrow).error().code() == LH_NOT_HELD);
    CHECK(leads.put(std::nothrow, "/x", "1").error().code() == LH_NOT_HELD);
    CHECK(leads.txn(std::nothrow, {leasehold::op::get("/x")}).error().code() == LH_NOT_HELD);
    CHECK(opened.close(std::nothrow) && opened.ping(std::nothrow).error().code() == LH_CLOSED);
    CHECK(opened.leader_of(std::nothrow, "/e").error().code() == LH_CLOSED && opened.queue(std::nothrow, "/e").error().code() == LH_CLOSED);
}

// In C a text ends at its first NUL: another name would be locked.
static void a_name_is_not_cut() {
    client c(MEMORY);
    const std::string name("/a\0b", 4);
    CHECK(code_of([&] { auto never = c.acquire(name); }) == LH_INVALID_ARGUMENT && c.queue("/a").empty());
    CHECK(code_of([&] { auto never = c.acquire_all({"/x", name}); }) == LH_INVALID_ARGUMENT);
    CHECK(code_of([&] { auto never = c.acquire_async(name); }) == LH_INVALID_ARGUMENT);
    CHECK(code_of([&] { c.queue(name); }) == LH_INVALID_ARGUMENT && code_of([&] { c.leader_of(name); }) == LH_INVALID_ARGUMENT);
    CHECK(code_of([&] { c.observe(name, [](auto &) {}); }) == LH_INVALID_ARGUMENT);
    CHECK(code_of([&] { c.force_release(name, 1); }) == LH_INVALID_ARGUMENT);
    CHECK(code_of([&] { auto never = c.campaign(name, name); }) == LH_INVALID_ARGUMENT);
    guard leads = c.campaign("/e", name); // a value may have them
    CHECK(c.leader_of("/e")->value == name);
    leasehold::client_options options;
    options.namespace_ = name;
    CHECK(code_of([&] { client other(MEMORY, options); }) == LH_INVALID_ARGUMENT);
    CHECK(code_of([&] { client other(std::string(MEMORY) + name); }) == LH_INVALID_ARGUMENT);
    guard viewed = c.acquire(std::string_view("/a/b").substr(0, 2));
    CHECK(viewed.name() == "/a");
}

static void guards_move_as_values_do() {
    client c(MEMORY);
    static_assert(std::is_nothrow_move_constructible_v<guard> && std::is_nothrow_move_assignable_v<client>);
    static_assert(!std::is_copy_constructible_v<guard> && std::is_nothrow_default_constructible_v<guard>);
    std::vector<guard> many;
    for (const char *name : {"/1", "/2", "/3"})
        many.push_back(c.acquire(name));
    std::swap(many[0], many[2]);
    guard &same = many[0];
    many[0] = std::move(same);
    CHECK(many[0].held() && many[0].name() == "/3" && many[2].name() == "/1");
    many.erase(many.begin());
    CHECK(c.acquire_for("/3", 60s));
    client moved = std::move(c);
    client &self = moved;
    moved = std::move(self);
    CHECK(many[0].held());
    std::thread([last = std::move(many[1])]() mutable { last.release(); }).join();
}

static void every_kind_of_lock() {
    client c(MEMORY), d(MEMORY);
    leasehold::acquire_options reads, two_of_three;
    reads.claim = leasehold::shared;
    two_of_three.claim = leasehold::permits(2, 3);
    guard first = c.acquire("/rw", reads), second = d.acquire("/rw", reads);
    CHECK(first.held() && second.held() && !c.try_acquire("/rw"));
    auto queue = c.queue("/rw");
    CHECK(queue.size() == 2 && queue[1].holds && queue[1].claim.kind == LH_SHARED);
    CHECK(code_of([] { leasehold::permits(0, 3); }) == LH_INVALID_ARGUMENT);
    guard permits = c.acquire("/pool", two_of_three);
    CHECK(!d.try_acquire("/pool", two_of_three));
    leasehold::acquire_options one_of_four;
    one_of_four.claim = leasehold::permits(1, 4);
    CHECK(code_of([&] { auto never = d.try_acquire("/pool", one_of_four); }) == LH_LIMIT_MISMATCH);
    one_of_four.claim.permits = 5;
    CHECK(code_of([&] { auto never = d.try_acquire("/other", one_of_four); }) == LH_INVALID_ARGUMENT);

    guard both = c.acquire_all({"/b", {"/a", leasehold::shared}});
    auto keys = both.keys();
    CHECK(keys.size() == 2 && keys[0] == both.key() && keys[0].find("/b/") == 0 && keys[1].find("/a/") == 0);
    CHECK(!d.try_acquire("/b") && d.try_acquire("/a", reads));
    CHECK(!d.acquire_all_for({"/c", "/b"}, 0ms) && d.queue("/c").empty());
    CHECK(code_of([&] { auto never = c.acquire_all({"/x", "/x"}); }) == LH_INVALID_ARGUMENT);
    auto later = d.acquire_all_async({"/a", "/b"});
    both.release();
    CHECK(later.get().keys().size() == 2);
}

static void owners_of_one_place() {
    client c(MEMORY);
    leasehold::acquire_options options;
    options.local_first.emplace();
    options.linger = 10s;
    guard first = c.acquire("/w", options);
    const auto token = first.token();
    CHECK(first.sequence() == 0);
    first.release();
    guard second = c.acquire("/w", options);
    CHECK(second.token() == token && second.sequence() == 1);
    options.claim = leasehold::shared;
    CHECK(code_of([&] { auto never = c.acquire("/w", options); }) == LH_INVALID_ARGUMENT);
}

static void elections() {
    client c(MEMORY), d(MEMORY);
    std::mutex lock;
    std::vector<std::string> seen;
    CHECK(!c.leader_of("/e"));
    auto watch = d.observe("/e", [&](const leasehold::observed &now) {
        std::lock_guard<std::mutex> locked(lock);
        seen.push_back(now.leader ? now.leader->value : "-");
    });
    auto saw = [&](const char *value) {
        std::lock_guard<std::mutex> locked(lock);
        return !seen.empty() && seen.back() == value;
    };
    EVENTUALLY(saw("-"));
    guard leads = c.campaign("/e", "one");
    EVENTUALLY(saw("one"));
    CHECK(!d.campaign_for("/e", "other", 0ms));
    leads.proclaim("two");
    EVENTUALLY(saw("two"));
    auto leader = d.leader_of("/e");
    CHECK(leader && leader->value == "two" && leader->token == leads.token() && leader->key == leads.key());
    watch.cancel();
    leads.release();
    CHECK(code_of([&] { leads.proclaim("three"); }) != LH_OK && !d.leader_of("/e"));
    CHECK(d.campaign_async("/e", "").get().held());
}

static void a_callback_must_not_wait_for_its_own_thread() {
    client c(MEMORY);
    guard held = c.acquire("/w"), lost = c.acquire("/lost");
    auto next = c.acquire_async("/w");
    std::atomic<int> code{0};
    lost.on_lost([&](std::int32_t) { code = code_of([&] { next.wait(); }); });
    c.force_release("/lost", lost.token());
    EVENTUALLY(code == LH_WOULD_DEADLOCK);
    held.release();
    CHECK(next.get().held());
    CHECK(!lh_is_callback_thread());
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
    CHECK(code_of([&] { auto never = c.acquire("/w", short_ttl); }) == LH_INVALID_ARGUMENT);
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
    auto later = c.acquire_async("/w", options);
    std::thread waiter([&] { CHECK(code_of([&] { auto never = c.acquire("/w", options); }) == LH_CANCELLED); });
    CHECK(later.wait_for(20ms) == std::future_status::timeout);
    patience.fire();
    waiter.join();
    CHECK(code_of([&] { auto never = later.get(); }) == LH_CANCELLED);
    CHECK(code_of([&] { auto never = c.acquire_async_for("/w", 20ms).get(); }) == LH_NOT_ACQUIRED);
    auto next = c.acquire_async("/w");
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
    const std::vector<lh_txn_op> steps{op::put("/x", "1"), op::get("/x")};
    CHECK(held.txn(steps).values[0] == "1");
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
        c.acquire("/w").release();
        CHECK(!watched.expired());
        c.close();
        EVENTUALLY(last == LH_STATE_LOST && reason == LH_LOST_CLIENT_CLOSED);
    }
    EVENTUALLY(watched.expired()); // nobody tells any more
    client other(MEMORY);
    calls = 0;
    auto subscription = other.on_state([&](lh_state, std::int32_t) { calls++; });
    subscription.cancel();
    EVENTUALLY(live().operations == 0);
    other.acquire("/w").release();
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
        guard unwatched = c.acquire("/w");
        auto subscription = unwatched.on_lost([&](std::int32_t) { told += 1000; });
        subscription.cancel();
        c.force_release("/w", unwatched.token());
        EVENTUALLY(unwatched.loss_reason() == LH_LOST_KEY_DELETED);
        guard lost = c.acquire("/w");
        lost.on_lost([&](std::int32_t reason) { told += reason; });
        c.force_release("/w", lost.token());
        EVENTUALLY(told == LH_LOST_KEY_DELETED);
    }
    EVENTUALLY(nothing_lives());
    CHECK(told == LH_LOST_KEY_DELETED);
}

// It cannot go on through the library: the process ends, and says by what.
static void an_exception_leaves_a_callback() {
    client c(MEMORY);
    guard held = c.acquire("/w");
    held.on_lost([](std::int32_t) { throw std::runtime_error("of the user's function"); });
    c.force_release("/w", held.token());
    EVENTUALLY(false);
}

int main(int argc, char **) {
    if (argc > 1)
        an_exception_leaves_a_callback();
    guards_release_themselves();
    a_guard_that_is_overwritten_releases_at_once();
    results_say_what_exceptions_would();
    a_name_is_not_cut();
    guards_move_as_values_do();
    every_kind_of_lock();
    owners_of_one_place();
    elections();
    a_callback_must_not_wait_for_its_own_thread();
    errors_are_exceptions();
    waiting_can_be_left_and_ended();
    a_transaction_reads_and_writes();
    states_are_told_until_the_end();
    losses_are_told_once_and_only_losses();
    return 0;
}
