// The lock in C++: a guard that releases itself, a try, and a future.

#include <leasehold.hpp>

#include <iostream>

int main(int argc, char **argv) try {
    leasehold::client client(argc > 1 ? argv[1] : "http://127.0.0.1:2379");

    leasehold::guard guard = client.acquire("/lock/mylock");
    std::cout << "mine, with the token " << guard.token() << "\n";
    guard.put("/data/x", "written by the owner");

    if (!client.try_acquire("/lock/mylock"))
        std::cout << "nobody else gets it\n";

    leasehold::future<leasehold::guard> next = client.acquire_async("/lock/mylock");
    guard.release();
    std::cout << "the next one has the token " << next.get().token() << "\n"; // and is released at once
    return 0;
} catch (const leasehold::error &error) {
    std::cerr << error.name() << ": " << error.what() << "\n";
    return 1;
}
