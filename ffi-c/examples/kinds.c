/* Readers beside each other, permits of a pool, two accounts at once, and a leader with what it proclaims. */

#include <leasehold.h>
#include <stdio.h>
#include <stdlib.h>

static void must(int32_t status, const lh_error *error) {
    if (status != LH_OK) {
        fprintf(stderr, "%s\n", error->message);
        exit(1);
    }
}

int main(int argc, char **argv) {
    const char *url = argc > 1 ? argv[1] : "http://127.0.0.1:2379";
    lh_client client;
    lh_guard one, two;
    lh_error error;
    must(lh_client_open(url, NULL, &client, &error), &error);

    lh_acquire_opts shared = {.size = sizeof shared, .kind = LH_SHARED};
    must(lh_acquire(client, "/config", &shared, &one, &error), &error);
    must(lh_acquire(client, "/config", &shared, &two, &error), &error); /* beside the first; a mutex would wait for both */
    puts("two readers");
    lh_release(one, NULL);
    lh_release(two, NULL);

    lh_acquire_opts permits = {.size = sizeof permits, .kind = LH_PERMITS, .permits = 2, .limit = 3};
    must(lh_acquire(client, "/pool", &permits, &one, &error), &error);
    printf("two more of three: %s\n", lh_strerror(lh_try_acquire(client, "/pool", &permits, &two, &error)));
    lh_release(one, NULL);

    lh_wanted accounts[] = {{.name = "/accounts/7"}, {.name = "/accounts/3"}}; /* in any order: nobody waits in a circle */
    must(lh_acquire_all(client, accounts, 2, NULL, &one, &error), &error);
    puts("both accounts");
    lh_release(one, NULL);

    const uint8_t address[] = "10.0.0.1:80";
    lh_leader *leader;
    must(lh_campaign(client, "/leader", address, sizeof address - 1, NULL, &one, &error), &error);
    must(lh_client_leader(client, "/leader", &leader, &error), &error);
    printf("%.*s leads\n", (int)leader->value_len, (const char *)leader->value);
    lh_leader_free(leader);
    lh_release(one, NULL); /* resigns */

    lh_close(client, NULL);
    return 0;
}
