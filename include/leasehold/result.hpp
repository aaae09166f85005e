// What the calls of leasehold.hpp fail with, as an exception or as a result. Part of leasehold.hpp: include that.

#ifndef LEASEHOLD_RESULT_HPP
#define LEASEHOLD_RESULT_HPP

#include "../leasehold.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

// Parts of one process may be built with different versions of these headers. What the compiler makes of them has different
// names then: the linker would otherwise take one for the other.
#define LEASEHOLD_JOIN_(first, second) first##second
#define LEASEHOLD_JOIN(first, second) LEASEHOLD_JOIN_(first, second)
#define LEASEHOLD_ABI LEASEHOLD_JOIN(abi_, LH_ABI_VERSION)

namespace leasehold {
inline namespace LEASEHOLD_ABI {

/// What a call fails with. what() is the message for people. Also caught where a library throws it that hides its names
/// (-fvisibility=hidden).
class [[gnu::visibility("default")]] error : public std::runtime_error {
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

namespace detail {

/// Throws; where the compiler was told that there are no exceptions (-fno-exceptions), says what is wrong and ends the program.
[[noreturn]] inline void fail(const error &wrong) {
#ifdef __cpp_exceptions
    throw wrong;
#else
    std::fprintf(stderr, "leasehold: %s: %s\n", wrong.name(), wrong.what());
    std::abort();
#endif
}

} // namespace detail

/// What a call with std::nothrow brought, or why it failed; with the words of std::expected.
template <typename T> class [[nodiscard]] result {
public:
    result(T value) : held_(std::in_place_index<0>, std::move(value)) {}
    result(leasehold::error error) : held_(std::in_place_index<1>, std::move(error)) {}

    bool has_value() const noexcept { return held_.index() == 0; }
    explicit operator bool() const noexcept { return has_value(); }
    /// What it brought; throws the error if it failed.
    T &value() & { return checked(), **this; }
    const T &value() const & { return checked(), **this; }
    T &&value() && { return checked(), *std::move(*this); }
    /// What it brought, or `other` if it failed.
    template <typename U> T value_or(U &&other) && {
        return has_value() ? *std::move(*this) : static_cast<T>(std::forward<U>(other));
    }
    /// What it brought; only after has_value(): anything else ends the process.
    T &operator*() & noexcept { return std::get<0>(held_); }
    const T &operator*() const & noexcept { return std::get<0>(held_); }
    T &&operator*() && noexcept { return std::move(std::get<0>(held_)); }
    T *operator->() noexcept { return &std::get<0>(held_); }
    const T *operator->() const noexcept { return &std::get<0>(held_); }
    /// Why it failed; only if it did.
    const leasehold::error &error() const noexcept { return std::get<1>(held_); }

private:
    void checked() const {
        if (!has_value())
            detail::fail(error());
    }

    std::variant<T, leasehold::error> held_;
};

/// Whether a call that brings nothing has failed, and why.
template <> class [[nodiscard]] result<void> {
public:
    result() noexcept = default;
    result(leasehold::error error) : error_(std::move(error)) {}

    bool has_value() const noexcept { return !error_; }
    explicit operator bool() const noexcept { return has_value(); }
    /// Throws the error if it failed.
    void value() const {
        if (error_)
            detail::fail(*error_);
    }
    /// Why it failed; only if it did.
    const leasehold::error &error() const noexcept { return *error_; }

private:
    std::optional<leasehold::error> error_;
};

namespace detail {

inline void check(std::int32_t status) {
    if (status != LH_OK)
        fail(error(status, 0, lh_strerror(status)));
}

/// Calls a function of C, whose last parameter is the error.
template <typename Function, typename... Arguments> result<void> call(Function function, Arguments... arguments) {
    lh_error wrong;
    const std::int32_t status = function(arguments..., &wrong);
    if (status != LH_OK)
        return error(status, wrong.reason, wrong.message);
    return {};
}

/// What a call has put into `value`, unless it failed.
template <typename T> result<T> brought(const result<void> &done, T &value) {
    if (!done)
        return done.error();
    return std::move(value);
}

/// A text of C ends at its first NUL: what follows would be lost, and another name be locked.
inline result<void> whole(std::string_view text) {
    if (text.find('\0') != std::string_view::npos)
        return error(LH_INVALID_ARGUMENT, 0, "a name, URL or option contains a NUL byte, where a text of C ends");
    return {};
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
} // namespace LEASEHOLD_ABI
} // namespace leasehold

#endif // LEASEHOLD_RESULT_HPP
