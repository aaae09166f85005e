//! Standing for election, leading, proclaiming, resigning.

use std::time::Duration;

use leasehold::Code;
use leasehold_etcd::eventually;

use crate::{client, etcd, options, soon, standing};

/// The longest proclamation, as the documentation gives it.
const LONGEST: usize = 1_500_000;

/// Seen to fail with a put that loses the lease, and with `leader` going by the first key in the order of the keys.
#[tokio::test]
async fn candidates_lead_in_the_order_in_which_they_stood_for_election() {
    let cluster = etcd().await;
    let clients = [client(&cluster), client(&cluster)];
    let elections = clients.each_ref().map(|client| client.election("/e"));
    assert_eq!(elections[0].leader().await.unwrap(), None);
    let mut guard = soon(elections[0].campaign("0")).await.unwrap();
    let mut waiting = Vec::new();
    for n in 1..6 {
        waiting.push(tokio::spawn(elections[n % 2].campaign(n.to_string())));
        standing(&clients[0], &elections[0], n + 1).await;
    }
    let mut token = 0;
    for n in 0..6 {
        let leader = elections[1].leader().await.unwrap().expect("a leader");
        assert_eq!((leader.value, leader.token), (n.to_string().into_bytes(), guard.token()));
        assert_eq!((leader.key, leader.revision), (guard.key(), guard.token()));
        assert!(leader.token > std::mem::replace(&mut token, leader.token), "tokens grow");
        guard.proclaim(format!("{n}, again")).await.unwrap();
        let leader = elections[0].leader().await.unwrap().expect("a leader");
        assert_eq!((leader.value, leader.token), (format!("{n}, again").into_bytes(), guard.token()));
        assert!(leader.revision > guard.token());
        let stored = cluster.ctl(&["get", "-w", "fields", &guard.key()]).await.unwrap();
        let lease = i64::from_str_radix(&guard.lease(), 16).unwrap();
        assert!(stored.contains(&format!("\"Lease\" : {lease}\n")), "a proclamation takes the lease away: {stored}");
        assert!(waiting.iter().all(|waiting| !waiting.is_finished()), "a proclamation hands the leadership over");
        guard.release().await.unwrap();
        if waiting.is_empty() {
            break;
        }
        guard = soon(waiting.remove(0)).await.unwrap().unwrap();
    }
    assert_eq!(elections[0].leader().await.unwrap(), None);
}

/// Seen to fail with a proclamation that does not compare.
#[tokio::test]
async fn whoever_leads_no_more_proclaims_nothing() {
    let cluster = etcd().await;
    let (client, operator) = (client(&cluster), client(&cluster));
    let election = client.election("/e");
    let guard = election.campaign("first").await.unwrap();
    // Behind the back of the client, which believes for some moments more.
    cluster.ctl(&["del", &guard.key()]).await.unwrap();
    let error = guard.proclaim("too late").await.unwrap_err();
    assert_eq!(error.code(), Code::Lost, "{error}");
    assert_eq!(operator.election("/e").leader().await.unwrap(), None, "nothing was written");
    drop(guard);

    // The key of the same number is used again: by another candidacy.
    let guard = soon(election.campaign("second")).await.unwrap();
    operator.lock("/e").force_release(guard.token()).await.unwrap();
    eventually("the leader knows", || async { !guard.is_held() }).await;
    assert_eq!(guard.proclaim("too late").await.unwrap_err().code(), Code::Lost);
    assert_eq!(guard.release().await.unwrap_err().code(), Code::Lost);

    let guard = election.campaign("third").await.unwrap();
    client.close().await.unwrap();
    assert_eq!(guard.proclaim("too late").await.unwrap_err().code(), Code::Lost);
    assert_eq!(operator.election("/e").leader().await.unwrap(), None);
}

