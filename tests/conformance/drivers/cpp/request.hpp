// Reading a request's fields. A field that is null counts as left out; whatever is wrong with one is thrown as a refusal.

#ifndef REQUEST_HPP
#define REQUEST_HPP

#include <jansson.h>
#include <leasehold.hpp>

#include <cmath>
#include <map>

// Why a request failed: one of leasehold's codes, or one of the protocol's own two.
struct refusal {
    std::string code, message;
};

inline refusal malformed(std::string message) { return {"BAD_REQUEST", std::move(message)}; }
inline refusal invalid(std::string message) { return {"INVALID_ARGUMENT", std::move(message)}; }

class request {
public:
    explicit request(json_t *object) : object_(object) {}

    json_t *find(const char *name) const {
        json_t *value = json_object_get(object_, name);
        return json_is_null(value) ? nullptr : value;
    }
    bool has(const char *name) const { return find(name) != nullptr; }

    std::optional<std::string> text_if_any(const char *name) const {
        json_t *value = find(name);
        return value ? std::optional(text_in(value, name)) : std::nullopt;
    }
    std::string text(const char *name) const { return required(text_if_any(name), name); }

    // A text that C ends with NUL. There is none with a NUL inside.
    std::string name(const char *field) const { return without_nul(text(field), field); }
    std::optional<std::string> name_if_any(const char *field) const {
        auto found = text_if_any(field);
        return found ? std::optional(without_nul(std::move(*found), field)) : std::nullopt;
    }

    std::optional<bool> flag_if_any(const char *name) const {
        json_t *value = find(name);
        if (value && !json_is_boolean(value))
            throw malformed(quoted(name) + " must be true or false");
        return value ? std::optional(json_is_true(value)) : std::nullopt;
    }

    // 5000.0 and 5e3 are as whole as 5000.
    std::optional<std::int64_t> integer_if_any(const char *name) const {
        json_t *value = find(name);
        if (!value)
            return std::nullopt;
        if (json_is_integer(value))
            return json_integer_value(value);
        const double real = json_real_value(value);
        if (!json_is_real(value) || real != std::floor(real))
            throw malformed(quoted(name) + " must be a whole number");
        if (real >= 0x1p63 || real < -0x1p63)
            throw invalid(quoted(name) + " is too large");
        return static_cast<std::int64_t>(real);
    }
    std::int64_t integer(const char *name) const { return required(integer_if_any(name), name); }

    std::optional<leasehold::milliseconds> millis_if_any(const char *name) const {
        const auto number = integer_if_any(name);
        if (number && *number < 0)
            throw invalid(quoted(name) + " cannot be below 0");
        return number ? std::optional(leasehold::milliseconds(*number)) : std::nullopt;
    }

    std::uint32_t count(const char *name, std::uint32_t otherwise) const {
        const auto number = integer_if_any(name);
        if (number && (*number < 1 || *number > UINT32_MAX))
            throw invalid(quoted(name) + " must be a number from 1");
        return number ? static_cast<std::uint32_t>(*number) : otherwise;
    }

    std::vector<std::string> texts(const char *name, bool must_be_there = false) const {
        json_t *list = find(name), *item;
        std::size_t i;
        if (must_be_there)
            required(list ? std::optional(true) : std::nullopt, name);
        if (list && !json_is_array(list))
            throw malformed(quoted(name) + " must be a list of texts");
        std::vector<std::string> found;
        json_array_foreach(list, i, item) found.push_back(text_in(item, name));
        return found;
    }

    std::map<std::string, std::string> pairs(const char *name) const {
        json_t *object = find(name), *item;
        const char *key;
        if (object && !json_is_object(object))
            throw malformed(quoted(name) + " must be an object of texts");
        std::map<std::string, std::string> found;
        json_object_foreach(object, key, item) found[key] = text_in(item, name);
        return found;
    }

    std::vector<request> objects(const char *name) const {
        json_t *list = find(name), *item;
        std::size_t i;
        std::vector<request> found;
        if (!json_is_array(list))
            throw malformed(quoted(name) + " must be a list of objects");
        json_array_foreach(list, i, item) {
            if (!json_is_object(item))
                throw malformed(quoted(name) + " must be a list of objects");
            found.emplace_back(item);
        }
        return found;
    }

    leasehold::claim claim() const {
        const std::string kind = text_if_any("kind").value_or("mutex");
        const bool counts = has("permits") || has("limit");
        if (kind == "semaphore")
            return leasehold::permits(count("permits", 1), count("limit", 0));
        if (kind != "mutex" && kind != "shared")
            throw refusal{"UNSUPPORTED", "there is no lock of the kind \"" + kind + "\""};
        if (counts)
            throw invalid("permits and limit are for the kind semaphore");
        return kind == "shared" ? leasehold::shared : leasehold::mutex;
    }

private:
    static std::string quoted(const char *name) { return "the field \"" + std::string(name) + "\""; }

    template <typename T> static T required(std::optional<T> value, const char *name) {
        if (!value)
            throw malformed(quoted(name) + " is missing");
        return std::move(*value);
    }

    static std::string text_in(json_t *value, const char *name) {
        if (!json_is_string(value))
            throw malformed(quoted(name) + " must be a text");
        return {json_string_value(value), json_string_length(value)};
    }

    static std::string without_nul(std::string text, const char *name) {
        if (text.find('\0') != std::string::npos)
            throw invalid(quoted(name) + " contains a NUL byte");
        return text;
    }

    json_t *object_;
};

#endif
