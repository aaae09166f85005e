/*
 * leasehold: a distributed lock on etcd v3 that you hold by lease.
 *
 * This file is generated from ffi-c/src by `make gen` and is the manual of the C library.
 *
 *   lh_client client;
 *   lh_guard guard;
 *   lh_error error;
 *   int64_t token;
 *   if (lh_client_open("http://127.0.0.1:2379", NULL, &client, &error) != LH_OK)
 *       fprintf(stderr, "%s\n", error.message);
 *   lh_acquire_opts opts = {.size = sizeof opts, .wait_ms = 5000};
 *   if (lh_acquire(client, "/lock/mylock", &opts, &guard, &error) == LH_OK) {
 *       lh_guard_token(guard, &token);     // send it along with every write that the lock protects
 *       lh_release(guard, &error);
 *   }
 *   lh_close(client, &error);
 *
 * Statuses   Every function answers LH_OK or another number of lh_status, and brings values through pointers. Where a
 *            function takes an lh_error, that may be NULL; otherwise it receives the code and a message by copy.
 * Handles    lh_client, lh_guard, lh_cancel, lh_loop and lh_op are numbers with a generation. {0} is none. One that was
 *            freed, or never given out, is answered with LH_INVALID_ARGUMENT, never with a crash. Any thread may use any
 *            handle, also while another closes or frees it.
 * Options    A struct with `size` first, to be set to its sizeof; what is left 0 or NULL is the default. NULL stands for
 *            all defaults. The library reads the struct during the call only, and no further than `size` says.
 * Times      Milliseconds. An acquire waits for ever unless it has a limit; lh_try_acquire does not wait.
 * Waiting    Only acquires wait for others; opts->cancel ends that from another thread. The other blocking calls ask
 *            etcd and end by themselves: as a rule within the client's request_timeout_ms, a release within 5000. Who
 *            may want to give one up earlier starts its form ..._async, which lh_op_cancel ends.
 * Text       UTF-8 that ends with NUL; keys and values of writes are bytes with a length.
 * Threads    The first operation starts the thread lh-io-0, which talks to etcd and never runs your code. Callbacks run
 *            on the thread lh-callback, or in your own lh_dispatch. Opening a client starts no thread. Both block signals:
 *            what a callback starts there (fork, pthread_create) inherits that.
 *            A thread that is cancelled (pthread_cancel) in a call ends after it: fire an lh_cancel to end the wait.
 * Fork       A child may use its parent's clients: they open sessions of their own there. Guards and loops stay the
 *            parent's: LH_FORKED. A child made by vfork or by a thread of another runtime should exec at once.
 * C++        An exception must not leave a callback: that ends the process. leasehold.hpp wraps all this.
 */


#ifndef LEASEHOLD_H
#define LEASEHOLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The version of this header, to be compared with lh_version(), which is the library's. */
#define LH_VERSION_MAJOR 0
#define LH_VERSION_MINOR 1
#define LH_VERSION_PATCH 0
#define LH_VERSION "0.1.0"

/* The version of this header's binary interface, to be compared with lh_abi_version(). Until 1.0 it is that of the minor
 * version, and part of the library's soname: what was built with another one is refused when it is loaded. */
#define LH_ABI_VERSION 1

/* A result that nobody looks at would be a lock that nobody releases. */
#if defined(__cplusplus) && __cplusplus >= 201703L
#define LH_MUST_USE [[nodiscard]]
#elif defined(__GNUC__)
#define LH_MUST_USE __attribute__((warn_unused_result))
#else
#define LH_MUST_USE
#endif

/* The callback thread of the library, for functions that take an lh_loop. */
#ifdef __cplusplus
#define LH_CALLBACK_THREAD (lh_loop{0})
#else
#define LH_CALLBACK_THREAD ((lh_loop){0})
#endif


/** Bytes of a message, the NUL included. */
#define LH_MESSAGE_SIZE 1016

/** A size that holds every key of a guard: namespace and name of 1024 bytes each, the lease and a number. */
#define LH_KEY_SIZE 2112

/** What a function answers. Numbers and names are the same in every language and are never reused. */
typedef enum lh_status {
    /** Done. */
    LH_OK = 0,
    /** The wait limit passed, or a try found the lock taken. */
    LH_NOT_ACQUIRED = 10,
    /** The operation was cancelled. */
    LH_CANCELLED = 11,
    /** The lock was lost: this guard can no longer prove that it holds it. lh_error.reason says why. */
    LH_LOST = 12,
    /** There is no such hold: released before, or the token is unknown. */
    LH_NOT_HELD = 13,
    /** A scope inside a scope of the same name, in one thread; only layers above this one notice. */
    LH_WOULD_DEADLOCK = 14,
    /** An argument, handle or option is wrong; nothing was done. */
    LH_INVALID_ARGUMENT = 20,
    /** The client or the loop was closed. */
    LH_CLOSED = 21,
    /** The handle belongs to the parent of this forked process. */
    LH_FORKED = 22,
    /** No endpoint could be reached. */
    LH_UNAVAILABLE = 30,
    /** etcd did not answer within the time limit; a write may or may not have taken effect. */
    LH_DEADLINE_EXCEEDED = 31,
    /** etcd refused the user, the password or the certificate. */
    LH_UNAUTHENTICATED = 32,
    /** The user's roles do not allow this key. */
    LH_PERMISSION_DENIED = 33,
    /** Contenders of one name disagree about its limit. */
    LH_LIMIT_MISMATCH = 34,
    /** The server, or this version of the library, cannot do that. */
    LH_UNSUPPORTED = 35,
    /** etcd is out of space or refuses more requests, or the process is out of file descriptors or threads. */
    LH_RESOURCE_EXHAUSTED = 36,
    /** A bug in leasehold; please report it. */
    LH_INTERNAL = 99
} lh_status;

