//! The harness as a program, for tests in other languages.
//!
//! It prints one line of JSON when the cluster serves requests, and lives until its stdin is closed. Meanwhile each
//! line on stdin causes a fault and is answered by one line of JSON.

mod commands;

use std::{
    io::{BufRead, Write},
    process::ExitCode,
    thread,
};

use clap::Parser;
use leasehold_etcd::{Cluster, Error, Storage, Tls, User, Version, ensure, outlook};
use serde_json::{Value, json};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
};

/// Starts a real etcd on loopback, prints where it is as one line of JSON, and removes it when stdin is closed.
#[derive(Parser, Debug)]
#[command(name = "leasehold-etcd", after_help = commands::HELP)]
struct Options {
    /// Number of members.
    #[arg(long, default_value_t = 1)]
    members: usize,
    /// Series of etcd: 3.4, 3.5, 3.6, 3.7, or any for whatever is there first.
    #[arg(long, default_value_t = Version::Any)]
    version: Version,
    /// Where the data are.
    #[arg(long, value_enum, default_value = "memory")]
    storage: Storage,
    /// How clients talk to it; mutual asks for their certificate.
    #[arg(long, value_enum, default_value = "none")]
    tls: Tls,
    /// A user with the right to read and write under a prefix (empty: everywhere); turns users on. Repeatable.
    #[arg(long = "user", value_name = "NAME:PASSWORD:PREFIX", value_parser = user)]
    users: Vec<User>,
    /// Password of the user root; turns users on. With --user it is "root" unless given.
    #[arg(long, value_name = "PASSWORD")]
    root_password: Option<String>,
    /// A further argument for etcd, for example --etcd-arg=--auth-token-ttl=5. Repeatable.
    #[arg(long = "etcd-arg", value_name = "ARGUMENT", allow_hyphen_values = true)]
    etcd_arguments: Vec<String>,
    /// Build the named series into the cache (3.5,3.6,3.7 if none is named), start nothing.
    #[arg(long, value_name = "SERIES", num_args = 0.., value_delimiter = ',')]
    build_only: Option<Vec<Version>>,
    /// Say where each series would come from, start nothing.
    #[arg(long)]
    print_sources: bool,
}

fn user(text: &str) -> Result<User, String> {
    let mut parts = text.splitn(3, ':');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(name), Some(password), Some(prefix)) if !name.is_empty() && !password.is_empty() => {
            Ok(User::new(name, password).prefix(prefix))
        }
        _ => Err("must be name:password:prefix".into()),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let options = Options::parse();
    let result = if options.print_sources {
        for version in [Version::Any].into_iter().chain(Version::ALL) {
            println!("{version:<4} {}", outlook(version));
        }
        Ok(())
    } else if let Some(versions) = options.build_only {
        build(versions).await
    } else {
        live(options).await
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("leasehold-etcd: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn build(mut versions: Vec<Version>) -> Result<(), Error> {
    if versions.is_empty() {
        versions = vec![Version::V3_5, Version::V3_6, Version::V3_7];
    }
    for version in versions {
        eprintln!("{version}: {}", ensure(version).await?);
    }
    Ok(())
}

/// Starts the cluster and serves it until stdin is closed, or a signal asks for the end.
async fn live(options: Options) -> Result<(), Error> {
    let mut builder =
        Cluster::builder().members(options.members).version(options.version).storage(options.storage).tls(options.tls);
    let users_on = options.root_password.is_some() || !options.users.is_empty();
    if users_on {
        builder = builder.auth(options.root_password.unwrap_or_else(|| "root".into()), options.users);
    }
    for argument in options.etcd_arguments {
        builder = builder.arg(argument);
    }
    let serve = async {
        let cluster = builder.start().await?;
        say(&description(&cluster));
        let mut lines = lines();
        while let Some(line) = lines.recv().await {
            say(&commands::run(&cluster, &line).await);
        }
        Ok(())
    };
    tokio::select! {
        result = serve => result,
        _ = signalled(SignalKind::interrupt()) => Ok(()),
        _ = signalled(SignalKind::terminate()) => Ok(()),
    }
}

fn description(cluster: &Cluster) -> Value {
    let mutual = cluster.tls() == Tls::Mutual;
    let files = cluster.certificates();
    json!({
        "endpoints": cluster.endpoints(),
        "version": cluster.release().to_string(),
        "ca_file": files.map(|files| &files.ca_file),
        "cert_file": files.filter(|_| mutual).map(|files| &files.cert_file),
        "key_file": files.filter(|_| mutual).map(|files| &files.key_file),
        "etcd": cluster.server().etcd(),
        "etcdctl": cluster.server().etcdctl().ok(),
        "pids": (0..cluster.size()).map(|i| cluster.pid(i).ok().flatten()).collect::<Vec<_>>(),
    })
}

/// The lines of stdin until it is closed, read on a thread of its own: a read cannot be cancelled.
fn lines() -> mpsc::UnboundedReceiver<String> {
    let (sender, receiver) = mpsc::unbounded_channel();
    thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

fn say(answer: &Value) {
    // Whoever does not read it any more will close stdin as well.
    let _ = writeln!(std::io::stdout(), "{answer}");
}

/// Waits for a signal; forever where it cannot be waited for.
async fn signalled(kind: SignalKind) {
    match signal(kind) {
        Ok(mut signals) => drop(signals.recv().await),
        Err(_) => std::future::pending().await,
    }
}
