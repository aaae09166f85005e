//! The entry points. Durations are milliseconds, negative for none; an operation's results go to `queue` under `tag`, or, with 0
//! for the queue, to the calling thread, which waits for it at once.

use std::time::Duration;

use jni::{
    objects::{JByteArray, JClass, JIntArray, JLongArray, JObjectArray, JString},
    sys::{jboolean, jint, jlong},
};
use leasehold_bridge::{
    AcquireOptions, Claim, Client, Guard, HostOptions, LocalFirst, OpId, Queue, client::milliseconds, guard::TxnOp,
    handles, live, logs, operation,
};

use crate::{
    arguments::{bytes_at, claims_of, client_of, guard_of, keep_waiter, released, sink, text, text_if_any, waiter},
    completions, failure,
};

// --- the library -----------------------------------------------------------------------------------------------------

entries! {
    /// Looks up what this library needs of Java: `exceptions` makes them.
    fn initialise<'local>(env, exceptions: JClass<'local>) {
        Ok(failure::initialise(env, &exceptions)?)
    }

    /// The version of this library.
    fn version<'local>(env) -> JString<'local> {
        Ok(env.new_string(leasehold_bridge::VERSION)?)
    }

    /// How many clients, guards, operations and queues live.
    fn live<'local>(env) -> JLongArray<'local> {
        let live = live::count();
        let counts = [live.clients, live.guards, live.operations, live.queues].map(|count| count as i64);
        let array = env.new_long_array(counts.len())?;
        array.set_region(env, 0, &counts)?;
        Ok(array)
    }

    /// Sends records of `level` and worse to the queue.
    fn logs_listen<'local>(_env, level: jint, queue: jlong, tag: jlong) {
        let level = logs::Level::from_number(level).unwrap_or(logs::Level::Trace);
        Ok(logs::listen(level, sink(queue, tag)?)?)
    }

    /// Sends no more records.
    fn logs_stop<'local>(_env) {
        logs::stop();
        Ok(())
    }

    /// Throws what there is to say about waiting for a lock that the caller holds.
    fn would_deadlock<'local>(env, name: JString<'local>) {
        Err(leasehold_bridge::would_deadlock(&text(env, &name)?).into())
    }
}

// --- queues and operations -------------------------------------------------------------------------------------------

entries! {
    /// Makes a queue for a thread that blocks in [`queue_take`].
    fn queue_open<'local>(_env) -> jlong {
        Ok(handles::insert(Queue::new()) as jlong)
    }

    /// Waits for completions, for at most `millis`; see [`completions::take`].
    fn queue_take<'local>(
        env,
        queue: jlong,
        millis: jlong,
        numbers: JLongArray<'local>,
        objects: JObjectArray<'local>,
    ) -> jint {
        match handles::get::<Queue>(queue as u64) {
            Some(queue) => {
                completions::take(env, &queue, milliseconds(millis).unwrap_or_default(), &numbers, &objects)
            }
            None => Ok(-1),
        }
    }

    /// Waits for what this thread has started, for at most `limit` microseconds. True if it is written into `numbers` and
    /// `objects`.
    fn waiter_take<'local>(env, limit: jlong, numbers: JLongArray<'local>, objects: JObjectArray<'local>) -> jboolean {
        let waiter = waiter()?;
        match waiter.wait_for(Duration::from_micros(limit as u64)) {
            Some(result) => completions::write(env, result, &numbers, &objects).map(|()| true),
            None => {
                keep_waiter(waiter);
                Ok(false)
            }
        }
    }

    /// Has what this thread has started sent to the queue, now or later.
    fn waiter_move<'local>(_env, queue: jlong, tag: jlong) {
        waiter()?.move_to(handles::find::<Queue>(queue as u64)?, tag as u64);
        Ok(())
    }

    /// Forgets what this thread has started: what it brings is released.
    fn waiter_drop<'local>(_env) {
        waiter().map(drop)
    }

    /// Ends and frees a queue.
    fn queue_close<'local>(_env, queue: jlong) {
        if let Some(queue) = handles::remove::<Queue>(queue as u64) {
            queue.close();
        }
        Ok(())
    }

    /// Cancels an operation. False if it is over.
    fn cancel<'local>(_env, operation: jlong) -> jboolean {
        Ok(operation::cancel(OpId(operation as u64)))
    }
}

