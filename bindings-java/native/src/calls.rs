//! The entry points. Durations are milliseconds, negative for none; an operation's results go to `queue` under `tag`, or, with 0
//! for the queue, to the calling thread, which waits for it at once.

use std::{cell::RefCell, sync::Arc, time::Duration};

use jni::{
    Env, EnvUnowned, jni_mangle,
    objects::{JByteArray, JClass, JIntArray, JLongArray, JObject, JObjectArray, JString},
    sys::{jboolean, jint, jlong},
};
use leasehold_bridge::{
    AcquireOptions, Client, ClientOptions, Code, Error, Guard, OpId, Queue, Sink, Waiter,
    client::{milliseconds, stale},
    guard::TxnOp,
    handles::{self, Handle},
    live, logs, operation,
};

use crate::{
    completions,
    failure::{self, Failure, entry},
};

thread_local! {
    /// What the calling thread has started and waits for.
    static WAITER: RefCell<Option<Waiter>> = const { RefCell::new(None) };
}

// --- the library -----------------------------------------------------------------------------------------------------

/// Looks up what this library needs of Java: `exceptions` makes them.
#[jni_mangle("io.leasehold.Native")]
pub fn initialise<'local>(env: EnvUnowned<'local>, _: JClass<'local>, exceptions: JClass<'local>) {
    entry(env, |env| Ok(failure::initialise(env, &exceptions)?));
}

/// The version of this library.
#[jni_mangle("io.leasehold.Native")]
pub fn version<'local>(env: EnvUnowned<'local>, _: JClass<'local>) -> JString<'local> {
    entry(env, |env| Ok(env.new_string(leasehold_bridge::VERSION)?))
}

/// How many clients, guards, operations and queues live.
#[jni_mangle("io.leasehold.Native")]
pub fn live<'local>(env: EnvUnowned<'local>, _: JClass<'local>) -> JLongArray<'local> {
    entry(env, |env| {
        let live = live::count();
        let counts = env.new_long_array(4)?;
        counts.set_region(
            env,
            0,
            &[live.clients, live.guards, live.operations, live.queues].map(|count| count as i64),
        )?;
        Ok(counts)
    })
}

/// Sends records of `level` and worse to the queue.
#[jni_mangle("io.leasehold.Native")]
pub fn logs_listen<'local>(env: EnvUnowned<'local>, _: JClass<'local>, level: jint, queue: jlong, tag: jlong) {
    entry(env, |_| {
        let level = match level {
            0 => logs::Level::Off,
            1 => logs::Level::Error,
            2 => logs::Level::Warn,
            3 => logs::Level::Info,
            4 => logs::Level::Debug,
            _ => logs::Level::Trace,
        };
        Ok(logs::listen(level, sink(queue, tag)?)?)
    });
}

/// Sends no more records.
#[jni_mangle("io.leasehold.Native")]
pub fn logs_stop<'local>(env: EnvUnowned<'local>, _: JClass<'local>) {
    entry(env, |_| {
        logs::stop();
        Ok(())
    });
}

/// Throws what there is to say about waiting for a lock that the caller holds.
#[jni_mangle("io.leasehold.Native")]
pub fn would_deadlock<'local>(env: EnvUnowned<'local>, _: JClass<'local>, name: JString<'local>) {
    entry(env, |env| {
        let name = text(env, &name)?;
        Err::<(), _>(leasehold_bridge::would_deadlock(&name).into())
    });
}

// --- queues and operations -------------------------------------------------------------------------------------------

/// Makes a queue for a thread that blocks in [`queue_take`].
#[jni_mangle("io.leasehold.Native")]
pub fn queue_open<'local>(env: EnvUnowned<'local>, _: JClass<'local>) -> jlong {
    entry(env, |_| Ok(handles::insert(Queue::new()) as jlong))
}

/// Waits for completions; see [`completions::take`].
#[jni_mangle("io.leasehold.Native")]
pub fn queue_take<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    queue: jlong,
    numbers: JLongArray<'local>,
    objects: JObjectArray<'local, JObject<'local>>,
) -> jint {
    entry(env, |env| match handles::get::<Queue>(queue as u64) {
        Some(queue) => completions::take(env, &queue, &numbers, &objects),
        None => Ok(-1),
    })
}