/// Seen to fail without the check: etcd refuses the larger ones with words of its own, after they have travelled.
#[tokio::test]
async fn a_proclamation_that_is_too_large_is_refused_at_the_door_and_the_longest_fits() {
    let cluster = etcd().await;
    let client = options(&cluster).namespace("n".repeat(1024)).build().unwrap();
    let election = client.election(&"e".repeat(1024));
    let too_long = vec![b'x'; LONGEST + 1];
    let error = election.campaign(&too_long).await.unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    assert!(error.message().contains("1500000") && error.message().contains("1500001"), "{error}");
    assert_eq!(cluster.keys("").await.unwrap(), [""; 0], "nothing was sent");

    let longest = vec![b'y'; LONGEST];
    let guard = soon(election.campaign(&longest)).await.unwrap();
    let second = tokio::spawn(election.campaign(&longest));
    standing(&client, &election, 2).await;
    assert_eq!(guard.proclaim(&too_long).await.unwrap_err().code(), Code::InvalidArgument);
    guard.proclaim(&longest).await.unwrap();
    guard.proclaim("").await.unwrap();
    assert_eq!(election.leader().await.unwrap().unwrap().value, b"");
    guard.release().await.unwrap();
    let guard = soon(second).await.unwrap().unwrap();
    assert_eq!(election.leader().await.unwrap().unwrap().value, longest);
    guard.release().await.unwrap();
    soon(election.campaign("")).await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_campaign_gives_up_in_time_and_leaves_nothing() {
    let cluster = etcd().await;
    let client = client(&cluster);
    let election = client.election("/e");
    let guard = election.campaign_within("here", Duration::ZERO).await.unwrap();
    for limit in [Duration::ZERO, Duration::from_millis(50)] {
        let error = election.campaign_within("there", limit).await.unwrap_err();
        assert_eq!(error.code(), Code::NotAcquired, "{error}");
    }
    let dropped = tokio::spawn(election.campaign("nowhere"));
    standing(&client, &election, 2).await;
    dropped.abort();
    standing(&client, &election, 1).await;
    assert_eq!(election.leader().await.unwrap().unwrap().value, b"here");
    guard.release().await.unwrap();
    standing(&client, &election, 0).await;
}

#[tokio::test]
async fn what_is_no_election_proclaims_nothing_and_bad_names_are_refused() {
    let cluster = etcd().await;
    let client = client(&cluster);
    let guard = client.lock("/l").acquire().await.unwrap();
    let error = guard.proclaim("x").await.unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument, "{error}");
    let said = &client.lock("/l").queue().await.unwrap()[0];
    assert!(said.identity.is_some() && !said.foreign, "{said:?}");
    for name in ["", "a\0b", &"x".repeat(1025)] {
        let election = client.election(name);
        assert_eq!(election.campaign("x").await.unwrap_err().code(), Code::InvalidArgument);
        assert_eq!(election.leader().await.unwrap_err().code(), Code::InvalidArgument);
        let mut observer = election.observe();
        for _ in 0..2 {
            assert_eq!(observer.next().await.unwrap_err().code(), Code::InvalidArgument);
        }
    }
    guard.release().await.unwrap();
}

/// Seen to fail with candidates that are foreign because they say nothing about themselves.
#[tokio::test]
async fn the_queue_of_an_election_shows_candidates_whatever_they_proclaim() {
    let cluster = etcd().await;
    let (one, two) = (client(&cluster), client(&cluster));
    let deep = "[".repeat(100_000);
    for value in ["", "{", "null", "\u{1b}[2J", r#"{"pid": -1, "host": 7, "identity": null}"#, &deep] {
        let guard = soon(one.election("/e").campaign(value)).await.unwrap();
        let queue = two.lock("/e").queue().await.unwrap();
        assert_eq!((queue.len(), queue[0].foreign, queue[0].identity.as_deref()), (1, false, None), "{value:.20}");
        assert_eq!((queue[0].pid, queue[0].host.as_deref()), (None, None));
        guard.release().await.unwrap();
    }
    let guard = one.election("/e").campaign([0xff, 0, 0xfe]).await.unwrap();
    assert_eq!(two.election("/e").leader().await.unwrap().unwrap().value, [0xff, 0, 0xfe]);
    assert!(!two.lock("/e").queue().await.unwrap()[0].foreign);
    guard.release().await.unwrap();
}

/// Seen to fail with a value that is forgotten once it was sent.
#[tokio::test]
async fn a_candidate_whose_session_is_lost_stands_again_with_the_same_value() {
    let cluster = etcd().await;
    let (one, two) = (client(&cluster), client(&cluster));
    let first = one.election("/e").campaign("first").await.unwrap();
    let second = tokio::spawn(two.election("/e").campaign("second"));
    standing(&one, &one.election("/e"), 2).await;
    let before = one.lock("/e").queue().await.unwrap()[1].clone();
    let lease = before.lease.expect("a lease");
    cluster.ctl(&["lease", "revoke", &lease]).await.unwrap();
    eventually("it stands again", || async {
        let queue = one.lock("/e").queue().await.unwrap();
        queue.len() == 2 && queue[1].token != before.token
    })
    .await;
    first.release().await.unwrap();
    let guard = soon(second).await.unwrap().unwrap();
    assert_eq!(one.election("/e").leader().await.unwrap().unwrap().value, b"second");
    guard.release().await.unwrap();
}
