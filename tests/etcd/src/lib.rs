//! Starts a real etcd for a test and ends it with the test.
