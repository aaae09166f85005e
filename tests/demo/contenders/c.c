/* The contender in C for `make demo`: one client, one lock, told on stdin step by step what to do. The protocol is that of
 * tests/demo/src/protocol.rs. */

#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <leasehold.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void say(const char *event) {
    puts(event);
    fflush(stdout);
}

static void fail(const char *what) {
    /* No message of the library has control characters; quotes it may have. */
    fputs("{\"event\":\"failed\",\"error\":\"", stdout);
    for (; *what; what++) {
        if (*what == '"' || *what == '\\')
            putchar('\\');
        putchar(*what);
    }
    say("\"}");
    exit(1);
}

static void check(int32_t status, const lh_error *error) {
    if (status != LH_OK)
        fail(error->message);
}

static const char *setting(const char *name) {
    const char *value = getenv(name);
    if (!value)
        fail("a variable LEASEHOLD_DEMO_… is not set; the demo sets it for its contenders");
    return value;
}

static int64_t read_counter(lh_guard guard, const char *counter) {
    lh_txn_op get = {.kind = LH_TXN_GET, .key = (const uint8_t *)counter, .key_len = strlen(counter)};
    lh_committed *committed;
    lh_error error;
    char text[32] = "0";
    check(lh_guard_txn(guard, &get, 1, &committed, &error), &error);
    if (committed->values[0].found)
        snprintf(text, sizeof text, "%.*s", (int)committed->values[0].len, (const char *)committed->values[0].data);
    lh_committed_free(committed);
    return strtoll(text, NULL, 10);
}

int main(void) {
    const char *lock = setting("LEASEHOLD_DEMO_LOCK"), *counter = setting("LEASEHOLD_DEMO_COUNTER");
    lh_client_opts opts = {
        .size = sizeof opts,
        .ttl_ms = strtoll(setting("LEASEHOLD_DEMO_TTL"), NULL, 10) * 1000,
        .identity = setting("LEASEHOLD_DEMO_IDENTITY"),
    };
    lh_client client;
    lh_guard guard = {0};
    lh_error error;
    int64_t value = 0;
    check(lh_client_open(setting("LEASEHOLD_DEMO_ENDPOINTS"), &opts, &client, &error), &error);
    char line[64];
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\r\n")] = '\0';
        if (strcmp(line, "acquire") == 0) {
            char key[LH_KEY_SIZE];
            int64_t token;
            say("{\"event\":\"waiting\"}");
            check(lh_acquire(client, lock, NULL, &guard, &error), &error);
            lh_guard_token(guard, &token);
            lh_guard_key(guard, key, sizeof key, NULL);
            printf("{\"event\":\"acquired\",\"token\":%" PRId64 ",\"key\":\"%s\"}", token, key);
            say("");
        } else if (strcmp(line, "read") == 0) {
            value = read_counter(guard, counter);
            printf("{\"event\":\"read\",\"value\":%" PRId64 "}", value);
            say("");
        } else if (strcmp(line, "write") == 0) {
            char text[32];
            bool held;
            int length = snprintf(text, sizeof text, "%" PRId64, value + 1);
            lh_guard_held(guard, &held);
            int32_t status = lh_guard_put(guard, (const uint8_t *)counter, strlen(counter), (const uint8_t *)text,
                                          (size_t)length, NULL, &error);
            if (status == LH_OK) {
                printf("{\"event\":\"counted\",\"value\":%" PRId64 "}", value + 1);
            } else {
                const char *reason = lh_reason_name(error.reason), *quote = reason ? "\"" : "";
                printf("{\"event\":\"refused\",\"held\":%s,\"error\":\"%s\",\"reason\":%s%s%s}", held ? "true" : "false",
                       lh_strerror(status), quote, reason ? reason : "null", quote);
                lh_guard_free(guard);
            }
            say("");
        } else if (strcmp(line, "release") == 0) {
            check(lh_release(guard, &error), &error);
            say("{\"event\":\"released\"}");
        } else {
            fail("unknown command; known are acquire, read, write and release");
        }
    }
    check(lh_close(client, &error), &error);
    return 0;
}
