//! Completions on their way to Java: rows of numbers and of objects in two arrays that the dispatcher thread brings along, so
//! that a batch of them costs a handful of calls into the JVM.

use std::{sync::Arc, time::Duration};

use jni::{
    Env,
    objects::{JLongArray, JObject, JObjectArray, JString},
};
use leasehold_bridge::{Claim, Completion, Contender, Error, Leader, Outcome, Queue, SessionState, handles};

use crate::failure::{self, Failure};

/// Numbers of a completion: its tag, whether it is the last one, what it brought, and up to three numbers of that.
/// `io.leasehold.Completion` knows the same.
const NUMBERS: usize = 6;
/// Objects of a completion.
const OBJECTS: usize = 2;
/// Local references that one completion needs at most, beside those of a list.
const REFERENCES: usize = 16;

/// What a completion brought, as a number.
#[repr(i64)]
enum Kind {
    Failed = -1,
    Done = 0,
    Guard = 1,
    Flag = 2,
    Revision = 3,
    Committed = 4,
    Contenders = 5,
    Lost = 6,
    Released = 7,
    State = 8,
    Log = 9,
    Leader = 10,
    Observed = 11,
}

/// Waits for completions, for at most `patience`, and writes them into `numbers` and `objects`, row by row. Returns how many; -1
/// when the queue is closed. What Java has no memory for comes as a failure, and takes no other one with it.
pub fn take<'local>(
    env: &mut Env<'local>,
    queue: &Queue,
    patience: Duration,
    numbers: &JLongArray<'local>,
    objects: &JObjectArray<'local>,
) -> Result<i32, Failure> {
    let most = numbers.len(env)? / NUMBERS;
    let Some(completions) = queue.take(most, patience) else { return Ok(-1) };
    let count = completions.len();
    let mut rows = Vec::with_capacity(count * NUMBERS);
    for (index, completion) in completions.into_iter().enumerate() {
        let Completion { tag, is_last, result } = completion;
        let row = env.with_local_frame(REFERENCES, |env| outcome(env, result, objects, index * OBJECTS));
        let [kind, a, b, c] = match row {
            Ok(row) => row,
            // The JVM refuses nothing else.
            Err(_) => not_written(env, objects, index * OBJECTS),
        };
        // The tag is a number that Java gave: the same 64 bits.
        rows.extend([tag as i64, is_last.into(), kind, a, b, c]);
    }
    numbers.set_region(env, 0, &rows)?;
    // No more completions than fit into an array of Java's.
    Ok(count as i32)
}

/// The row of what Java has no memory for.
fn not_written(env: &mut Env, objects: &JObjectArray<'_>, at: usize) -> [i64; 4] {
    env.exception_clear();
    let error = failure::no_memory();
    // Without the text, if there is no memory for that either.
    let told = env.with_local_frame(REFERENCES, |env| -> Result<(), Failure> {
        let text = env.new_string(error.message())?;
        Ok(objects.set_element(env, at, &text)?)
    });
    if told.is_err() {
        env.exception_clear();
    }
    [Kind::Failed as i64, error.code().number().into(), 0, 0]
}

/// Writes the one result that a thread waits for, as a row without tag.
pub fn write<'local>(
    env: &mut Env<'local>,
    result: Result<Outcome, Error>,
    numbers: &JLongArray<'local>,
    objects: &JObjectArray<'local>,
) -> Result<(), Failure> {
    let [kind, a, b, c] = outcome(env, result, objects, 0)?;
    Ok(numbers.set_region(env, 0, &[0, 1, kind, a, b, c])?)
}

