/* Takes a lock, writes under it, and gives it back. */

#include <inttypes.h>
#include <leasehold.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
    const char *url = argc > 1 ? argv[1] : "http://127.0.0.1:2379";
    lh_client client;
    lh_guard guard;
    lh_error error;

    if (lh_client_open(url, NULL, &client, &error) != LH_OK) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    if (lh_acquire(client, "/lock/mylock", NULL, &guard, &error) != LH_OK) { /* waits for its turn */
        fprintf(stderr, "%s\n", error.message);
        lh_close(client, NULL);
        return 1;
    }

    int64_t token;
    lh_guard_token(guard, &token);
    printf("mine, with the token %" PRId64 "\n", token); /* send it along with every write */

    const char *key = "/data/x", *value = "written by the owner";
    int32_t status = lh_guard_put(guard, (const uint8_t *)key, strlen(key), (const uint8_t *)value, strlen(value), NULL,
                                  &error); /* refused by etcd if the lock is lost */
    if (status != LH_OK)
        fprintf(stderr, "not written: %s\n", error.message);

    if (lh_release(guard, &error) == LH_LOST)
        fprintf(stderr, "%s\n", error.message); /* somebody else may have been at work meanwhile */
    lh_close(client, NULL);
    return status == LH_OK ? 0 : 1;
}
