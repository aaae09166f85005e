//! Our values as etcd's protobuf messages, and back. Pure.
//!
//! What comes back is checked against what was asked: a reply without a header, with a revision that no etcd has, with more, fewer or
//! other answers than questions is [`Nonsense`], from which nothing is concluded.

use std::sync::Arc;

use etcd_client::proto::{
    PbCompare, PbCompareTarget, PbDeleteRequest, PbEvent, PbKeyValue, PbLeaseGrantResponse, PbLeaseTimeToLiveResponse,
    PbPutRequest, PbRangeRequest, PbRangeResponse, PbResponseHeader, PbTargetUnion, PbTxnOpRequest, PbTxnOpResponse,
    PbTxnRequest, PbTxnRequestOp, PbTxnResponse, PbWatchRequest, PbWatchRequestUnion,
};
use etcd_client::{EventType, SortOrder, SortTarget};

use crate::store::{
    Change, CreateRevisionIs, Key, KeyValue, Keys, LeaseId, Op, OpReply, Pick, Range, RangeReply, Reply, ReplyBody,
    Txn, TxnReply, WatchEvent, WatchId, WatchRequest,
};

/// What is wrong with a message that no etcd sends, in words that follow "its answer".
pub(super) type Nonsense = &'static str;

/// A range of keys as the two byte strings that every etcd message has for it.
fn bounds(keys: &Keys) -> (Vec<u8>, Vec<u8>) {
    (keys.key.as_bytes().to_vec(), keys.end.as_ref().map_or_else(Vec::new, |end| end.as_bytes().to_vec()))
}

fn compare(condition: &CreateRevisionIs) -> PbCompare {
    let (key, range_end) = bounds(&condition.keys);
    PbCompare {
        // The default result is "equal".
        target: PbCompareTarget::Create.into(),
        key,
        range_end,
        target_union: Some(PbTargetUnion::CreateRevision(condition.revision)),
        ..Default::default()
    }
}

fn op(op: &Op) -> PbTxnRequestOp {
    let request = match op {
        Op::Put { key, value, lease } => PbTxnOpRequest::RequestPut(PbPutRequest {
            key: key.as_bytes().to_vec(),
            value: value.to_vec(),
            lease: lease.map_or(0, |lease| lease.0),
            ..Default::default()
        }),
        Op::Delete(keys) => {
            let (key, range_end) = bounds(keys);
            PbTxnOpRequest::RequestDeleteRange(PbDeleteRequest { key, range_end, prev_kv: false })
        }
        Op::Range(read) => PbTxnOpRequest::RequestRange(range(read)),
        Op::Txn(inner) => PbTxnOpRequest::RequestTxn(txn(inner)),
    };
    PbTxnRequestOp { request: Some(request) }
}

/// The message for a transaction.
pub(super) fn txn(txn: &Txn) -> PbTxnRequest {
    PbTxnRequest {
        compare: txn.conditions.iter().map(compare).collect(),
        success: txn.then.iter().map(op).collect(),
        failure: txn.otherwise.iter().map(op).collect(),
    }
}

/// The message for a read: linearizable, and unsorted unless the newest are wanted, which are etcd's defaults.
pub(super) fn range(range: &Range) -> PbRangeRequest {
    let (key, range_end) = bounds(&range.keys);
    let mut message =
        PbRangeRequest { key, range_end, limit: range.limit, keys_only: range.keys_only, ..Default::default() };
    match range.pick {
        Pick::All => {}
        Pick::CreatedUntil(revision) => message.max_create_revision = revision,
        Pick::Newest => {
            message.sort_order = SortOrder::Descend.into();
            message.sort_target = SortTarget::Create.into();
        }
    }
    message
}

/// Whether the transaction writes nothing, whichever way it goes.
pub(super) fn only_reads(txn: &Txn) -> bool {
    txn.then.iter().chain(&txn.otherwise).all(|op| match op {
        Op::Put { .. } | Op::Delete(_) => false,
        Op::Range(_) => true,
        Op::Txn(inner) => only_reads(inner),
    })
}

