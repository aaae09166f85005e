//! Our values as etcd's protobuf messages, and back. Pure.

use std::sync::Arc;

use etcd_client::EventType;
use etcd_client::proto::{
    PbCompare, PbCompareTarget, PbDeleteRequest, PbEvent, PbKeyValue, PbLeaseTimeToLiveResponse, PbPutRequest,
    PbRangeRequest, PbRangeResponse, PbResponseHeader, PbTargetUnion, PbTxnOpRequest, PbTxnOpResponse, PbTxnRequest,
    PbTxnRequestOp, PbTxnResponse, PbWatchRequest, PbWatchRequestUnion,
};

use crate::store::{
    Change, CreateRevisionIs, ErrorKind, Key, KeyValue, Keys, LeaseId, Op, OpReply, Range, RangeReply, ReplyBody,
    StoreError, Txn, TxnReply, WatchEvent, WatchId, WatchRequest,
};

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

/// The message for a read: linearizable and unsorted, which are etcd's defaults.
pub(super) fn range(range: &Range) -> PbRangeRequest {
    let (key, range_end) = bounds(&range.keys);
    PbRangeRequest { key, range_end, limit: range.limit, keys_only: range.keys_only, ..Default::default() }
}

/// Whether the transaction writes nothing, whichever way it goes.
pub(super) fn only_reads(txn: &Txn) -> bool {
    txn.then.iter().chain(&txn.otherwise).all(|op| match op {
        Op::Put { .. } | Op::Delete(_) => false,
        Op::Range(_) => true,
        Op::Txn(inner) => only_reads(inner),
    })
}

/// The revision in a reply's header.
pub(super) fn revision(header: Option<PbResponseHeader>) -> i64 {
    header.map_or(0, |header| header.revision)
}

fn lease(id: i64) -> Option<LeaseId> {
    (id != 0).then_some(LeaseId(id))
}

fn key_value(kv: PbKeyValue) -> KeyValue {
    KeyValue {
        key: Key::from(kv.key),
        value: Arc::from(kv.value),
        create_revision: kv.create_revision,
        mod_revision: kv.mod_revision,
        lease: lease(kv.lease),
    }
}

/// What a read found.
pub(super) fn range_reply(reply: PbRangeResponse) -> RangeReply {
    RangeReply { kvs: reply.kvs.into_iter().map(key_value).collect(), count: reply.count }
}

/// What a transaction did.
///
/// # Errors
/// An operation without an answer: a server that we do not understand. The transaction was applied all the same.
pub(super) fn txn_reply(reply: PbTxnResponse) -> Result<TxnReply, StoreError> {
    let replies = reply
        .responses
        .into_iter()
        .map(|answer| match answer.response {
            Some(PbTxnOpResponse::ResponsePut(_)) => Ok(OpReply::Put),
            Some(PbTxnOpResponse::ResponseDeleteRange(reply)) => Ok(OpReply::Delete(reply.deleted)),
            Some(PbTxnOpResponse::ResponseRange(reply)) => Ok(OpReply::Range(range_reply(reply))),
            Some(PbTxnOpResponse::ResponseTxn(reply)) => txn_reply(reply).map(OpReply::Txn),
            None => {
                Err(StoreError::ambiguous(ErrorKind::Internal, "etcd left an operation of a transaction unanswered"))
            }
        })
        .collect::<Result<_, _>>()?;
    Ok(TxnReply { succeeded: reply.succeeded, replies })
}

/// How long a lease still lives, and its keys.
pub(super) fn time_to_live_reply(reply: PbLeaseTimeToLiveResponse) -> ReplyBody {
    ReplyBody::LeaseTimeToLive { ttl: reply.ttl, keys: reply.keys.into_iter().map(Key::from).collect() }
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

/// A change, as a watch tells it; nothing for an event without a key, which etcd never sends.
pub(super) fn watch_event(event: PbEvent) -> Option<WatchEvent> {
    let deleted = event.r#type == EventType::Delete as i32;
    let kv = event.kv?;
    let change = if deleted {
        Change::Delete
    } else {
        Change::Put { create_revision: kv.create_revision, lease: lease(kv.lease) }
    };
    Some(WatchEvent { key: Key::from(kv.key), revision: kv.mod_revision, change })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(key: &str) -> Op {
        Op::Put { key: Key::from(key), value: Arc::from(*b"v"), lease: None }
    }

    fn read(key: &str) -> Op {
        Op::Range(Range { keys: Keys::one(Key::from(key)), limit: 0, keys_only: false })
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

    #[test]
    fn an_operation_without_an_answer_is_an_ambiguous_error() {
        let error = txn_reply(PbTxnResponse { responses: vec![Default::default()], ..Default::default() }).unwrap_err();
        assert!(error.ambiguous);
        assert_eq!(error.kind, ErrorKind::Internal);
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
        let kv = PbKeyValue { key: b"k".to_vec(), create_revision: 3, mod_revision: 5, lease: 8, ..Default::default() };
        let put = watch_event(PbEvent { r#type: EventType::Put as i32, kv: Some(kv.clone()), prev_kv: None }).unwrap();
        assert_eq!((put.revision, put.change), (5, Change::Put { create_revision: 3, lease: Some(LeaseId(8)) }));
        let delete = watch_event(PbEvent { r#type: EventType::Delete as i32, kv: Some(kv), prev_kv: None }).unwrap();
        assert_eq!((delete.revision, delete.change), (5, Change::Delete));
        assert_eq!(watch_event(PbEvent::default()), None);
    }
}
