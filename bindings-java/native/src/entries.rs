//! What all entry points have in common: a name that the JVM finds, an environment to call it with, and a way out, with a value
//! or with an exception.

/// Entry points: `fn name<'local>(env, arguments) -> value { … }`. The body brings a `Result`; its error is thrown.
macro_rules! entries {
    ($(
        $(#[$about:meta])*
        fn $name:ident<$local:lifetime>($env:ident $(, $argument:ident: $type:ty)* $(,)?) $(-> $value:ty)? $body:block
    )*) => {$(
        $(#[$about])*
        #[::jni::jni_mangle("io.leasehold.Native")]
        pub fn $name<$local>(
            env: ::jni::EnvUnowned<$local>,
            _: ::jni::objects::JClass<$local>
            $(, $argument: $type)*
        ) $(-> $value)? {
            $crate::failure::entry(env, |$env| $body)
        }
    )*};
}

/// Entry points that start an operation: `fn name<'local>(env, sink, arguments) { … }`. The body starts one that answers into
/// `sink`. Java gives where to last, as a queue and a tag, and is given the operation's id.
macro_rules! operations {
    ($(
        $(#[$about:meta])*
        fn $name:ident<$local:lifetime>($env:ident, $sink:ident $(, $argument:ident: $type:ty)* $(,)?) $body:block
    )*) => {
        entries! {$(
            $(#[$about])*
            fn $name<$local>($env $(, $argument: $type)*, queue: ::jni::sys::jlong, tag: ::jni::sys::jlong)
            -> ::jni::sys::jlong {
                let $sink = $crate::arguments::sink(queue, tag)?;
                let operation: ::leasehold_bridge::OpId = $body;
                Ok(operation.0 as ::jni::sys::jlong)
            }
        )*}
    };
}