/// Revision and cluster in a reply's header.
///
/// # Errors
/// There is no header, or no revision in it: etcd's first one is 1.
pub(super) fn header(header: Option<PbResponseHeader>) -> Result<(i64, u64), Nonsense> {
    let header = header.ok_or("has no header")?;
    if header.revision <= 0 {
        return Err("has a revision that no etcd has");
    }
    Ok((header.revision, header.cluster_id))
}

fn lease(id: i64) -> Option<LeaseId> {
    (id != 0).then_some(LeaseId(id))
}

fn key_value(kv: PbKeyValue, asked: &Range, revision: i64) -> Result<KeyValue, Nonsense> {
    if kv.create_revision <= 0 || kv.mod_revision < kv.create_revision || kv.mod_revision > revision {
        return Err("has a key with revisions that cannot be");
    }
    let key = Key::from(kv.key);
    let is_picked = match asked.pick {
        Pick::CreatedUntil(until) => kv.create_revision <= until,
        Pick::All | Pick::Newest => true,
    };
    if !asked.keys.contains(&key) || !is_picked {
        return Err("has a key that was not asked for");
    }
    Ok(KeyValue {
        key,
        value: Arc::from(kv.value),
        create_revision: kv.create_revision,
        mod_revision: kv.mod_revision,
        lease: lease(kv.lease),
    })
}

/// What a read found, as of `revision`.
fn range_found(reply: PbRangeResponse, asked: &Range, revision: i64) -> Result<RangeReply, Nonsense> {
    let found = i64::try_from(reply.kvs.len()).unwrap_or(i64::MAX);
    if found > reply.count || (asked.limit > 0 && found > asked.limit) {
        return Err("has more keys than it counts, or than were asked for");
    }
    let kvs = reply.kvs.into_iter().map(|kv| key_value(kv, asked, revision)).collect::<Result<_, _>>()?;
    Ok(RangeReply { kvs, count: reply.count })
}

/// The reply to a read.
///
/// # Errors
/// It is not one.
pub(super) fn range_reply(reply: PbRangeResponse, asked: &Range) -> Result<Reply, Nonsense> {
    let (revision, cluster) = header(reply.header)?;
    Ok(Reply { revision, cluster, body: ReplyBody::Range(range_found(reply, asked, revision)?) })
}

/// What a transaction did: one answer for each operation of the branch that was taken, and of its kind.
fn txn_done(reply: PbTxnResponse, asked: &Txn, revision: i64) -> Result<TxnReply, Nonsense> {
    let branch = if reply.succeeded { &asked.then } else { &asked.otherwise };
    if reply.responses.len() != branch.len() {
        return Err("has more or fewer answers than the transaction has operations");
    }
    let answered = branch.iter().zip(reply.responses).map(|(op, answer)| match (op, answer.response) {
        (Op::Put { .. }, Some(PbTxnOpResponse::ResponsePut(_))) => Ok(OpReply::Put),
        (Op::Delete(_), Some(PbTxnOpResponse::ResponseDeleteRange(reply))) if reply.deleted >= 0 => {
            Ok(OpReply::Delete(reply.deleted))
        }
        (Op::Range(asked), Some(PbTxnOpResponse::ResponseRange(reply))) => {
            range_found(reply, asked, revision).map(OpReply::Range)
        }
        (Op::Txn(inner), Some(PbTxnOpResponse::ResponseTxn(reply))) => {
            txn_done(reply, inner, revision).map(OpReply::Txn)
        }
        _ => Err("answers an operation with the answer to another kind"),
    });
    Ok(TxnReply { succeeded: reply.succeeded, replies: answered.collect::<Result<_, _>>()? })
}

