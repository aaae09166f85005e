#include <inttypes.h>
#include <leasehold.h>
#include <stdio.h>

int main(int argc, char **argv) {
    lh_client client;
    lh_guard guard;
    lh_error error;
    int64_t token;
    int32_t status = lh_client_open(argc > 1 ? argv[1] : "http://127.0.0.1:2379", NULL, &client, &error);
    if (status == LH_OK)
        status = lh_acquire(client, "/lock/mylock", NULL, &guard, &error); /* waits for its turn */
    if (status != LH_OK) {
        fprintf(stderr, "%s: %s\n", lh_strerror(status), error.message);
        return 1;
    }
    lh_guard_token(guard, &token); /* send it along with every write */
    printf("mine, with the token %" PRId64 "\n", token);
    lh_release(guard, &error);
    lh_close(client, &error);
    return 0;
}
