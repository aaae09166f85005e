// The lock in Asio: with any completion token (a function, a future, a coroutine), on the thread that runs the io_context.
// Boost.Asio is the same with boost:: in front.

#include <asio.hpp>
#include <leasehold.hpp>

#include <iostream>

/// Where leasehold's callbacks of a context come from. The context runs for as long as this has something to wait for.
class dispatcher {
public:
    explicit dispatcher(asio::io_context &context) : descriptor_(context) {
        lh_error error;
        if (const auto status = lh_loop_open(&loop_, &error); status != LH_OK)
            throw leasehold::error(status, 0, error.message);
        int fd = -1;
        lh_poll_fd(loop_, &fd);
        descriptor_.assign(fd);
    }
    dispatcher(const dispatcher &) = delete;
    dispatcher &operator=(const dispatcher &) = delete;
    ~dispatcher() {
        descriptor_.release(); // it is leasehold's to close
        lh_loop_close(loop_, nullptr);
    }

    /// Completes with the guard, or with the error; the lock is waited for without a thread.
    template <typename Token> auto acquire(leasehold::client &client, std::string name, Token &&token) {
        auto start = [this, &client](auto handler, std::string name) {
            using handler_type = decltype(handler);
            struct waiting {
                dispatcher &from;
                handler_type handler;
            };
            auto done = [](void *user_data, const lh_result *result) {
                std::unique_ptr<waiting> owned(static_cast<waiting *>(user_data));
                owned->from.pending_--;
                std::exception_ptr failed;
                if (result->status != LH_OK)
                    failed = std::make_exception_ptr(leasehold::error(result->status, result->reason, result->message));
                // Not from here: an exception must not leave a callback.
                asio::post(owned->from.descriptor_.get_executor(),
                           [handler = std::move(owned->handler), failed, guard = leasehold::guard(result->guard)]() mutable {
                               std::move(handler)(failed, std::move(guard));
                           });
            };
            auto owned = std::make_unique<waiting>(waiting{*this, std::move(handler)});
            lh_error error;
            const auto status =
                lh_acquire_async(client.handle(), name.c_str(), nullptr, loop_, done, owned.get(), nullptr, &error);
            if (status != LH_OK)
                throw leasehold::error(status, error.reason, error.message);
            owned.release();
            if (pending_++ == 0)
                wait();
        };
        return asio::async_initiate<Token, void(std::exception_ptr, leasehold::guard)>(start, token, std::move(name));
    }

private:
    void wait() {
        descriptor_.async_wait(asio::posix::stream_descriptor::wait_read, [this](std::error_code error) {
            if (error)
                return;
            lh_dispatch(loop_, nullptr);
            if (pending_ > 0)
                wait();
        });
    }

    lh_loop loop_{};
    asio::posix::stream_descriptor descriptor_;
    int pending_ = 0;
};

int main(int argc, char **argv) try {
    leasehold::client client(argc > 1 ? argv[1] : "http://127.0.0.1:2379");
    asio::io_context context;
    dispatcher locks(context);

    asio::steady_timer work(context);
    std::future<leasehold::guard> second;
    locks.acquire(client, "/lock/asio", [&](std::exception_ptr failed, leasehold::guard guard) {
        if (failed)
            std::rethrow_exception(failed); // out of run()
        std::cout << "held, token " << guard.token() << "\n";
        second = locks.acquire(client, "/lock/asio", asio::use_future); // waits in the queue meanwhile
        work.expires_after(std::chrono::milliseconds(1));
        work.async_wait([held = std::move(guard)](std::error_code) { std::cout << "some work\n"; }); // then it is released
    });
    context.run();
    std::cout << "then held, token " << second.get().token() << "\n";
    return 0;
} catch (const leasehold::error &error) {
    std::cerr << error.name() << ": " << error.what() << "\n";
    return 1;
}