/// The reply to a transaction.
///
/// # Errors
/// It is not one. The transaction may have been applied all the same.
pub(super) fn txn_reply(reply: PbTxnResponse, asked: &Txn) -> Result<Reply, Nonsense> {
    let (revision, cluster) = header(reply.header)?;
    Ok(Reply { revision, cluster, body: ReplyBody::Txn(txn_done(reply, asked, revision)?) })
}

/// The reply to the grant of `lease`.
///
/// # Errors
/// It is not one.
pub(super) fn grant_reply(reply: PbLeaseGrantResponse, lease: LeaseId) -> Result<Reply, Nonsense> {
    let (revision, cluster) = header(reply.header)?;
    if reply.id != lease.0 || reply.ttl <= 0 {
        return Err("grants another lease than was asked for, or one without a time to live");
    }
    Ok(Reply { revision, cluster, body: ReplyBody::LeaseGrant { ttl: reply.ttl } })
}

/// The reply to the question how long `lease` still lives, and which keys it has.
///
/// # Errors
/// It is not one.
pub(super) fn time_to_live_reply(reply: PbLeaseTimeToLiveResponse, lease: LeaseId) -> Result<Reply, Nonsense> {
    let (revision, cluster) = header(reply.header)?;
    if reply.id != lease.0 {
        return Err("is about another lease");
    }
    let keys = reply.keys.into_iter().map(Key::from).collect();
    Ok(Reply { revision, cluster, body: ReplyBody::LeaseTimeToLive { ttl: reply.ttl, keys } })
}

/// The message that creates or cancels a watch: from now on, without fragments, without the values before a change.
pub(super) fn watch_request(request: WatchRequest) -> PbWatchRequest {
    // The crate names the union but not its members: they are made by default and then filled in.
    let union = match request {
        WatchRequest::Create(WatchId(watch_id), keys) => {
            let mut union = PbWatchRequestUnion::CreateRequest(Default::default());
            if let PbWatchRequestUnion::CreateRequest(create) = &mut union {
                (create.key, create.range_end) = bounds(&keys);
                create.watch_id = watch_id;
            }
            union
        }
        WatchRequest::Cancel(WatchId(watch_id)) => {
            let mut union = PbWatchRequestUnion::CancelRequest(Default::default());
            if let PbWatchRequestUnion::CancelRequest(cancel) = &mut union {
                cancel.watch_id = watch_id;
            }
            union
        }
    };
    PbWatchRequest { request_union: Some(union) }
}