/** Why a lock was lost. 0 is no reason: it was not. */
typedef enum lh_reason {
    /** The lease ran out: no renewal was acknowledged in time. */
    LH_LOST_EXPIRED = 1,
    /** Somebody deleted the guard's key while its lease lived. */
    LH_LOST_KEY_DELETED = 2,
    /** etcd ended the lease before its time. */
    LH_LOST_LEASE_REVOKED = 3,
    /** The client was closed while the lock was held. */
    LH_LOST_CLIENT_CLOSED = 4,
    /** The guard belongs to the parent of this forked process. */
    LH_LOST_FORKED = 5,
    /** etcd went back in time: it was restored from a backup, or lost its data. */
    LH_LOST_STORE_RESTORED = 6
} lh_reason;

/** How a client's session feels. It can be trusted while it is OK or SUSPECT. */
typedef enum lh_state {
    /** Renewed in time. */
    LH_STATE_OK = 1,
    /** A renewal is overdue. Locks are still held: there is time left to stop in good order. */
    LH_STATE_SUSPECT = 2,
    /** Over: its guards are lost for lh_result.reason. The next acquire starts another session. */
    LH_STATE_LOST = 3
} lh_state;

/** How bad a log record is, and the least that a listener wants to hear. */
typedef enum lh_level {
    /** A bug of the library. */
    LH_LEVEL_ERROR = 1,
    /** Something that its users should know. */
    LH_LEVEL_WARN = 2,
    /** Seldom and noteworthy. */
    LH_LEVEL_INFO = 3,
    /** What happens. */
    LH_LEVEL_DEBUG = 4,
    /** All of it. */
    LH_LEVEL_TRACE = 5
} lh_level;

/** What an operation of a transaction does. */
typedef enum lh_txn_kind {
    /** Writes `value` under `key`. */
    LH_TXN_PUT = 1,
    /** Deletes `key`. */
    LH_TXN_DELETE = 2,
    /** Reads `key`, after the writes that come before it. */
    LH_TXN_GET = 3
} lh_txn_kind;

/** A kind of lock. */
typedef enum lh_kind {
    /** One owner at a time. */
    LH_MUTEX = 0,
    /** Many owners at a time, but none beside a mutex of the same name: the read side of a read-write lock. */
    LH_SHARED = 1,
    /** As many owners as their permits fit into the limit: a semaphore. */
    LH_PERMITS = 2
} lh_kind;

/** Options of a client. 0 and NULL are defaults. Texts are copied, files are read when the client is opened. */
typedef struct lh_client_opts {
    /** sizeof(lh_client_opts). */
    size_t size;
    /** How long a lock stays taken after its owner crashed: the TTL of the session's lease. At least 2000 (5000 or more
     * is recommended), at most 30 days, rounded up to whole seconds; default 15000. etcd may choose a longer one. */
    int64_t ttl_ms;
    /** Put before every name and every key of a guarded write, verbatim; default empty. */
    const char *namespace_;
    /** Who this client is, shown to whoever looks at the queue; default "<host>:<pid>". At most 256 bytes, no secret. */
    const char *identity;
    /** User and password, where etcd asks for them. */
    const char *user;
    /** See `user`. */
    const char *password;
    /** Not 0: the password may go over plain http:// to other machines, where everybody on the way can read it. To this
     * machine itself, and over https://, it always may. */
    int32_t plaintext_password;
    /** A file (PEM) with the certificates of the authorities that may have signed etcd's; default: those that this machine
     * trusts. */
    const char *ca_file;
    /** A file (PEM) with our own certificate, where etcd asks for one. Needs key_file. */
    const char *cert_file;
    /** A file (PEM) with the private key of our own certificate. */
    const char *key_file;
    /** How long opening a connection may take before the next endpoint is tried; 10 to 3600000, default 2000. */
    int64_t connect_timeout_ms;
    /** How long an operation may take that does not wait for a lock, all attempts together; 10 to 3600000, default 5000. */
    int64_t request_timeout_ms;
} lh_client_opts;

/** A client: one connection pool to an etcd cluster, and its sessions. */
typedef struct lh_client {
    /** 0 is none. */
    uint64_t id;
} lh_client;

/** What went wrong, by copy. Give one of yours to a function, or NULL. */
typedef struct lh_error {
    /** The status that the function returned. */
    int32_t code;
    /** With LH_LOST: a number of lh_reason, or 0 where it is not known. */
    int32_t reason;
    /** For people: what was wrong and what to do about it; empty with LH_OK. Long ones end with "…". */
    char message[LH_MESSAGE_SIZE];
} lh_error;

