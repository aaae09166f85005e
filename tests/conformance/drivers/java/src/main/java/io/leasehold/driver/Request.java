package io.leasehold.driver;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonPrimitive;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/** Reads a request field by field. A field that is null counts as left out. */
record Request(JsonObject fields) {
    /** Why a request is refused: a code of the protocol's or of leasehold's, and a message for people. */
    static final class Refusal extends RuntimeException {
        private static final long serialVersionUID = 1;
        final String code;

        Refusal(String code, String message) {
            super(message, null, false, false);
            this.code = code;
        }
    }

    static Refusal malformed(String message) {
        return new Refusal("BAD_REQUEST", message);
    }

    static Refusal unsupported(String message) {
        return new Refusal("UNSUPPORTED", message);
    }

    Optional<JsonElement> field(String name) {
        return Optional.ofNullable(fields.get(name)).filter(value -> !value.isJsonNull());
    }

    Optional<String> textIfAny(String name) {
        return field(name).map(value -> {
            if (!(value instanceof JsonPrimitive text) || !text.isString()) {
                throw malformed("the field \"" + name + "\" must be a text");
            }
            return text.getAsString();
        });
    }

    String text(String name) {
        return textIfAny(name).orElseThrow(() -> malformed("the field \"" + name + "\" is missing"));
    }

    boolean flag(String name, boolean otherwise) {
        return field(name)
                .map(value -> {
                    if (!(value instanceof JsonPrimitive flag) || !flag.isBoolean()) {
                        throw malformed("the field \"" + name + "\" must be true or false");
                    }
                    return flag.getAsBoolean();
                })
                .orElse(otherwise);
    }

    Optional<Duration> millisIfAny(String name) {
        return integerIfAny(name).map(Duration::ofMillis);
    }

    Optional<Long> integerIfAny(String name) {
        return field(name).map(value -> {
            try {
                if (value instanceof JsonPrimitive number && number.isNumber()) {
                    return number.getAsBigDecimal().longValueExact();
                }
            } catch (ArithmeticException | NumberFormatException notWhole) {
                // Refused below.
            }
            throw malformed("the field \"" + name + "\" must be a whole number");
        });
    }

    long integer(String name) {
        return integerIfAny(name).orElseThrow(() -> malformed("the field \"" + name + "\" is missing"));
    }

    List<String> texts(String name) {
        JsonElement list = field(name).orElseThrow(() -> malformed("the field \"" + name + "\" is missing"));
        List<String> texts = new ArrayList<>();
        if (list.isJsonArray()) {
            for (JsonElement item : list.getAsJsonArray()) {
                if (item instanceof JsonPrimitive text && text.isString()) {
                    texts.add(text.getAsString());
                }
            }
        }
        if (!list.isJsonArray() || texts.size() != list.getAsJsonArray().size()) {
            throw malformed("the field \"" + name + "\" must be a list of texts");
        }
        return texts;
    }
}
