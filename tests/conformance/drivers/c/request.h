/* Reading a request's fields. A field that is null counts as left out; whatever is wrong with one ends in the loop of main. */

#ifndef REQUEST_H
#define REQUEST_H

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Of the protocol, not of leasehold. */
#define BAD_REQUEST "BAD_REQUEST"

static jmp_buf refused;
static char refusal_code[32], refusal_message[1200];

_Noreturn static void refuse(const char *code, const char *format, ...) {
    va_list values;
    va_start(values, format);
    snprintf(refusal_code, sizeof refusal_code, "%s", code);
    vsnprintf(refusal_message, sizeof refusal_message, format, values);
    va_end(values);
    longjmp(refused, 1);
}

static json_t *field(json_t *request, const char *name, bool required) {
    json_t *value = json_object_get(request, name);
    if (json_is_null(value))
        value = NULL;
    if (!value && required)
        refuse(BAD_REQUEST, "the field \"%s\" is missing", name);
    return value;
}

/* A text of any characters, as keys and values are. */
static const char *any_text(json_t *value, const char *name, size_t *length) {
    if (!json_is_string(value))
        refuse(BAD_REQUEST, "the field \"%s\" must be a text", name);
    *length = json_string_length(value);
    return json_string_value(value);
}

static const char *c_text(json_t *value, const char *name) {
    size_t length;
    const char *text = any_text(value, name, &length);
    /* C has no such text. */
    if (strlen(text) != length)
        refuse("INVALID_ARGUMENT", "the field \"%s\" contains a NUL byte", name);
    return text;
}

static const char *text(json_t *request, const char *name) { return c_text(field(request, name, true), name); }

static const char *optional_text(json_t *request, const char *name) {
    json_t *value = field(request, name, false);
    return value ? c_text(value, name) : NULL;
}

/* 5000.0 and 5e3 are as whole as 5000. */
static enum { NO_WHOLE, TOO_LARGE, WHOLE } whole(json_t *value, int64_t *number) {
    double real = json_real_value(value);
    if (json_is_integer(value)) {
        *number = json_integer_value(value);
        return WHOLE;
    }
    if (!json_is_real(value))
        return NO_WHOLE;
    if (real >= 0x1p63 || real < -0x1p63)
        return TOO_LARGE;
    *number = (int64_t)real;
    return (double)*number == real ? WHOLE : NO_WHOLE;
}

static int64_t integer(json_t *value, const char *name) {
    int64_t number = 0;
    switch (whole(value, &number)) {
    case NO_WHOLE: refuse(BAD_REQUEST, "the field \"%s\" must be a whole number", name);
    case TOO_LARGE: refuse("INVALID_ARGUMENT", "%s (TTL, timeout or token) cannot be %g", name, json_real_value(value));
    default: return number;
    }
}

/* An option in milliseconds. In C, 0 says that it is not set, so a 0 that somebody asks for cannot be given. */
static int64_t option_ms(json_t *request, const char *name) {
    json_t *value = field(request, name, false);
    if (value && integer(value, name) == 0)
        refuse("INVALID_ARGUMENT", "the option %s (TTL or timeout) cannot be 0, which says in C that it is not set", name);
    return value ? integer(value, name) : 0;
}

static bool is_false(json_t *request, const char *name) {
    json_t *value = field(request, name, false);
    if (value && !json_is_boolean(value))
        refuse(BAD_REQUEST, "the field \"%s\" must be true or false", name);
    return json_is_false(value);
}

/* Its items, or those of an empty list. */
static json_t *list(json_t *request, const char *name, bool required) {
    json_t *value = field(request, name, required), *item;
    size_t i, length;
    if (value && !json_is_array(value))
        refuse(BAD_REQUEST, "the field \"%s\" must be a list of texts", name);
    json_array_foreach(value, i, item) any_text(item, name, &length);
    return value;
}

#endif