// --- clients ---------------------------------------------------------------------------------------------------------

entries! {
    /// Makes a client.
    fn client_open<'local>(
        env,
        url: JString<'local>,
        ttl: jlong,
        namespace: JString<'local>,
        identity: JString<'local>,
        user: JString<'local>,
        password: JString<'local>,
        plaintext_password: jboolean,
        ca_file: JString<'local>,
        cert_file: JString<'local>,
        key_file: JString<'local>,
        connect_timeout: jlong,
        request_timeout: jlong,
    ) -> jlong {
        let options = HostOptions {
            url: text(env, &url)?,
            ttl: milliseconds(ttl),
            namespace: text_if_any(env, &namespace)?,
            identity: text_if_any(env, &identity)?,
            user: text_if_any(env, &user)?,
            password: text_if_any(env, &password)?,
            plaintext_password: plaintext_password.then_some(true),
            ca_file: text_if_any(env, &ca_file)?,
            cert_file: text_if_any(env, &cert_file)?,
            key_file: text_if_any(env, &key_file)?,
            connect_timeout: milliseconds(connect_timeout),
            request_timeout: milliseconds(request_timeout),
        };
        Ok(handles::insert(Client::open(options.try_into()?)?) as jlong)
    }

    /// Frees a client. What it holds stays held, and renewed, unless it was closed before.
    fn client_free<'local>(_env, client: jlong) {
        handles::remove::<Client>(client as u64);
        Ok(())
    }

    /// Who it says it is.
    fn client_identity<'local>(env, client: jlong) -> JString<'local> {
        Ok(env.new_string(client_of(client)?.identity())?)
    }

    /// What it has counted and timed, as OpenMetrics text.
    fn client_metrics<'local>(env, client: jlong) -> JString<'local> {
        Ok(env.new_string(client_of(client)?.metrics().to_string())?)
    }
}

operations! {
    /// Acquires a lock of one name, or of several at once. `claims` holds three numbers for each: its kind (0 exclusive, 1 shared,
    /// 2 permits), how many permits, and of how many.
    fn client_acquire<'local>(
        env,
        sink,
        client: jlong,
        names: JObjectArray<'local, JString<'local>>,
        claims: JIntArray<'local>,
        wait: jlong,
        ttl: jlong,
        renew: jboolean,
        requeue: jboolean,
        local_first: jboolean,
        turns: jint,
        time: jlong,
        linger: jlong,
    ) {
        let asked = claims_of(env, &names, &claims)?;
        let asked: Vec<(&str, Claim)> = asked.iter().map(|(name, claim)| (&**name, *claim)).collect();
        let bound = LocalFirst::default();
        let options = AcquireOptions {
            wait: milliseconds(wait),
            ttl: milliseconds(ttl),
            renew,
            requeue,
            local_first: local_first.then(|| LocalFirst {
                turns: u32::try_from(turns).unwrap_or(bound.turns),
                time: milliseconds(time).unwrap_or(bound.time),
            }),
            linger: milliseconds(linger),
        };
        client_of(client)?.acquire(&asked, &options, None, sink)
    }

    /// Stands for election.
    fn client_campaign<'local>(
        env,
        sink,
        client: jlong,
        name: JString<'local>,
        value: JByteArray<'local>,
        wait: jlong,
        ttl: jlong,
        renew: jboolean,
        requeue: jboolean,
    ) {
        let options = AcquireOptions { wait: milliseconds(wait), ttl: milliseconds(ttl), renew, requeue, ..Default::default() };
        client_of(client)?.campaign(&text(env, &name)?, &env.convert_byte_array(&value)?, &options, None, sink)
    }

    /// Asks etcd for a sign of life.
    fn client_ping<'local>(_env, sink, client: jlong) {
        client_of(client)?.ping(None, sink)
    }

    /// Lists everybody in the queue of a lock.
    fn client_queue<'local>(env, sink, client: jlong, name: JString<'local>) {
        client_of(client)?.queue(&text(env, &name)?, None, sink)
    }

    /// Removes the contender with `token` from the queue of a lock.
    fn client_force_release<'local>(env, sink, client: jlong, name: JString<'local>, token: jlong) {
        client_of(client)?.force_release(&text(env, &name)?, token, None, sink)
    }

    /// Asks who leads an election.
    fn client_leader<'local>(env, sink, client: jlong, name: JString<'local>) {
        client_of(client)?.leader(&text(env, &name)?, None, sink)
    }

    /// Reports who leads an election, until it is cancelled.
    fn client_observe<'local>(env, sink, client: jlong, name: JString<'local>) {
        client_of(client)?.observe(&text(env, &name)?, None, sink)
    }

    /// Reports changes of the session's state, until it is cancelled.
    fn client_on_state<'local>(_env, sink, client: jlong) {
        client_of(client)?.on_state(sink)
    }

    /// Releases everything and ends the client.
    fn client_close<'local>(_env, sink, client: jlong) {
        client_of(client)?.close(sink)
    }
}

