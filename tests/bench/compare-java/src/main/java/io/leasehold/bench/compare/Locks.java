package io.leasehold.bench.compare;

import io.etcd.jetcd.ByteSequence;
import io.etcd.jetcd.Client;
import io.etcd.jetcd.lease.LeaseKeepAliveResponse;
import io.grpc.stub.StreamObserver;
import io.leasehold.Guard;
import io.leasehold.LeaseholdClient;
import io.leasehold.LeaseholdLock;
import java.nio.charset.StandardCharsets;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.RetryOneTime;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/** A lock as each product has it: a client of its own, and the lock of one name, used by one thread. */
interface Locks extends AutoCloseable {
    void acquire() throws Exception;

    void release() throws Exception;

    @Override
    void close();

    /** Makes one, with a client of its own. */
    @FunctionalInterface
    interface Maker {
        Locks make(String name) throws Exception;
    }

    static Maker leasehold(String endpoint) {
        return name -> {
            LeaseholdClient client = LeaseholdClient.connect(endpoint);
            LeaseholdLock lock = client.lock(name);
            return new Locks() {
                private Guard guard;

                @Override
                public void acquire() throws InterruptedException {
                    guard = lock.acquire();
                }

                @Override
                public void release() {
                    guard.release();
                }

                @Override
                public void close() {
                    client.close();
                }
            };
        };
    }

    /** As it is best used: one lease for the client, kept alive by jetcd. */
    static Maker jetcd(String endpoint) {
        return name -> {
            Client client = Client.builder().endpoints(endpoint).build();
            long lease = client.getLeaseClient().grant(15).get().getID();
            client.getLeaseClient().keepAlive(lease, new Ignore());
            ByteSequence bytes = ByteSequence.from(name, StandardCharsets.UTF_8);
            return new Locks() {
                private ByteSequence key;

                @Override
                public void acquire() throws Exception {
                    key = client.getLockClient().lock(bytes, lease).get().getKey();
                }

                @Override
                public void release() throws Exception {
                    client.getLockClient().unlock(key).get();
                }

                @Override
                public void close() {
                    client.close();
                }
            };
        };
    }

    static Maker redisson(String address) {
        return name -> {
            Config config = new Config();
            config.useSingleServer().setAddress(address).setConnectionMinimumIdleSize(1).setConnectionPoolSize(4);
            config.setThreads(2).setNettyThreads(2);
            RedissonClient client = Redisson.create(config);
            RLock lock = client.getLock(name);
            return new Locks() {
                @Override
                public void acquire() {
                    lock.lock();
                }

                @Override
                public void release() {
                    lock.unlock();
                }

                @Override
                public void close() {
                    client.shutdown();
                }
            };
        };
    }

    static Maker curator(String address) {
        return name -> {
            CuratorFramework client = CuratorFrameworkFactory.newClient(address, new RetryOneTime(100));
            client.start();
            InterProcessMutex lock = new InterProcessMutex(client, name);
            return new Locks() {
                @Override
                public void acquire() throws Exception {
                    lock.acquire();
                }

                @Override
                public void release() throws Exception {
                    lock.release();
                }

                @Override
                public void close() {
                    client.close();
                }
            };
        };
    }

    /** What jetcd tells about renewals. */
    final class Ignore implements StreamObserver<LeaseKeepAliveResponse> {
        @Override
        public void onNext(LeaseKeepAliveResponse response) {}

        @Override
        public void onError(Throwable error) {}

        @Override
        public void onCompleted() {}
    }
}