/** Somebody in the queue of a lock. */
typedef struct lh_contender {
    /** Its key in etcd, namespace included. */
    const char *key;
    /** Its fencing token: the create revision of the key. */
    int64_t token;
    /** Its lease, in lower-case hexadecimal. NULL is a key that never ends by itself: somebody wrote it by hand. */
    const char *lease;
    /** Who it says it is; NULL if it does not. */
    const char *identity;
    /** The host it runs on; NULL if it does not say. */
    const char *host;
    /** Its process there; 0 if it does not say. */
    uint32_t pid;
    /** Whether it is no client of leasehold but, say, `etcdctl lock`. */
    bool foreign;
    /** Since when it waits or holds, in UTC (RFC 3339); NULL if it does not say. */
    const char *since;
    /** The version of leasehold that it uses; NULL if it does not say. */
    const char *version;
    /** What it claims: a number of lh_kind. */
    int32_t kind;
    /** With LH_PERMITS: how many; otherwise 0. */
    uint32_t permits;
    /** With LH_PERMITS: how many there are in all; otherwise 0. */
    uint32_t limit;
    /** Whether it holds the lock; otherwise it waits. */
    bool holds;
} lh_contender;

/** Everybody in the queue of a lock, in its order: those who hold it first. */
typedef struct lh_contenders {
    /** How many. */
    size_t count;
    /** Each of them. */
    const struct lh_contender *const *items;
} lh_contenders;

/** Who leads an election. */
typedef struct lh_leader {
    /** Its key in etcd, namespace included. */
    const char *key;
    /** Its fencing token: the create revision of the key. */
    int64_t token;
    /** What it proclaims: `value_len` bytes. */
    const uint8_t *value;
    /** See `value`. */
    size_t value_len;
} lh_leader;

/** A way to end blocking calls from another thread. */
typedef struct lh_cancel {
    /** 0 is none. */
    uint64_t id;
} lh_cancel;

/** Options of an acquire. What is left 0 is the default, and so is all of it with opts of NULL. */
typedef struct lh_acquire_opts {
    /** sizeof(lh_acquire_opts). */
    size_t size;
    /** How long to wait for the lock; default (and -1) for ever. Not for a try, which does not wait. */
    int64_t wait_ms;
    /** The TTL of this hold instead of the client's, which is the default; limits as there. */
    int64_t ttl_ms;
    /** Not 0: the hold is not renewed and ends at its TTL. (It is renewed while it waits.) */
    int32_t no_renew;
    /** Not 0: fail with LH_LOST if the session is lost while waiting, instead of queueing again. */
    int32_t no_requeue;
    /** Ends the wait when it is fired; default none. */
    struct lh_cancel cancel;
    /** What kind of lock it is: a number of lh_kind; default LH_MUTEX. */
    int32_t kind;
    /** With LH_PERMITS: how many of them; default 1. */
    uint32_t permits;
    /** With LH_PERMITS: how many there are in all. Contenders who disagree about it are told LH_LIMIT_MISMATCH. */
    uint32_t limit;
    /** Not 0: acquires of this client share one place in the queue and pass it among them, without asking etcd, while nobody
     * else waits, or until local_turns or local_ms are used up. Only for a mutex. */
    int32_t local_first;
    /** How many owners in a row that may be while others wait; default 64. */
    uint32_t local_turns;
    /** How long that may take while others wait; default 100. */
    int64_t local_ms;
    /** How long the place in the queue stays after a release with nobody waiting, so that the next acquire of this client
     * needs no request; default 0, not at all. Only for a mutex. */
    int64_t linger_ms;
} lh_acquire_opts;

/** A lock that is held. Whoever has the guard is the owner, not a thread. */
typedef struct lh_guard {
    /** 0 is none. */
    uint64_t id;
} lh_guard;

/** Where a program with an event loop gets its callbacks. */
typedef struct lh_loop {
    /** 0 is LH_CALLBACK_THREAD. */
    uint64_t id;
} lh_loop;

/** An asynchronous operation. Needs not be freed. */
typedef struct lh_op {
    /** 0 is none. */
    uint64_t id;
} lh_op;

/** A value that a transaction read. This struct will not grow. */
typedef struct lh_value {
    /** Whether the key existed. */
    bool found;
    /** `len` bytes; NULL if the key did not exist. */
    const uint8_t *data;
    /** See `data`. */
    size_t len;
} lh_value;

/** What a transaction did. */
typedef struct lh_committed {
    /** The revision of etcd after it; if it wrote, the revision of its writes. */
    int64_t revision;
    /** How many keys were deleted. */
    int64_t deleted;
    /** How many values it read. */
    size_t count;
    /** The values, in the order of the reads. */
    const struct lh_value *values;
} lh_committed;

