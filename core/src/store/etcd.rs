//! A real etcd cluster.
