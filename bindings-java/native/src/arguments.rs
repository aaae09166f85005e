//! What the arguments of entry points stand for: handles, texts and bytes.

use std::{cell::RefCell, sync::Arc};

use jni::{
    Env,
    objects::{JByteArray, JIntArray, JObjectArray, JString},
    sys::jlong,
};
use leasehold_bridge::{Claim, Client, Code, Error, Guard, Queue, Sink, Waiter, client::stale, handles};

use crate::failure::Failure;

thread_local! {
    /// What the calling thread has started and waits for.
    static WAITER: RefCell<Option<Waiter>> = const { RefCell::new(None) };
}

/// Where an operation's results go: to a queue under a tag, or, with 0 for the queue, to the calling thread.
pub fn sink(queue: jlong, tag: jlong) -> Result<Sink, Failure> {
    if queue == 0 {
        let waiter = Waiter::new();
        let sink = waiter.sink();
        keep_waiter(waiter);
        return Ok(sink);
    }
    Ok(handles::find::<Queue>(queue as u64)?.sink(tag as u64))
}

/// What the calling thread has started. It is the caller's now; see [`keep_waiter`].
pub fn waiter() -> Result<Waiter, Failure> {
    Ok(WAITER.take().ok_or_else(|| stale("operation of this thread"))?)
}

/// Leaves what the calling thread has started for its next call.
pub fn keep_waiter(waiter: Waiter) {
    WAITER.set(Some(waiter));
}

pub fn client_of(client: jlong) -> Result<Arc<Client>, Failure> {
    Ok(handles::find(client as u64)?)
}

/// A guard is freed when it was released, and only then.
pub fn guard_of(guard: jlong) -> Result<Arc<Guard>, Failure> {
    Ok(handles::get(guard as u64).ok_or_else(released)?)
}

pub fn released() -> Error {
    Error::new(Code::NotHeld, "the lock was released before; acquire it again for another hold")
}

/// A text as UTF-8. Java's can hold halves of characters, which have none: two such names must not become one.
pub fn text(env: &mut Env, text: &JString) -> Result<String, Failure> {
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

pub fn text_if_any(env: &mut Env, value: &JString) -> Result<Option<String>, Failure> {
    if value.is_null() { Ok(None) } else { text(env, value).map(Some) }
}

/// Names and what is claimed of each: three numbers, as `io.leasehold.Claim` has them.
pub fn claims_of<'local>(
    env: &mut Env<'local>,
    names: &JObjectArray<'local, JString<'local>>,
    claims: &JIntArray<'local>,
) -> Result<Vec<(String, Claim)>, Failure> {
    let mut numbers = vec![0; claims.len(env)?];
    claims.get_region(env, 0, &mut numbers)?;
    let mut asked = Vec::with_capacity(numbers.len() / 3);
    for (index, of) in numbers.chunks_exact(3).enumerate() {
        let name = names.get_element(env, index)?;
        let claim = match of[0] {
            0 => Claim::Exclusive,
            1 => Claim::Shared,
            _ => Claim::Permits { permits: permits(of[1])?, limit: permits(of[2])? },
        };
        asked.push((text(env, &name)?, claim));
        env.delete_local_ref(name);
    }
    Ok(asked)
}

fn permits(number: i32) -> Result<u32, Error> {
    let message = || format!("a number of permits is at least 1, not {number}");
    u32::try_from(number).map_err(|_| Error::new(Code::InvalidArgument, message()))
}

pub fn bytes_at<'local>(
    env: &mut Env<'local>,
    arrays: &JObjectArray<'local, JByteArray<'local>>,
    index: usize,
) -> Result<Vec<u8>, Failure> {
    let array = arrays.get_element(env, index)?;
    let bytes = env.convert_byte_array(&array)?;
    env.delete_local_ref(array);
    Ok(bytes)
}