/** The result of an asynchronous operation. Each operation sets what it says, and leaves the rest 0 or NULL. */
typedef struct lh_result {
    /** How much of this struct the library knows. */
    size_t size;
    /** The operation. */
    struct lh_op op;
    /** LH_OK, or what went wrong. */
    int32_t status;
    /** Why a lock was lost: a number of lh_reason, or 0. */
    int32_t reason;
    /** What went wrong, for people, or a log record; never NULL. */
    const char *message;
    /** Nothing more comes for this operation: the time to free what user_data points to. */
    bool is_last;
    /** Of lh_guard_delete_async: whether the key existed. */
    bool existed;
    /** Of lh_client_on_state: a number of lh_state. */
    int32_t state;
    /** Of lh_acquire_async and its like: the guard, which is yours to release. */
    struct lh_guard guard;
    /** Of lh_guard_put_async: the revision of the write. */
    int64_t revision;
    /** Of lh_client_queue_async: everybody in the queue. Not to be freed. */
    const struct lh_contenders *contenders;
    /** Of lh_guard_txn_async: what the transaction did. Not to be freed. */
    const struct lh_committed *committed;
    /** Of lh_log_listen: a number of lh_level. */
    int32_t level;
    /** Of lh_log_listen: the module that the record in `message` comes from. */
    const char *target;
    /** Of lh_client_leader_async and lh_client_observe: who leads; NULL if nobody does. Not to be freed. */
    const struct lh_leader *leader;
    /** Of lh_client_observe: whether there may have been other leaders or proclamations since the result before, of which
     * nobody knows, because the connection was lost or the callbacks did not keep up. */
    bool after_gap;
} lh_result;

/** A function of yours that receives the result of an operation. It may call everything in this header, blocking calls
 * too, but holds up the callbacks behind it meanwhile; so it must not wait for one of them, which would be for ever. It must
 * return: no longjmp, no C++ exception. The result, and what it points to, is valid during the call only; the guard in it is
 * yours. */
typedef void (*lh_callback)(void *user_data, const struct lh_result *result);

/** One of several names that are acquired together. This struct will not grow. */
typedef struct lh_wanted {
    /** The name of the lock. */
    const char *name;
    /** A number of lh_kind. */
    int32_t kind;
    /** With LH_PERMITS: how many of them; 0 is 1. */
    uint32_t permits;
    /** With LH_PERMITS: how many there are in all. */
    uint32_t limit;
} lh_wanted;

/** One operation of a transaction. Keys are below the client's namespace. This struct will not grow. */
typedef struct lh_txn_op {
    /** A number of lh_txn_kind. */
    int32_t kind;
    /** The key: `key_len` bytes. */
    const uint8_t *key;
    /** See `key`. */
    size_t key_len;
    /** The value to write: `value_len` bytes. */
    const uint8_t *value;
    /** See `value`. */
    size_t value_len;
} lh_txn_op;

/** How much of the library lives: what leak tests compare. */
typedef struct lh_live {
    /** Set it to sizeof(lh_live). */
    size_t size;
    /** Clients that are not freed, or still in use. */
    uint64_t clients;
    /** Guards that are not freed, or still in use. */
    uint64_t guards;
    /** Operations that are not over. */
    uint64_t operations;
    /** Loops that are not closed, and the callback thread's. */
    uint64_t loops;
} lh_live;

