/** A distributed lock for etcd: leases, fencing tokens, first come first served. */
@org.jspecify.annotations.NullMarked
module io.leasehold {
    requires static transitive org.jspecify;

    exports io.leasehold;
}