/// A change, as a watch tells it.
///
/// # Errors
/// An event without a key or a revision.
pub(super) fn watch_event(event: PbEvent) -> Result<WatchEvent, Nonsense> {
    let deleted = event.r#type == EventType::Delete as i32;
    let kv = event.kv.ok_or("has an event without a key")?;
    if kv.mod_revision <= 0 || (!deleted && !(1..=kv.mod_revision).contains(&kv.create_revision)) {
        return Err("has an event with revisions that cannot be");
    }
    let change = if deleted {
        Change::Delete
    } else {
        Change::Put { value: kv.value.into(), create_revision: kv.create_revision, lease: lease(kv.lease) }
    };
    Ok(WatchEvent { key: Key::from(kv.key), revision: kv.mod_revision, change })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(key: &str) -> Op {
        Op::Put { key: Key::from(key), value: Arc::from(*b"v"), lease: None }
    }

    fn read(key: &str) -> Op {
        Op::Range(Range { keys: Keys::one(Key::from(key)), limit: 0, keys_only: false, pick: Pick::All })
    }

    #[test]
    fn a_transaction_only_reads_if_no_branch_at_any_depth_writes() {
        let reading = Txn { then: vec![read("a")], otherwise: vec![read("b")], ..Txn::default() };
        assert!(only_reads(&reading));
        assert!(only_reads(&Txn { then: vec![Op::Txn(reading.clone())], ..Txn::default() }));
        assert!(!only_reads(&Txn { otherwise: vec![put("a")], ..reading.clone() }));
        assert!(!only_reads(&Txn { then: vec![Op::Delete(Keys::one(Key::from("a")))], ..reading.clone() }));
        let hidden = Txn { then: vec![put("a")], ..Txn::default() };
        assert!(!only_reads(&Txn { otherwise: vec![Op::Txn(hidden)], ..reading }));
    }

    #[test]
    fn a_condition_compares_the_create_revision_of_one_key_or_of_a_range() {
        let one = compare(&CreateRevisionIs { keys: Keys::one(Key::from("a")), revision: 7 });
        assert_eq!((one.result, one.target), (0, PbCompareTarget::Create as i32), "0 is `equal`");
        assert_eq!(one.target_union, Some(PbTargetUnion::CreateRevision(7)));
        assert_eq!((one.key.as_slice(), one.range_end.as_slice()), (b"a".as_slice(), b"".as_slice()));
        let range = compare(&CreateRevisionIs { keys: Keys::prefix(Key::from("a/")), revision: 0 });
        assert_eq!((range.key.as_slice(), range.range_end.as_slice()), (b"a/".as_slice(), b"a0".as_slice()));
    }

    #[test]
    fn a_put_carries_its_lease_and_none_is_zero() {
        for (lease, number) in [(None, 0), (Some(LeaseId(0x1f)), 0x1f)] {
            let sent = op(&Op::Put { key: Key::from("k"), value: Arc::from(*b"v"), lease });
            let Some(PbTxnOpRequest::RequestPut(sent)) = sent.request else { panic!("not a put: {sent:?}") };
            assert_eq!((sent.lease, sent.value.as_slice(), sent.prev_kv), (number, b"v".as_slice(), false));
        }
    }

    fn at(revision: i64) -> Option<PbResponseHeader> {
        Some(PbResponseHeader { cluster_id: 9, revision, ..Default::default() })
    }

    fn answers(responses: Vec<PbTxnOpResponse>) -> PbTxnResponse {
        let empty = vec![Default::default(); responses.len()];
        let mut reply = PbTxnResponse { header: at(5), succeeded: true, responses: empty };
        for (slot, response) in reply.responses.iter_mut().zip(responses) {
            slot.response = Some(response);
        }
        reply
    }

    #[test]
    fn a_reply_tells_its_revision_and_cluster_or_is_none() {
        assert_eq!(header(at(7)), Ok((7, 9)));
        for wrong in [None, at(0), at(-1), at(i64::MIN)] {
            assert!(header(wrong).is_err());
        }
    }

    #[test]
    fn a_transaction_needs_an_answer_of_the_right_kind_for_each_operation_of_the_branch_taken() {
        let asked = Txn { then: vec![put("a"), read("a")], otherwise: vec![read("a")], ..Txn::default() };
        let (written, found) =
            (PbTxnOpResponse::ResponsePut(Default::default()), PbTxnOpResponse::ResponseRange(Default::default()));
        let good = answers(vec![written.clone(), found.clone()]);
        assert!(txn_reply(good.clone(), &asked).is_ok());
        assert!(txn_reply(PbTxnResponse { header: None, ..good.clone() }, &asked).is_err());
        assert!(txn_reply(PbTxnResponse { succeeded: false, ..good }, &asked).is_err(), "the other branch has one");
        for wrong in [
            vec![],
            vec![written.clone()],
            vec![found.clone(), written.clone()],
            vec![written.clone(), written.clone()],
            vec![written.clone(), found.clone(), found.clone()],
        ] {
            assert!(txn_reply(answers(wrong.clone()), &asked).is_err(), "{wrong:?}");
        }
        let unanswered = PbTxnResponse { responses: vec![Default::default(); 2], ..answers(Vec::new()) };
        assert!(txn_reply(unanswered, &asked).is_err());
        let nested = Txn { then: vec![Op::Txn(asked)], ..Txn::default() };
        let inner = |answers| PbTxnOpResponse::ResponseTxn(answers);
        assert!(txn_reply(answers(vec![inner(answers(vec![written.clone(), found]))]), &nested).is_ok());
        assert!(txn_reply(answers(vec![inner(answers(vec![written]))]), &nested).is_err());
    }

    #[test]
    fn keys_that_cannot_be_or_were_not_asked_for_are_no_answer() {
        let asked = Range { keys: Keys::prefix(Key::from("a/")), limit: 1, keys_only: true, pick: Pick::All };
        let kv = PbKeyValue { key: b"a/1".to_vec(), create_revision: 2, mod_revision: 3, ..Default::default() };
        let found = |kvs: Vec<PbKeyValue>, count| PbRangeResponse { header: at(5), kvs, count, ..Default::default() };
        assert!(range_reply(found(vec![kv.clone()], 7), &asked).is_ok());
        assert!(range_reply(found(vec![kv.clone()], 0), &asked).is_err(), "it counts less than it has");
        assert!(range_reply(found(vec![kv.clone(), kv.clone()], 2), &asked).is_err(), "more than the limit");
        for wrong in [
            PbKeyValue { key: b"b/1".to_vec(), ..kv.clone() },
            PbKeyValue { create_revision: 0, ..kv.clone() },
            PbKeyValue { mod_revision: 1, ..kv.clone() },
            PbKeyValue { mod_revision: 6, ..kv },
        ] {
            assert!(range_reply(found(vec![wrong.clone()], 1), &asked).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_lease_is_the_one_that_was_asked_for() {
        let granted = |id, ttl| PbLeaseGrantResponse { header: at(5), id, ttl, ..Default::default() };
        assert!(grant_reply(granted(7, 5), LeaseId(7)).is_ok());
        assert!(grant_reply(granted(8, 5), LeaseId(7)).is_err());
        assert!(grant_reply(granted(7, 0), LeaseId(7)).is_err());
        let told = |id| PbLeaseTimeToLiveResponse { header: at(5), id, ttl: -1, ..Default::default() };
        assert!(time_to_live_reply(told(7), LeaseId(7)).is_ok());
        assert!(time_to_live_reply(told(8), LeaseId(7)).is_err());
    }

    #[test]
    fn a_watch_starts_now_under_our_own_id_and_asks_for_nothing_more() {
        let request = watch_request(WatchRequest::Create(WatchId(9), Keys::prefix(Key::from("a/"))));
        let Some(PbWatchRequestUnion::CreateRequest(create)) = request.request_union else { panic!("not a create") };
        assert_eq!((create.watch_id, create.start_revision), (9, 0));
        assert_eq!((create.key.as_slice(), create.range_end.as_slice()), (b"a/".as_slice(), b"a0".as_slice()));
        assert!(!create.fragment && !create.prev_kv && !create.progress_notify && create.filters.is_empty());
        let request = watch_request(WatchRequest::Cancel(WatchId(9)));
        let Some(PbWatchRequestUnion::CancelRequest(cancel)) = request.request_union else { panic!("not a cancel") };
        assert_eq!(cancel.watch_id, 9);
    }

    #[test]
    fn events_keep_the_revision_of_the_change() {
        let kv = PbKeyValue {
            key: b"k".to_vec(),
            value: b"v".to_vec(),
            create_revision: 3,
            mod_revision: 5,
            lease: 8,
            ..Default::default()
        };
        let put = watch_event(PbEvent { r#type: EventType::Put as i32, kv: Some(kv.clone()), prev_kv: None }).unwrap();
        let change = Change::Put { value: (*b"v").into(), create_revision: 3, lease: Some(LeaseId(8)) };
        assert_eq!((put.revision, put.change), (5, change));
        let delete = watch_event(PbEvent { r#type: EventType::Delete as i32, kv: Some(kv), prev_kv: None }).unwrap();
        assert_eq!((delete.revision, delete.change), (5, Change::Delete));
        assert!(watch_event(PbEvent::default()).is_err());
        let never = PbKeyValue { key: b"k".to_vec(), ..Default::default() };
        assert!(watch_event(PbEvent { kv: Some(never), ..Default::default() }).is_err());
    }
}
