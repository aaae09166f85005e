//! What errors say of a name that is long and hostile: its beginning, escaped, whoever says it.

use std::time::Duration;

use leasehold::{Client, Error};

use crate::fails;

/// Longer than this is no message, whatever the name. The longest that says something of a name and a key cut both.
const LONGEST: usize = 1_200;

fn check(errors: &[Error]) {
    for error in errors {
        let message = error.message();
        assert!(message.len() <= LONGEST, "{} bytes: {message}", message.len());
        assert!(!message.chars().any(char::is_control), "{message:?}");
    }
}

/// Seen to fail with a name that is quoted, and not cut.
#[tokio::test]
async fn a_name_is_cut_and_escaped_in_every_message() {
    let name = format!("/evil\n\u{1b}[2J/{}", "x".repeat(1_000));
    let client = Client::new("memory://messages").unwrap();
    let other = Client::new("memory://messages").unwrap();
    let lock = client.lock(&name);
    let guard = lock.acquire().await.unwrap();
    let short = Duration::from_millis(1);
    let same = client.lock(&name).local_first();
    check(&[
        fails("a wait", other.lock(&name).acquire_within(short)).await,
        fails("a wait behind our own", lock.acquire_within(short)).await,
        fails("no such token", lock.force_release(77)).await,
        fails("a proclamation of a lock", guard.proclaim("x")).await,
        fails("too many permits", client.semaphore(&name, 2).permits(3).acquire()).await,
        fails("no permits", client.semaphore(&name, 0).acquire()).await,
        fails("permits of a mutex", lock.clone().permits(2).acquire()).await,
        fails("a shared semaphore", client.semaphore(&name, 2).shared().acquire()).await,
        fails("twice", client.all([lock.clone(), lock.clone()]).acquire()).await,
        fails("of another client", client.all([lock.clone(), other.lock("/b")]).acquire()).await,
        fails("with a TTL of its own", client.all([lock.clone().ttl(Duration::from_secs(9))]).acquire()).await,
    ]);
    let tried = fails("a try that waits", other.all([other.lock(&name)]).acquire_within(short)).await;
    check(&[tried]);

    guard.release().await.unwrap();
    let keeper = same.acquire().await.unwrap();
    check(&[fails("a wait for a place that is shared", same.acquire_within(short)).await]);
    keeper.release().await.unwrap();

    let shared = client.lock(&name).shared().acquire().await.unwrap();
    check(&[fails("a mismatch", other.semaphore(&name, 2).acquire()).await]);
    lock.force_release(shared.token()).await.unwrap();
    shared.lost().await;
    check(&[
        fails("a write of a lost hold", shared.put("/data", "x")).await,
        fails("work under a lost hold", shared.run(async {})).await,
        fails("the release of a lost hold", shared.release()).await,
    ]);
}

/// A URL is the user's own, and can hold what it should not.
#[test]
fn an_option_of_a_url_is_cut_and_escaped() {
    let long = format!("\u{1b}{}", "x".repeat(5_000));
    for url in
        [format!("http://a?{long}=1"), format!("http://a?ttl={long}"), format!("http://a?plaintext_password={long}")]
    {
        check(&[Client::new(url).unwrap_err()]);
    }
}
