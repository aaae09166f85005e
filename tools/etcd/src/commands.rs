//! The program's stdin: one command a line, one answer a line.

use leasehold_etcd::{Cluster, Error};
use serde_json::{Value, json};

/// For `--help`.
pub(crate) const HELP: &str = "\
Commands on stdin, one a line, each answered by one line of JSON ({\"ok\":true,…} or {\"ok\":false,\"error\":\"…\"}):
  kill N, stop N          end member N with SIGKILL or SIGTERM; members are counted from 0
  restart N               start it anew with its old data and ports
  freeze N, thaw N        SIGSTOP and SIGCONT
  cut N, reconnect N      cut it off from the other members, and end that
  leader                  the leader, as \"leader\":N";

/// Carries out one command.
pub(crate) async fn run(cluster: &Cluster, line: &str) -> Value {
    let done = |result: Result<(), Error>| result.map(|()| json!({"ok": true}));
    let mut words = line.split_whitespace();
    let command = (words.next().unwrap_or_default(), words.next().map(str::parse), words.next());
    let result = match command {
        ("leader", None, None) => cluster.leader().await.map(|leader| json!({"ok": true, "leader": leader})),
        ("kill", Some(Ok(member)), None) => done(cluster.kill(member)),
        ("stop", Some(Ok(member)), None) => done(cluster.stop(member).await),
        ("restart", Some(Ok(member)), None) => done(cluster.restart(member).await),
        ("freeze", Some(Ok(member)), None) => done(cluster.freeze(member)),
        ("thaw", Some(Ok(member)), None) => done(cluster.thaw(member)),
        ("cut", Some(Ok(member)), None) => done(cluster.cut_off(member)),
        ("reconnect", Some(Ok(member)), None) => done(cluster.reconnect(member)),
        _ => Err(Error::Usage(format!("{line:?} is no command; --help lists them"))),
    };
    result.unwrap_or_else(|error| json!({"ok": false, "error": error.to_string()}))
}
