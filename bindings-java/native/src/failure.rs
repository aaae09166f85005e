//! How an entry point fails: with an exception of ours that has a code, thrown on the thread that called.

use std::any::Any;

use jni::{
    Env, EnvUnowned,
    errors::{ErrorPolicy, JniError},
    exceptions::{
        JArrayIndexOutOfBoundsException, JArrayStoreException, JOutOfMemoryError, JSecurityException,
        JStringIndexOutOfBoundsException,
    },
    ids::JStaticMethodID,
    jni_sig, jni_str,
    objects::{JClass, JObject, JObjectArray, JString, JThrowable},
    refs::{LoaderContext, Reference, Weak},
    signature::ReturnType,
    sys::jvalue,
};
use leasehold_bridge::{Code, Error, panics};
use once_cell::sync::OnceCell;

/// What makes an exception. Looked up once, by the static initialiser of the class that has the native methods: only its class
/// loader is sure to find ours, wherever the jar lies. It is alive whenever one of those methods runs, and nothing here keeps it:
/// an application that is undeployed must not stay in memory.
struct Exceptions {
    class: Weak<JClass<'static>>,
    of: JStaticMethodID,
}

static EXCEPTIONS: OnceCell<Exceptions> = OnceCell::new();

/// Looks up what this library needs of Java: now, because a lookup needs memory. (The `jni` crate looks for the class of an
/// exception when it sees one first. With an `OutOfMemoryError` that throws another one, and so on until the stack is full.)
pub fn initialise(env: &mut Env, class: &JClass) -> jni::errors::Result<()> {
    let loader = LoaderContext::default();
    JString::lookup_class(env, &loader)?;
    JObjectArray::<JObject>::lookup_class(env, &loader)?;
    JObjectArray::<JString>::lookup_class(env, &loader)?;
    JOutOfMemoryError::lookup_class(env, &loader)?;
    JSecurityException::lookup_class(env, &loader)?;
    JArrayIndexOutOfBoundsException::lookup_class(env, &loader)?;
    JArrayStoreException::lookup_class(env, &loader)?;
    JStringIndexOutOfBoundsException::lookup_class(env, &loader)?;
    let of = env.get_static_method_id(
        class,
        jni_str!("of"),
        jni_sig!((int, int, java.lang.String) -> java.lang.RuntimeException),
    )?;
    let class = env.new_weak_ref(class)?;
    // A second call changes nothing.
    let _ = EXCEPTIONS.set(Exceptions { class, of });
    Ok(())
}

/// Why an entry point failed.
pub enum Failure {
    /// With an error of leasehold's.
    Ours(Error),
    /// Because the JVM refused something.
    Jvm(jni::errors::Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Ours(error)
    }
}

impl From<jni::errors::Error> for Failure {
    fn from(error: jni::errors::Error) -> Self {
        Self::Jvm(error)
    }
}

/// Runs an entry point. An error or a panic becomes an exception, and the returned value counts for nothing then.
pub fn entry<'local, T: Default>(
    mut env: EnvUnowned<'local>,
    body: impl FnOnce(&mut Env<'local>) -> Result<T, Failure>,
) -> T {
    env.with_env(body).resolve::<Throw>()
}

/// Throws what went wrong.
struct Throw;

impl<T: Default> ErrorPolicy<T, Failure> for Throw {
    type Captures<'unowned_env_local: 'native_method, 'native_method> = ();

    fn on_error<'unowned_env_local: 'native_method, 'native_method>(
        env: &mut Env<'unowned_env_local>,
        _captures: &mut Self::Captures<'unowned_env_local, 'native_method>,
        failure: Failure,
    ) -> jni::errors::Result<T> {
        let error = match failure {
            Failure::Ours(error) => error,
            // Out of memory, say: Java's own exception is under way and tells it best.
            Failure::Jvm(_) if env.exception_check() => return Ok(T::default()),
            Failure::Jvm(jni::errors::Error::JniCall(JniError::NoMemory)) => no_memory(),
            Failure::Jvm(error) => {
                Error::new(Code::Internal, format!("the JVM refused a call, please report it: {error}"))
            }
        };
        throw(env, &error);
        Ok(T::default())
    }

    fn on_panic<'unowned_env_local: 'native_method, 'native_method>(
        env: &mut Env<'unowned_env_local>,
        _captures: &mut Self::Captures<'unowned_env_local, 'native_method>,
        payload: Box<dyn Any + Send + 'static>,
    ) -> jni::errors::Result<T> {
        if !env.exception_check() {
            throw(env, &panics::error(&*payload));
        }
        Ok(T::default())
    }
}

/// That the JVM has no memory left.
pub fn no_memory() -> Error {
    let message =
        "Java had no memory left for what this operation brought; ask for less at once, or give it more (-Xmx)";
    Error::new(Code::ResourceExhausted, message)
}

/// Throws `error`. If even that fails, the JVM is out of memory and has an exception of its own under way.
fn throw(env: &mut Env, error: &Error) {
    let _ = try_throw(env, error);
}

fn try_throw(env: &mut Env, error: &Error) -> jni::errors::Result<()> {
    let Some(Exceptions { class, of }) = EXCEPTIONS.get() else {
        return env.throw(format!("{error}"));
    };
    let Some(class) = class.upgrade_local(env)? else { return env.throw(format!("{error}")) };
    let message = env.new_string(error.message())?;
    let arguments = [
        jvalue { i: error.code().number() },
        jvalue { i: error.reason().map_or(0, |reason| reason.number()) },
        jvalue { l: message.as_raw() },
    ];
    let returned = ReturnType::Object;
    // SAFETY: the method was looked up in this class, with these parameters and this type of result.
    let exception = unsafe { env.call_static_method_unchecked(class, of, returned, &arguments) }?.l()?;
    let exception = env.cast_local::<JThrowable>(exception)?;
    env.throw(exception)
}