/// Waits for what this thread has started, for at most `limit` microseconds. True if it is written into `numbers` and
/// `objects`.
#[jni_mangle("io.leasehold.Native")]
pub fn waiter_take<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    limit: jlong,
    numbers: JLongArray<'local>,
    objects: JObjectArray<'local, JObject<'local>>,
) -> jboolean {
    entry(env, |env| {
        let limit = Duration::from_micros(limit as u64);
        let waiter = waiter()?;
        match waiter.wait_for(limit) {
            Some(result) => completions::write(env, result, &numbers, &objects).map(|()| true),
            None => {
                WAITER.set(Some(waiter));
                Ok(false)
            }
        }
    })
}

/// Has what this thread has started sent to the queue, now or later.
#[jni_mangle("io.leasehold.Native")]
pub fn waiter_move<'local>(env: EnvUnowned<'local>, _: JClass<'local>, queue: jlong, tag: jlong) {
    entry(env, |_| {
        let waiter = waiter()?;
        waiter.move_to(found::<Queue>(queue, "completion queue")?, tag as u64);
        Ok(())
    });
}

/// Ends and frees a queue.
#[jni_mangle("io.leasehold.Native")]
pub fn queue_close<'local>(env: EnvUnowned<'local>, _: JClass<'local>, queue: jlong) {
    entry(env, |_| {
        if let Some(queue) = handles::remove::<Queue>(queue as u64) {
            queue.close();
        }
        Ok(())
    });
}

/// Cancels an operation. False if it is over.
#[jni_mangle("io.leasehold.Native")]
pub fn cancel<'local>(env: EnvUnowned<'local>, _: JClass<'local>, operation: jlong) -> jboolean {
    entry(env, |_| Ok(operation::cancel(OpId(operation as u64))))
}

// --- clients ---------------------------------------------------------------------------------------------------------

/// Makes a client.
#[jni_mangle("io.leasehold.Native")]
pub fn client_open<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    url: JString<'local>,
    ttl: jlong,
    namespace: JString<'local>,
    identity: JString<'local>,
    user: JString<'local>,
    password: JString<'local>,
    ca_file: JString<'local>,
    cert_file: JString<'local>,
    key_file: JString<'local>,
    connect_timeout: jlong,
    request_timeout: jlong,
) -> jlong {
    entry(env, |env| {
        let mut options = ClientOptions::new(text(env, &url)?);
        if let Some(ttl) = milliseconds(ttl) {
            options = options.ttl(ttl);
        }
        if let Some(namespace) = text_if_any(env, &namespace)? {
            options = options.namespace(namespace);
        }
        if let Some(identity) = text_if_any(env, &identity)? {
            options = options.identity(identity);
        }
        if let Some(user) = text_if_any(env, &user)? {
            options = options.user(user, text_if_any(env, &password)?.unwrap_or_default());
        }
        if let Some(path) = text_if_any(env, &ca_file)? {
            options = options.ca_file(path);
        }
        if let Some(path) = text_if_any(env, &cert_file)? {
            options = options.cert_file(path);
        }
        if let Some(path) = text_if_any(env, &key_file)? {
            options = options.key_file(path);
        }
        if let Some(timeout) = milliseconds(connect_timeout) {
            options = options.connect_timeout(timeout);
        }
        if let Some(timeout) = milliseconds(request_timeout) {
            options = options.request_timeout(timeout);
        }
        Ok(handles::insert(Client::open(options)?) as jlong)
    })
}

/// Frees a client. What it holds stays held, and renewed, unless it was closed before.
#[jni_mangle("io.leasehold.Native")]
pub fn client_free<'local>(env: EnvUnowned<'local>, _: JClass<'local>, client: jlong) {
    entry(env, |_| {
        handles::remove::<Client>(client as u64);
        Ok(())
    });
}

/// Who it says it is.
#[jni_mangle("io.leasehold.Native")]
pub fn client_identity<'local>(env: EnvUnowned<'local>, _: JClass<'local>, client: jlong) -> JString<'local> {
    entry(env, |env| Ok(env.new_string(client_of(client)?.identity())?))
}

/// Acquires a lock.
#[jni_mangle("io.leasehold.Native")]
pub fn client_acquire<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    client: jlong,
    name: JString<'local>,
    wait: jlong,
    ttl: jlong,
    renew: jboolean,
    requeue: jboolean,
    queue: jlong,
    tag: jlong,
) -> jlong {
    entry(env, |env| {
        let name = text(env, &name)?;
        let options = AcquireOptions { wait: milliseconds(wait), ttl: milliseconds(ttl), renew, requeue };
        started(client_of(client)?.acquire(&name, &options, None, sink(queue, tag)?))
    })
}