#ifdef __cplusplus
extern "C" {
#endif /* __cplusplus */

/** The version of the binary interface: that of LH_ABI_VERSION in the header that the library was built with. A program
 * that loads the library by hand compares it with its own. Whoever is linked with it need not: the loader compares sonames. */
int32_t lh_abi_version(void);

/** The version of the library, such as "0.1.0". Never NULL, never to be freed. */
const char *lh_version(void);

/** Whether the calling thread is lh-callback. A callback there that waits for another callback of that thread waits for ever:
 * what waits, as leasehold.hpp's futures do, asks this first. */
bool lh_is_callback_thread(void);

/** Opens a client. `url` is one endpoint or several, separated by commas: "http://host:port" or "https://host:port"; options
 * can follow as in "…?ttl=10s&namespace=/shop". "memory://name" is a store inside this process, for unit tests.
 * No connection is opened and no thread started before the first operation: to check the cluster, call lh_client_ping.
 * LH_INVALID_ARGUMENT names the option that is wrong. Give the client to lh_close in the end. */
int32_t lh_client_open(const char *url,
                       const struct lh_client_opts *opts,
                       struct lh_client *client,
                       struct lh_error *error);

/** Frees what lh_client_queue brought; NULL is allowed. Only once, and not what a callback was given. */
void lh_contenders_free(struct lh_contenders *contenders);

/** Frees what lh_client_leader brought; NULL is allowed. Only once, and not what a callback was given. */
void lh_leader_free(struct lh_leader *leader);

/** Acquires the lock `name` (1 to 1024 bytes) and blocks until it is ours: in the order of the queue, for as long as
 * opts->wait_ms says; by default for ever. LH_NOT_ACQUIRED when the wait limit passed; LH_CANCELLED when opts->cancel was
 * fired; LH_UNAVAILABLE or LH_DEADLINE_EXCEEDED if the queue could not be joined within the request timeout;
 * LH_LIMIT_MISMATCH where others count its permits otherwise. Whoever holds the lock already waits for himself: locks are
 * not re-entrant. Give the guard to lh_release, or to lh_guard_release and lh_guard_free. */
LH_MUST_USE
int32_t lh_acquire(struct lh_client client,
                   const char *name,
                   const struct lh_acquire_opts *opts,
                   struct lh_guard *guard,
                   struct lh_error *error);

/** Starts lh_acquire and returns at once; the callback receives result->guard. Cancelled by lh_op_cancel, or opts->cancel. A
 * status other than LH_OK here means that nothing was started and the callback is never called; so with all functions
 * whose name ends with _async. The callback may be called before this function returns. `op` may be NULL. */
LH_MUST_USE
int32_t lh_acquire_async(struct lh_client client,
                         const char *name,
                         const struct lh_acquire_opts *opts,
                         struct lh_loop on_loop,
                         lh_callback callback,
                         void *user_data,
                         struct lh_op *op,
                         struct lh_error *error);

/** Acquires the lock `name` if it is free: nobody holds it or waits for it who is in the way. Otherwise LH_NOT_ACQUIRED, and
 * nothing is left in the queue. opts->wait_ms stays 0. The rest as lh_acquire. */
LH_MUST_USE
int32_t lh_try_acquire(struct lh_client client,
                       const char *name,
                       const struct lh_acquire_opts *opts,
                       struct lh_guard *guard,
                       struct lh_error *error);

/** Starts lh_try_acquire; the callback receives result->guard. */
LH_MUST_USE
int32_t lh_try_acquire_async(struct lh_client client,
                             const char *name,
                             const struct lh_acquire_opts *opts,
                             struct lh_loop on_loop,
                             lh_callback callback,
                             void *user_data,
                             struct lh_op *op,
                             struct lh_error *error);

/** Acquires up to 32 locks at once, all or none, and blocks until they are ours. Whoever acquires several names together
 * never waits in a circle with others who do, in whatever order they name them. One guard, with one token, stands for all:
 * they are lost and released together. Who holds a lock and asks for another one can still wait in a circle. Statuses as
 * lh_acquire; a name that is given twice is LH_INVALID_ARGUMENT. */
LH_MUST_USE
int32_t lh_acquire_all(struct lh_client client,
                       const struct lh_wanted *wanted,
                       size_t count,
                       const struct lh_acquire_opts *opts,
                       struct lh_guard *guard,
                       struct lh_error *error);

/** Starts lh_acquire_all; the callback receives result->guard. */
LH_MUST_USE
int32_t lh_acquire_all_async(struct lh_client client,
                             const struct lh_wanted *wanted,
                             size_t count,
                             const struct lh_acquire_opts *opts,
                             struct lh_loop on_loop,
                             lh_callback callback,
                             void *user_data,
                             struct lh_op *op,
                             struct lh_error *error);

/** Acquires up to 32 locks if all of them are free; otherwise LH_NOT_ACQUIRED. See lh_acquire_all and lh_try_acquire. */
LH_MUST_USE
int32_t lh_try_acquire_all(struct lh_client client,
                           const struct lh_wanted *wanted,
                           size_t count,
                           const struct lh_acquire_opts *opts,
                           struct lh_guard *guard,
                           struct lh_error *error);

/** Starts lh_try_acquire_all; the callback receives result->guard. */
LH_MUST_USE
int32_t lh_try_acquire_all_async(struct lh_client client,
                                 const struct lh_wanted *wanted,
                                 size_t count,
                                 const struct lh_acquire_opts *opts,
                                 struct lh_loop on_loop,
                                 lh_callback callback,
                                 void *user_data,
                                 struct lh_op *op,
                                 struct lh_error *error);

/** Campaigns in the election and blocks until it is won. `value` is the proclamation, which observers see while the guard
 * leads; lh_guard_proclaim changes it. The guard is one like any other: lh_release resigns. Together with Go's Election and
 * `etcdctl elect`. Statuses as lh_acquire. */
LH_MUST_USE
int32_t lh_campaign(struct lh_client client,
                    const char *election,
                    const uint8_t *value,
                    size_t value_len,
                    const struct lh_acquire_opts *opts,
                    struct lh_guard *guard,
                    struct lh_error *error);

/** Starts lh_campaign; the callback receives result->guard. The value is copied. */
LH_MUST_USE
int32_t lh_campaign_async(struct lh_client client,
                          const char *election,
                          const uint8_t *value,
                          size_t value_len,
                          const struct lh_acquire_opts *opts,
                          struct lh_loop on_loop,
                          lh_callback callback,
                          void *user_data,
                          struct lh_op *op,
                          struct lh_error *error);

/** Leads the election if nobody leads or campaigns; otherwise LH_NOT_ACQUIRED. See lh_campaign and lh_try_acquire. */
LH_MUST_USE
int32_t lh_try_campaign(struct lh_client client,
                        const char *election,
                        const uint8_t *value,
                        size_t value_len,
                        const struct lh_acquire_opts *opts,
                        struct lh_guard *guard,
                        struct lh_error *error);

/** Starts lh_try_campaign; the callback receives result->guard. The value is copied. */
LH_MUST_USE
int32_t lh_try_campaign_async(struct lh_client client,
                              const char *election,
                              const uint8_t *value,
                              size_t value_len,
                              const struct lh_acquire_opts *opts,
                              struct lh_loop on_loop,
                              lh_callback callback,
                              void *user_data,
                              struct lh_op *op,
                              struct lh_error *error);

/** Proclaims `value` instead of what was proclaimed before, if the guard still leads; for guards of lh_campaign. LH_LOST:
 * nothing was written. LH_DEADLINE_EXCEEDED or LH_UNAVAILABLE: it may have been. */
int32_t lh_guard_proclaim(struct lh_guard guard,
                          const uint8_t *value,
                          size_t value_len,
                          struct lh_error *error);

/** Starts lh_guard_proclaim. The value is copied. */
int32_t lh_guard_proclaim_async(struct lh_guard guard,
                                const uint8_t *value,
                                size_t value_len,
                                struct lh_loop on_loop,
                                lh_callback callback,
                                void *user_data,
                                struct lh_op *op,
                                struct lh_error *error);

/** Asks who leads the election; `leader` receives NULL if nobody does. Free it with lh_leader_free. */
int32_t lh_client_leader(struct lh_client client,
                         const char *election,
                         struct lh_leader **leader,
                         struct lh_error *error);

/** Starts lh_client_leader; the callback receives result->leader. */
int32_t lh_client_leader_async(struct lh_client client,
                               const char *election,
                               struct lh_loop on_loop,
                               lh_callback callback,
                               void *user_data,
                               struct lh_op *op,
                               struct lh_error *error);

/** Observes the election: the callback receives result->leader at once and at every change of the leader or of what it
 * proclaims, NULL where nobody leads; and once with is_last when the client is gone or lh_op_cancel was called
 * (LH_CANCELLED). */
int32_t lh_client_observe(struct lh_client client,
                          const char *election,
                          struct lh_loop on_loop,
                          lh_callback callback,
                          void *user_data,
                          struct lh_op *op,
                          struct lh_error *error);

/** Releases the lock and blocks until etcd has confirmed it. LH_LOST if it was lost before: what it protected may have been
 * done by somebody else meanwhile. LH_NOT_HELD if it was released before. LH_DEADLINE_EXCEEDED or LH_UNAVAILABLE: the hold
 * is over here, and its key is removed in the background. The handle stays until lh_guard_free. */
int32_t lh_guard_release(struct lh_guard guard,
                         struct lh_error *error);

/** Starts lh_guard_release. */
int32_t lh_guard_release_async(struct lh_guard guard,
                               struct lh_loop on_loop,
                               lh_callback callback,
                               void *user_data,
                               struct lh_op *op,
                               struct lh_error *error);

/** lh_guard_release and lh_guard_free in one call. The handle is freed whatever the status says, so a second call is
 * answered with LH_INVALID_ARGUMENT. */
int32_t lh_release(struct lh_guard guard, struct lh_error *error);

/** Makes the hold last at least `ttl_ms` from now (2000 to 30 days) and waits for etcd's word on it. For a hold that is
 * renewed, this is a renewal at once, and so a proof; one without renewal then ends that much later. LH_LOST if it is lost. */
int32_t lh_guard_extend(struct lh_guard guard,
                        int64_t ttl_ms,
                        struct lh_error *error);

/** Starts lh_guard_extend. */
int32_t lh_guard_extend_async(struct lh_guard guard,
                              int64_t ttl_ms,
                              struct lh_loop on_loop,
                              lh_callback callback,
                              void *user_data,
                              struct lh_op *op,
                              struct lh_error *error);

/** Tells when the hold ends: the callback is called once, with result->reason when the lock is lost, or with a reason of 0
 * when it was released or its handle freed. LH_CANCELLED after lh_op_cancel. It comes from a timer of the library, even
 * when etcd cannot be reached; but your thread may be late: check lh_guard_held before a write that matters. */
int32_t lh_guard_on_lost(struct lh_guard guard,
                         struct lh_loop on_loop,
                         lh_callback callback,
                         void *user_data,
                         struct lh_op *op,
                         struct lh_error *error);

/** Writes `value` under `key` (below the client's namespace) if the lock is still held, in one transaction with the check of
 * the fencing token. `revision` may be NULL. LH_LOST: nothing was written. LH_DEADLINE_EXCEEDED or LH_UNAVAILABLE: it may
 * have been; it is not repeated, because a repeated write could undo a later one. */
int32_t lh_guard_put(struct lh_guard guard,
                     const uint8_t *key,
                     size_t key_len,
                     const uint8_t *value,
                     size_t value_len,
                     int64_t *revision,
                     struct lh_error *error);

/** Starts lh_guard_put; the callback receives result->revision. Key and value are copied. */
int32_t lh_guard_put_async(struct lh_guard guard,
                           const uint8_t *key,
                           size_t key_len,
                           const uint8_t *value,
                           size_t value_len,
                           struct lh_loop on_loop,
                           lh_callback callback,
                           void *user_data,
                           struct lh_op *op,
                           struct lh_error *error);

/** Deletes `key` (below the client's namespace) if the lock is still held. `existed` may be NULL. Statuses as lh_guard_put. */
int32_t lh_guard_delete(struct lh_guard guard,
                        const uint8_t *key,
                        size_t key_len,
                        bool *existed,
                        struct lh_error *error);

/** Starts lh_guard_delete; the callback receives result->existed. */
int32_t lh_guard_delete_async(struct lh_guard guard,
                              const uint8_t *key,
                              size_t key_len,
                              struct lh_loop on_loop,
                              lh_callback callback,
                              void *user_data,
                              struct lh_op *op,
                              struct lh_error *error);

/** Reads and writes in one transaction that takes effect only if the lock is still held; etcd allows 128 operations by
 * default. `committed` may be NULL; otherwise free what it receives with lh_committed_free. Statuses as lh_guard_put. */
int32_t lh_guard_txn(struct lh_guard guard,
                     const struct lh_txn_op *ops,
                     size_t count,
                     struct lh_committed **committed,
                     struct lh_error *error);

/** Starts lh_guard_txn; the callback receives result->committed. Keys and values are copied. */
int32_t lh_guard_txn_async(struct lh_guard guard,
                           const struct lh_txn_op *ops,
                           size_t count,
                           struct lh_loop on_loop,
                           lh_callback callback,
                           void *user_data,
                           struct lh_op *op,
                           struct lh_error *error);

/** Closes a client and blocks until that is done: releases everything that it holds or waits for, and revokes its leases.
 * Its guards are lost with LH_LOST_CLIENT_CLOSED, operations under way end with LH_CLOSED, and so does all that comes
 * later. Bounded by the request timeout. Closing twice is no error; the handle stays until lh_client_free. */
int32_t lh_client_close(struct lh_client client,
                        struct lh_error *error);

/** Starts lh_client_close. */
int32_t lh_client_close_async(struct lh_client client,
                              struct lh_loop on_loop,
                              lh_callback callback,
                              void *user_data,
                              struct lh_op *op,
                              struct lh_error *error);

/** Asks etcd for a sign of life: a read that a majority of the cluster has confirmed. LH_UNAVAILABLE or
 * LH_DEADLINE_EXCEEDED if there is none within the request timeout, LH_UNAUTHENTICATED if etcd refuses us. */
int32_t lh_client_ping(struct lh_client client, struct lh_error *error);

/** Starts lh_client_ping. */
int32_t lh_client_ping_async(struct lh_client client,
                             struct lh_loop on_loop,
                             lh_callback callback,
                             void *user_data,
                             struct lh_op *op,
                             struct lh_error *error);

/** Lists everybody in the queue of the lock `name`, in its order, foreign clients included. Free the list with
 * lh_contenders_free. */
int32_t lh_client_queue(struct lh_client client,
                        const char *name,
                        struct lh_contenders **contenders,
                        struct lh_error *error);

/** Starts lh_client_queue; the callback receives result->contenders. */
int32_t lh_client_queue_async(struct lh_client client,
                              const char *name,
                              struct lh_loop on_loop,
                              lh_callback callback,
                              void *user_data,
                              struct lh_op *op,
                              struct lh_error *error);

/** Takes the lock `name`, or the place in its queue, away from the contender with this token, whoever it is: for operators.
 * Its owner may still be at work; only fencing tokens keep its late writes out. LH_NOT_HELD if nobody has this token. */
int32_t lh_client_force_release(struct lh_client client,
                                const char *name,
                                int64_t token,
                                struct lh_error *error);

/** Starts lh_client_force_release. */
int32_t lh_client_force_release_async(struct lh_client client,
                                      const char *name,
                                      int64_t token,
                                      struct lh_loop on_loop,
                                      lh_callback callback,
                                      void *user_data,
                                      struct lh_op *op,
                                      struct lh_error *error);

/** Listens to the state of the client's sessions: the callback receives result->state and result->reason at every change,
 * and once with is_last when the client is gone or lh_op_cancel was called (LH_CANCELLED). */
int32_t lh_client_on_state(struct lh_client client,
                           struct lh_loop on_loop,
                           lh_callback callback,
                           void *user_data,
                           struct lh_op *op,
                           struct lh_error *error);

/** The fencing token: greater than that of every earlier owner of the same name. Send it along with every write that the
 * lock protects, and let the receiver refuse a smaller one than it has seen. */
int32_t lh_guard_token(struct lh_guard guard,
                       int64_t *token);

/** Tells holds apart that share a token: with local_first, owners of one place in the queue; otherwise always 0. Owners
 * compare the pair of token and sequence. */
int32_t lh_guard_sequence(struct lh_guard guard, uint64_t *sequence);

/** Whether the lock is certainly still held. Asks nobody: it compares the lease's deadline with the clock, so it is right
 * also at the first call after the process was frozen. The lock can be lost the moment after: what must not happen twice
 * needs the token at its receiver. */
int32_t lh_guard_held(struct lh_guard guard,
                      bool *held);

/** How many milliseconds the lock is certainly still held if no renewal succeeds from now on; 0 if it is lost or released. */
int32_t lh_guard_remaining(struct lh_guard guard,
                           int64_t *remaining_ms);

/** Why the lock is not held any more: a number of lh_reason; 0 while it is held, and if it was released in time. Asks nobody. */
int32_t lh_guard_loss_reason(struct lh_guard guard,
                             int32_t *reason);

/** Copies the name of the lock to `buffer` of `size` bytes. `needed`, if not NULL, receives how many it takes, the NUL
 * included; LH_INVALID_ARGUMENT if they do not fit. So with the key and the lease. */
int32_t lh_guard_name(struct lh_guard guard, char *buffer, size_t size, size_t *needed);

/** Copies the key in etcd that stands for this hold, namespace included; see lh_guard_name. LH_KEY_SIZE bytes are enough. */
int32_t lh_guard_key(struct lh_guard guard,
                     char *buffer,
                     size_t size,
                     size_t *needed);

/** Counts the keys of the hold: one for each name of lh_acquire_all, otherwise 1. */
int32_t lh_guard_key_count(struct lh_guard guard, size_t *count);

/** Copies one of the keys of lh_acquire_all, in the order of the names, from 0; see lh_guard_key. */
int32_t lh_guard_key_at(struct lh_guard guard, size_t index, char *buffer, size_t size, size_t *needed);

/** Copies the id of the lease that keeps the key alive, in lower-case hexadecimal as etcd's own tools print it; see
 * lh_guard_name. 17 bytes are enough. */
int32_t lh_guard_lease(struct lh_guard guard, char *buffer, size_t size, size_t *needed);

/** Frees the handle of a guard, when nothing uses it any more. A lock that was not released is released in the background. */
int32_t lh_guard_free(struct lh_guard guard);

/** Who the client says it is in the queue: copies that to `buffer` of `size` bytes. `needed`, if not NULL, receives how many
 * it takes, the NUL included; LH_INVALID_ARGUMENT if they do not fit. 257 always do. */
int32_t lh_client_identity(struct lh_client client,
                           char *buffer,
                           size_t size,
                           size_t *needed);

/** Copies what the client has counted and timed, as text in the format of OpenMetrics, to `buffer` of `size` bytes. `needed`,
 * if not NULL, receives how many it takes, the NUL included; LH_INVALID_ARGUMENT if they do not fit. Asks nobody. */
int32_t lh_client_metrics(struct lh_client client,
                          char *buffer,
                          size_t size,
                          size_t *needed);

/** Frees the handle of a client. Guards and operations of it go on; when none is left, what it has in etcd is removed in
 * the background. */
int32_t lh_client_free(struct lh_client client);

/** Makes a cancel handle, to be given to acquires in lh_acquire_opts.cancel, any number of them. Free it with
 * lh_cancel_free. */
int32_t lh_cancel_new(struct lh_cancel *cancel);

/** Ends every acquire that was or will be started with this handle, from any thread: each withdraws from its queue in etcd
 * and returns LH_CANCELLED, or LH_OK with the guard if it had won before. Stays fired. Not for signal handlers. */
int32_t lh_cancel_fire(struct lh_cancel cancel);

/** Frees a cancel handle. Acquires that were started with it go on, and nobody can end them any more. */
int32_t lh_cancel_free(struct lh_cancel cancel);

/** lh_client_close and lh_client_free in one call. The handle is freed whatever the status says. */
int32_t lh_close(struct lh_client client, struct lh_error *error);

/** Opens a loop, for a program that wants its callbacks on a thread of its own. Wait until lh_poll_fd is readable, then
 * call lh_dispatch. LH_RESOURCE_EXHAUSTED if the process is out of file descriptors. */
int32_t lh_loop_open(struct lh_loop *on_loop, struct lh_error *error);

/** The file descriptor that is readable while callbacks wait, for poll, epoll and the like. Do not read it, do not close it:
 * it belongs to the loop. LH_FORKED in a child: open a loop there. */
int32_t lh_poll_fd(struct lh_loop on_loop,
                   int32_t *fd);

/** Calls the callbacks that wait, on this thread, and returns without waiting for more. `count`, if not NULL, receives
 * how many there were; a round is bounded, and the descriptor stays readable while some are left. */
int32_t lh_dispatch(struct lh_loop on_loop, size_t *count);

/** Closes a loop and its descriptor. Operations that it was to hear of are cancelled, and their callbacks called with
 * LH_CLOSED during this call; a lock that one had won is released. Not while another thread dispatches this loop. */
int32_t lh_loop_close(struct lh_loop on_loop, struct lh_error *error);

/** Cancels an asynchronous operation. Its callback is called all the same, with LH_CANCELLED, or with what it brought if it
 * was faster; an acquire first withdraws from the queue in etcd. No effect, and LH_OK, if it is over. */
int32_t lh_op_cancel(struct lh_op op);

/** Sends log records of `level` (a number of lh_level) and worse to the callback, as result->level, target and message. One
 * listener for the process: whoever listened before is told is_last. A listener that does not keep up misses records, and
 * the next one says how many. In a forked child nobody listens. */
int32_t lh_log_listen(int32_t level,
                      struct lh_loop on_loop,
                      lh_callback callback,
                      void *user_data,
                      struct lh_error *error);

/** Sends no more log records; the listener is told is_last. */
int32_t lh_log_stop(void);

/** Closes every client of this process, as lh_client_close does, and waits for that, for at most `limit_ms`: for the end of
 * a program. LH_DEADLINE_EXCEEDED if that was too short; what is left in etcd ends with its lease. */
int32_t lh_close_all(int64_t limit_ms,
                     struct lh_error *error);

/** Counts what lives in this process. Set live->size first. */
int32_t lh_live_count(struct lh_live *live);

/** The stable name of a status, such as "NOT_ACQUIRED"; "UNKNOWN" for a number that is none. Never NULL, never to be freed. */
const char *lh_strerror(int32_t status);

/** The stable name of a reason of lh_reason, such as "EXPIRED"; NULL for a number that is none. Never to be freed. */
const char *lh_reason_name(int32_t reason);

/** Frees what lh_guard_txn brought; NULL is allowed. Only once, and not what a callback was given. */
void lh_committed_free(struct lh_committed *committed);

#ifdef __cplusplus
} /* extern "C" */
#endif /* __cplusplus */

#endif  /* LEASEHOLD_H */