// --- guards ----------------------------------------------------------------------------------------------------------

entries! {
    /// Frees a guard that nobody took: that releases it in the background.
    fn guard_free<'local>(_env, guard: jlong) {
        handles::remove::<Guard>(guard as u64);
        Ok(())
    }

    /// Whether the lock is certainly still held.
    fn guard_held<'local>(_env, guard: jlong) -> jboolean {
        Ok(handles::get::<Guard>(guard as u64).is_some_and(|guard| guard.is_held()))
    }

    /// How long the lock is certainly still held, in nanoseconds.
    fn guard_remaining<'local>(_env, guard: jlong) -> jlong {
        let remaining = handles::get::<Guard>(guard as u64).map(|guard| guard.remaining()).unwrap_or_default();
        // At most 30 days.
        Ok(remaining.as_nanos() as jlong)
    }
}

operations! {
    /// Waits for the end of the hold.
    fn guard_lost<'local>(_env, sink, guard: jlong) {
        guard_of(guard)?.ended(sink)
    }

    /// Releases the lock, and frees the guard.
    fn guard_release<'local>(_env, sink, guard: jlong) {
        handles::remove::<Guard>(guard as u64).ok_or_else(released)?.release(None, sink)
    }

    /// Makes the hold last at least `span` from now.
    fn guard_extend<'local>(_env, sink, guard: jlong, span: jlong) {
        guard_of(guard)?.extend(milliseconds(span).unwrap_or_default(), None, sink)
    }

    /// Proclaims a value if the guard still leads its election.
    fn guard_proclaim<'local>(env, sink, guard: jlong, value: JByteArray<'local>) {
        guard_of(guard)?.proclaim(env.convert_byte_array(&value)?, None, sink)
    }

    /// Writes a value if the lock is still held.
    fn guard_put<'local>(env, sink, guard: jlong, key: JByteArray<'local>, value: JByteArray<'local>) {
        guard_of(guard)?.put(env.convert_byte_array(&key)?, env.convert_byte_array(&value)?, None, sink)
    }

    /// Deletes a key if the lock is still held.
    fn guard_delete<'local>(env, sink, guard: jlong, key: JByteArray<'local>) {
        guard_of(guard)?.delete(env.convert_byte_array(&key)?, None, sink)
    }

    /// Reads and writes in one transaction if the lock is still held. `kinds` holds 0 for a put, 1 for a delete, 2 for a get;
    /// `values` is null where there is none.
    fn guard_txn<'local>(
        env,
        sink,
        guard: jlong,
        kinds: JIntArray<'local>,
        keys: JObjectArray<'local, JByteArray<'local>>,
        values: JObjectArray<'local, JByteArray<'local>>,
    ) {
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
        guard_of(guard)?.txn(ops, None, sink)
    }
}
