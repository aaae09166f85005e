package io.leasehold.driver;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParseException;
import com.google.gson.JsonParser;
import com.google.gson.JsonPrimitive;
import com.google.gson.Strictness;
import com.google.gson.stream.JsonReader;
import com.google.gson.stream.JsonToken;
import java.io.IOException;
import java.io.StringReader;
import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
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

    /** Reads one line, more strictly than this parser does by itself. */
    static Request parse(byte[] line) {
        try {
            String text = StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(line)).toString();
            JsonReader reader = new JsonReader(new StringReader(text));
            reader.setStrictness(Strictness.STRICT);
            JsonElement parsed = JsonParser.parseReader(reader);
            if (reader.peek() != JsonToken.END_DOCUMENT) {
                throw malformed("a request is one JSON object a line");
            }
            // JSON can write characters that no UTF-8 can say.
            if (!parsed.isJsonObject() || !StandardCharsets.UTF_8.newEncoder().canEncode(parsed.toString())) {
                throw malformed("a request is a JSON object");
            }
            return new Request(parsed.getAsJsonObject());
        } catch (IOException | JsonParseException error) {
            throw malformed("a request is a JSON object: " + error.getMessage());
        }
    }

    Optional<JsonElement> field(String name) {
        return Optional.ofNullable(fields.get(name)).filter(value -> !value.isJsonNull());
    }

    Optional<String> textIfAny(String name) {
        return field(name).map(value -> text(name, value));
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

    /** A whole number: 5000.0 and 5e3 are as whole as 5000. */
    Optional<Long> integerIfAny(String name) {
        return field(name).map(value -> {
            if (!(value instanceof JsonPrimitive number) || !number.isNumber()) {
                throw malformed("the field \"" + name + "\" must be a whole number");
            }
            BigDecimal exact = number.getAsBigDecimal();
            try {
                return exact.longValueExact();
            } catch (ArithmeticException other) {
                // What no language's 64 bits can hold, or a fraction.
                if (exact.stripTrailingZeros().scale() <= 0) {
                    throw new Refusal("INVALID_ARGUMENT", name + " (TTL, timeout or token) cannot be " + exact);
                }
                throw malformed("the field \"" + name + "\" must be a whole number");
            }
        });
    }

    long integer(String name) {
        return integerIfAny(name).orElseThrow(() -> malformed("the field \"" + name + "\" is missing"));
    }

    List<String> texts(String name) {
        return textsIfAny(name).orElseThrow(() -> malformed("the field \"" + name + "\" is missing"));
    }

    Optional<List<String>> textsIfAny(String name) {
        return field(name).map(list -> {
            if (!list.isJsonArray()) {
                throw malformed("the field \"" + name + "\" must be a list of texts");
            }
            return list.getAsJsonArray().asList().stream().map(item -> text(name, item)).toList();
        });
    }

    /** Texts by their names; none if the field is left out. */
    Map<String, String> pairs(String name) {
        Map<String, String> pairs = new LinkedHashMap<>();
        field(name).ifPresent(object -> {
            if (!object.isJsonObject()) {
                throw malformed("the field \"" + name + "\" must be an object of texts");
            }
            object.getAsJsonObject().asMap().forEach((key, value) -> pairs.put(key, text(name, value)));
        });
        return pairs;
    }

    /** A number of permits, which the API takes as an {@code int}. */
    Optional<Integer> permitsIfAny(String name) {
        return integerIfAny(name).map(number -> {
            if (number != number.intValue()) {
                throw new Refusal("INVALID_ARGUMENT", name + " cannot be " + number);
            }
            return number.intValue();
        });
    }

    /** The locks of an acquire over several names. */
    Optional<List<Request>> requestsIfAny(String name) {
        return field(name).map(list -> {
            if (!list.isJsonArray()) {
                throw malformed("the field \"" + name + "\" must be a list of objects");
            }
            return list.getAsJsonArray().asList().stream().map(item -> object(name, item)).toList();
        });
    }

    /** An object inside this one; empty if the field is false, or left out. With {@code true}, one without fields. */
    Optional<Request> requestIfAny(String name) {
        return field(name).flatMap(value -> {
            if (value instanceof JsonPrimitive flag && flag.isBoolean()) {
                return flag.getAsBoolean() ? Optional.of(new Request(new JsonObject())) : Optional.empty();
            }
            return Optional.of(object(name, value));
        });
    }

    private static Request object(String name, JsonElement value) {
        if (!value.isJsonObject()) {
            throw malformed("the field \"" + name + "\" must be, or hold, objects");
        }
        return new Request(value.getAsJsonObject());
    }

    private static String text(String name, JsonElement value) {
        if (!(value instanceof JsonPrimitive text) || !text.isString()) {
            throw malformed("the field \"" + name + "\" must be a text");
        }
        return text.getAsString();
    }
}