/// Asks etcd for a sign of life.
#[jni_mangle("io.leasehold.Native")]
pub fn client_ping<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    client: jlong,
    queue: jlong,
    tag: jlong,
) -> jlong {
    entry(env, |_| started(client_of(client)?.ping(None, sink(queue, tag)?)))
}

/// Lists everybody in the queue of a lock.
#[jni_mangle("io.leasehold.Native")]
pub fn client_queue<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    client: jlong,
    name: JString<'local>,
    queue: jlong,
    tag: jlong,
) -> jlong {
    entry(env, |env| {
        let name = text(env, &name)?;
        started(client_of(client)?.queue(&name, None, sink(queue, tag)?))
    })
}

/// Removes the contender with `token` from the queue of a lock.
#[jni_mangle("io.leasehold.Native")]
pub fn client_force_release<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    client: jlong,
    name: JString<'local>,
    token: jlong,
    queue: jlong,
    tag: jlong,
) -> jlong {
    entry(env, |env| {
        let name = text(env, &name)?;
        started(client_of(client)?.force_release(&name, token, None, sink(queue, tag)?))
    })
}

/// Reports changes of the session's state, until it is cancelled.
#[jni_mangle("io.leasehold.Native")]
pub fn client_on_state<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    client: jlong,
    queue: jlong,
    tag: jlong,
) -> jlong {
    entry(env, |_| started(client_of(client)?.on_state(sink(queue, tag)?)))
}

/// Releases everything and ends the client.
#[jni_mangle("io.leasehold.Native")]
pub fn client_close<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    client: jlong,
    queue: jlong,
    tag: jlong,
) -> jlong {
    entry(env, |_| started(client_of(client)?.close(sink(queue, tag)?)))
}

// --- guards ----------------------------------------------------------------------------------------------------------

/// Frees a guard that nobody took: that releases it in the background.
#[jni_mangle("io.leasehold.Native")]
pub fn guard_free<'local>(env: EnvUnowned<'local>, _: JClass<'local>, guard: jlong) {
    entry(env, |_| {
        handles::remove::<Guard>(guard as u64);
        Ok(())
    });
}

/// Whether the lock is certainly still held.
#[jni_mangle("io.leasehold.Native")]
pub fn guard_held<'local>(env: EnvUnowned<'local>, _: JClass<'local>, guard: jlong) -> jboolean {
    entry(env, |_| Ok(handles::get::<Guard>(guard as u64).is_some_and(|guard| guard.is_held())))
}

/// How long the lock is certainly still held, in nanoseconds.
#[jni_mangle("io.leasehold.Native")]
pub fn guard_remaining<'local>(env: EnvUnowned<'local>, _: JClass<'local>, guard: jlong) -> jlong {
    entry(env, |_| {
        let remaining = handles::get::<Guard>(guard as u64).map(|guard| guard.remaining()).unwrap_or_default();
        // At most 30 days.
        Ok(remaining.as_nanos() as jlong)
    })
}

/// Waits for the end of the hold.
#[jni_mangle("io.leasehold.Native")]
pub fn guard_lost<'local>(env: EnvUnowned<'local>, _: JClass<'local>, guard: jlong, queue: jlong, tag: jlong) -> jlong {
    entry(env, |_| started(guard_of(guard)?.lost(sink(queue, tag)?)))
}

/// Releases the lock, and frees the guard.
#[jni_mangle("io.leasehold.Native")]
pub fn guard_release<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    guard: jlong,
    queue: jlong,
    tag: jlong,
) -> jlong {
    entry(env, |_| {
        let sink = sink(queue, tag)?;
        started(handles::remove::<Guard>(guard as u64).ok_or_else(released)?.release(None, sink))
    })
}

/// Makes the hold last at least `span` from now.
#[jni_mangle("io.leasehold.Native")]
pub fn guard_extend<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    guard: jlong,
    span: jlong,
    queue: jlong,
    tag: jlong,
) -> jlong {
    entry(env, |_| {
        let span = milliseconds(span).unwrap_or_default();
        started(guard_of(guard)?.extend(span, None, sink(queue, tag)?))
    })
}

