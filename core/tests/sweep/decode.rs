//! What comes over the wire, as the store's requests, so that both doors know one request by the same name.

use etcd_client::proto::{
    PbCompare, PbLeaseGrantRequest, PbLeaseRevokeRequest, PbLeaseTimeToLiveRequest, PbRangeRequest, PbTargetUnion,
    PbTxnOpRequest, PbTxnRequest,
};
use leasehold::store::{CreateRevisionIs, Key, Keys, LeaseId, Op, Pick, Range, Request, Txn};
use prost::Message;

/// The request in `message`; `None` for a method that no lock needs.
pub fn request(method: &str, message: &[u8]) -> Option<Request> {
    Some(match method {
        "Txn" => Request::Txn(txn(decoded::<PbTxnRequest>(message))),
        "Range" => Request::Range(range(decoded::<PbRangeRequest>(message))),
        "LeaseGrant" => {
            let PbLeaseGrantRequest { id, ttl } = decoded(message);
            Request::LeaseGrant { lease: LeaseId(id), ttl }
        }
        "LeaseRevoke" => Request::LeaseRevoke { lease: LeaseId(decoded::<PbLeaseRevokeRequest>(message).id) },
        "LeaseTimeToLive" => {
            Request::LeaseTimeToLive { lease: LeaseId(decoded::<PbLeaseTimeToLiveRequest>(message).id) }
        }
        _ => return None,
    })
}

fn decoded<M: Message + Default>(message: &[u8]) -> M {
    M::decode(message).expect("the client speaks protobuf")
}

fn keys(key: Vec<u8>, end: Vec<u8>) -> Keys {
    Keys { key: Key::from(key), end: (!end.is_empty()).then(|| Key::from(end)) }
}

fn range(range: PbRangeRequest) -> Range {
    let pick = match (range.max_create_revision, range.sort_order) {
        (0, 0) => Pick::All,
        (0, _) => Pick::Newest,
        (until, _) => Pick::CreatedUntil(until),
    };
    Range { keys: keys(range.key, range.range_end), limit: range.limit, keys_only: range.keys_only, pick }
}

fn txn(txn: PbTxnRequest) -> Txn {
    let ops =
        |ops: Vec<etcd_client::proto::PbTxnRequestOp>| ops.into_iter().filter_map(|op| op.request).map(op).collect();
    Txn {
        conditions: txn.compare.into_iter().map(condition).collect(),
        then: ops(txn.success),
        otherwise: ops(txn.failure),
    }
}

fn condition(compare: PbCompare) -> CreateRevisionIs {
    let Some(PbTargetUnion::CreateRevision(revision)) = compare.target_union else {
        panic!("a condition on something else than create revisions: {compare:?}");
    };
    CreateRevisionIs { keys: keys(compare.key, compare.range_end), revision }
}

fn op(op: PbTxnOpRequest) -> Op {
    match op {
        PbTxnOpRequest::RequestPut(put) => Op::Put {
            key: Key::from(put.key),
            value: put.value.into(),
            lease: (put.lease != 0).then_some(LeaseId(put.lease)),
        },
        PbTxnOpRequest::RequestDeleteRange(delete) => Op::Delete(keys(delete.key, delete.range_end)),
        PbTxnOpRequest::RequestRange(read) => Op::Range(range(read)),
        PbTxnOpRequest::RequestTxn(inner) => Op::Txn(txn(inner)),
    }
}