/// What an operation brought, as numbers; the objects of it are written into `objects` from `at` on.
fn outcome<'local>(
    env: &mut Env<'local>,
    result: Result<Outcome, Error>,
    objects: &JObjectArray<'_>,
    at: usize,
) -> Result<[i64; 4], Failure> {
    let text = |env: &mut Env<'local>, index: usize, text: &str| -> Result<(), Failure> {
        let text = env.new_string(text)?;
        Ok(objects.set_element(env, at + index, &text)?)
    };
    let (kind, numbers) = match result {
        Err(error) => {
            text(env, 0, error.message())?;
            let reason = error.reason().map_or(0, |reason| reason.number());
            (Kind::Failed, [error.code().number().into(), reason.into(), 0])
        }
        Ok(Outcome::Done) => (Kind::Done, [0; 3]),
        Ok(Outcome::Guard(guard)) => {
            keys(env, &guard.keys(), objects, at)?;
            text(env, 1, &guard.lease())?;
            // The sequence counts holds of one key: it stays far below the limit.
            let (token, sequence) = (guard.token(), guard.sequence() as i64);
            (Kind::Guard, [handles::insert(Arc::new(guard)) as i64, token, sequence])
        }
        Ok(Outcome::Flag(flag)) => (Kind::Flag, [flag.into(), 0, 0]),
        Ok(Outcome::Revision(revision)) => (Kind::Revision, [revision, 0, 0]),
        Ok(Outcome::Committed(committed)) => {
            let values = JObjectArray::<JObject>::new(env, committed.values.len(), JObject::null())?;
            for (index, value) in committed.values.iter().enumerate() {
                if let Some(value) = value {
                    let value = env.byte_array_from_slice(value)?;
                    values.set_element(env, index, &value)?;
                    env.delete_local_ref(value);
                }
            }
            objects.set_element(env, at, &values)?;
            (Kind::Committed, [committed.revision, committed.deleted, 0])
        }
        Ok(Outcome::Contenders(contenders)) => {
            let list = contenders_as_array(env, &contenders)?;
            objects.set_element(env, at, &list)?;
            (Kind::Contenders, [contenders.len() as i64, 0, 0])
        }
        Ok(Outcome::Lost(reason)) => (Kind::Lost, [reason.number().into(), 0, 0]),
        Ok(Outcome::Released) => (Kind::Released, [0; 3]),
        Ok(Outcome::State(state)) => match state {
            SessionState::Suspect => (Kind::State, [1, 0, 0]),
            SessionState::Lost(reason) => (Kind::State, [2, reason.number().into(), 0]),
            _ => (Kind::State, [0; 3]),
        },
        Ok(Outcome::Leader(leader)) => (Kind::Leader, leader_fields(env, leader, false, objects, at)?),
        Ok(Outcome::Observed(observed)) => {
            (Kind::Observed, leader_fields(env, observed.leader, observed.is_after_gap, objects, at)?)
        }
        Ok(Outcome::Log(record)) => {
            text(env, 0, record.target)?;
            text(env, 1, &record.message)?;
            (Kind::Log, [record.level as i64, 0, 0])
        }
        Ok(_) => (Kind::Done, [0; 3]),
    };
    Ok([kind as i64, numbers[0], numbers[1], numbers[2]])
}

/// The keys of a guard: one as a text, several as an array of them.
fn keys(env: &mut Env<'_>, keys: &[String], objects: &JObjectArray<'_>, at: usize) -> Result<(), Failure> {
    if let [key] = keys {
        let key = env.new_string(key)?;
        return Ok(objects.set_element(env, at, &key)?);
    }
    let several = JObjectArray::<JString>::new(env, keys.len(), JString::null())?;
    for (index, key) in keys.iter().enumerate() {
        let key = env.new_string(key)?;
        several.set_element(env, index, &key)?;
        env.delete_local_ref(key);
    }
    Ok(objects.set_element(env, at, &several)?)
}

/// A leader, if there is one: its numbers, and its key and value among the objects.
fn leader_fields(
    env: &mut Env<'_>,
    leader: Option<Leader>,
    is_after_gap: bool,
    objects: &JObjectArray<'_>,
    at: usize,
) -> Result<[i64; 3], Failure> {
    let Some(leader) = leader else { return Ok([0, 0, is_after_gap.into()]) };
    let key = env.new_string(&leader.key)?;
    objects.set_element(env, at, &key)?;
    let value = env.byte_array_from_slice(&leader.value)?;
    objects.set_element(env, at + 1, &value)?;
    Ok([leader.token, leader.revision, is_after_gap.into()])
}

/// The fields of every contender, twelve texts each, in the order of `io.leasehold.Contender`.
fn contenders_as_array<'local>(
    env: &mut Env<'local>,
    contenders: &[Contender],
) -> Result<JObjectArray<'local, JString<'local>>, Failure> {
    let fields: Vec<Option<String>> = contenders
        .iter()
        .flat_map(|contender| {
            let (kind, permits) = match contender.claim {
                Claim::Exclusive => ("mutex", 0),
                Claim::Shared => ("shared", 0),
                Claim::Permits { permits, .. } => ("semaphore", permits),
            };
            [
                Some(contender.key.clone()),
                Some(contender.token.to_string()),
                contender.lease.clone(),
                contender.identity.clone(),
                contender.host.clone(),
                contender.pid.map(|pid| pid.to_string()),
                contender.since.clone(),
                contender.version.clone(),
                contender.foreign.then(String::new),
                Some(kind.to_owned()),
                Some(permits.to_string()),
                contender.is_holder.then(String::new),
            ]
        })
        .collect();
    let list = JObjectArray::<JString>::new(env, fields.len(), JString::null())?;
    for (index, field) in fields.iter().enumerate() {
        if let Some(field) = field {
            let field = env.new_string(field)?;
            list.set_element(env, index, &field)?;
            env.delete_local_ref(field);
        }
    }
    Ok(list)
}