/// Writes a value if the lock is still held.
#[jni_mangle("io.leasehold.Native")]
pub fn guard_put<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    guard: jlong,
    key: JByteArray<'local>,
    value: JByteArray<'local>,
    queue: jlong,
    tag: jlong,
) -> jlong {
    entry(env, |env| {
        let (key, value) = (env.convert_byte_array(&key)?, env.convert_byte_array(&value)?);
        started(guard_of(guard)?.put(key, value, None, sink(queue, tag)?))
    })
}

/// Deletes a key if the lock is still held.
#[jni_mangle("io.leasehold.Native")]
pub fn guard_delete<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    guard: jlong,
    key: JByteArray<'local>,
    queue: jlong,
    tag: jlong,
) -> jlong {
    entry(env, |env| {
        let key = env.convert_byte_array(&key)?;
        started(guard_of(guard)?.delete(key, None, sink(queue, tag)?))
    })
}

/// Reads and writes in one transaction if the lock is still held. `kinds` holds 0 for a put, 1 for a delete, 2 for a get;
/// `values` is null where there is none.
#[jni_mangle("io.leasehold.Native")]
pub fn guard_txn<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    guard: jlong,
    kinds: JIntArray<'local>,
    keys: JObjectArray<'local, JByteArray<'local>>,
    values: JObjectArray<'local, JByteArray<'local>>,
    queue: jlong,
    tag: jlong,
) -> jlong {
    entry(env, |env| {
        let mut codes = vec![0; kinds.len(env)?];
        kinds.get_region(env, 0, &mut codes)?;
        let mut ops = Vec::with_capacity(codes.len());
        for (index, code) in codes.into_iter().enumerate() {
            let key = bytes_at(env, &keys, index)?;
            ops.push(match code {
                0 => TxnOp::Put { key, value: bytes_at(env, &values, index)? },
                1 => TxnOp::Delete { key },
                _ => TxnOp::Get { key },
            });
        }
        started(guard_of(guard)?.txn(ops, None, sink(queue, tag)?))
    })
}

// --- conversions -----------------------------------------------------------------------------------------------------

fn started(id: OpId) -> Result<jlong, Failure> {
    Ok(id.0 as jlong)
}

fn waiter() -> Result<Waiter, Failure> {
    Ok(WAITER.take().ok_or_else(|| stale("operation of this thread"))?)
}

fn sink(queue: jlong, tag: jlong) -> Result<Sink, Failure> {
    if queue == 0 {
        let waiter = Waiter::new();
        let sink = waiter.sink();
        WAITER.set(Some(waiter));
        return Ok(sink);
    }
    Ok(found::<Queue>(queue, "completion queue")?.sink(tag as u64))
}

fn client_of(client: jlong) -> Result<Arc<Client>, Failure> {
    found(client, "client")
}

/// A guard is freed when it was released, and only then.
fn guard_of(guard: jlong) -> Result<Arc<Guard>, Failure> {
    Ok(handles::get(guard as u64).ok_or_else(released)?)
}

fn released() -> Error {
    Error::new(Code::NotHeld, "the lock was released before; acquire it again for another hold")
}

fn found<T: Handle>(id: jlong, what: &str) -> Result<Arc<T>, Failure> {
    Ok(handles::get(id as u64).ok_or_else(|| stale(what))?)
}

/// A text as UTF-8. Java's can hold halves of characters, which have none: two such names must not become one.
fn text(env: &mut Env, text: &JString) -> Result<String, Failure> {
    const REPLACEMENT: &str = "\u{FFFD}";
    let chars = text.mutf8_chars(env)?;
    let decoded = chars.to_str().into_owned();
    let replacements = decoded.matches(REPLACEMENT).count();
    let size = REPLACEMENT.len();
    if replacements > chars.to_bytes().windows(size).filter(|bytes| *bytes == REPLACEMENT.as_bytes()).count() {
        let message =
            "the text contains half of a character (a surrogate without its other half), which UTF-8 cannot hold";
        return Err(Error::new(Code::InvalidArgument, message).into());
    }
    Ok(decoded)
}

fn text_if_any(env: &mut Env, value: &JString) -> Result<Option<String>, Failure> {
    if value.is_null() { Ok(None) } else { text(env, value).map(Some) }
}

fn bytes_at<'local>(
    env: &mut Env<'local>,
    arrays: &JObjectArray<'local, JByteArray<'local>>,
    index: usize,
) -> Result<Vec<u8>, Failure> {
    let array = arrays.get_element(env, index)?;
    let bytes = env.convert_byte_array(&array)?;
    env.delete_local_ref(array);
    Ok(bytes)
}
