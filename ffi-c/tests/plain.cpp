// leasehold.hpp where the compiler was told that there are neither exceptions nor run-time types: results say what failed. With
// an argument, what would throw ends the process. Needs no etcd.

#include "check.h"

#include <leasehold.hpp>

using namespace std::chrono_literals;
using leasehold::client;
using leasehold::guard;

int main(int argc, char **) {
    if (argc > 1)
        client("nowhere").ping();
    CHECK(client::open(std::nothrow, "nowhere").error().code() == LH_INVALID_ARGUMENT);
    {
        client c = client::open(std::nothrow, MEMORY).value();
        guard held = c.acquire(std::nothrow, "/w").value();
        CHECK(c.acquire(std::nothrow, "/w", {}, 0ms).error().code() == LH_NOT_ACQUIRED);
        CHECK(held.put(std::nothrow, "/x", "1") && held.release(std::nothrow));
        CHECK(held.release(std::nothrow).error().code() == LH_NOT_HELD);
        CHECK(c.acquire_async("/w").get().held());
    }
    EVENTUALLY(nothing_lives());
    return 0;
}
