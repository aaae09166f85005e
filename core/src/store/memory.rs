//! A faithful etcd inside the process.
