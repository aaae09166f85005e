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

/** The locks of one client of one product. */
interface Locks extends AutoCloseable {
    /** A lock for one thread. */
    Lock lock(String name) throws Exception;

    @Override
    void close();

    /** Connects a client, as a process has one. */
    @FunctionalInterface
    interface Product {
        Locks connect() throws Exception;
    }

    /** A lock, used by one thread. */
    interface Lock {
        void acquire() throws Exception;

        void release() throws Exception;
    }

    static Product leasehold(String endpoint) {
        return () -> {
            LeaseholdClient client = LeaseholdClient.connect(endpoint);
            return of(client::close, name -> {
                LeaseholdLock lock = client.lock(name);
                return new Lock() {
                    private Guard guard;

                    @Override
                    public void acquire() throws InterruptedException {
                        guard = lock.acquire();
                    }

                    @Override
                    public void release() {
                        guard.release();
                    }
                };
            });
        };
    }

    /** As it is best used: a lease for each contender, as its locks ask for, kept alive by jetcd. */
    static Product jetcd(String endpoint) {
        return () -> {
            Client client = Client.builder().endpoints(endpoint).build();
            return of(client::close, name -> {
                ByteSequence bytes = ByteSequence.from(name, StandardCharsets.UTF_8);
                long lease = client.getLeaseClient().grant(15).get().getID();
                client.getLeaseClient().keepAlive(lease, new Ignore());
                return new Lock() {
                    private ByteSequence key;

                    @Override
                    public void acquire() throws Exception {
                        key = client.getLockClient().lock(bytes, lease).get().getKey();
                    }

                    @Override
                    public void release() throws Exception {
                        client.getLockClient().unlock(key).get();
                    }
                };
            });
        };
    }

    static Product redisson(String address) {
        return () -> {
            Config config = new Config();
            config.useSingleServer().setAddress(address).setConnectionMinimumIdleSize(1).setConnectionPoolSize(4);
            config.setThreads(2).setNettyThreads(2);
            RedissonClient client = Redisson.create(config);
            return of(client::shutdown, name -> {
                RLock lock = client.getLock(name);
                return new Lock() {
                    @Override
                    public void acquire() {
                        lock.lock();
                    }

                    @Override
                    public void release() {
                        lock.unlock();
                    }
                };
            });
        };
    }

    static Product curator(String address) {
        return () -> {
            CuratorFramework client = CuratorFrameworkFactory.newClient(address, new RetryOneTime(100));
            client.start();
            return of(client::close, name -> {
                InterProcessMutex lock = new InterProcessMutex(client, name);
                return new Lock() {
                    @Override
                    public void acquire() throws Exception {
                        lock.acquire();
                    }

                    @Override
                    public void release() throws Exception {
                        lock.release();
                    }
                };
            });
        };
    }

    /** Makes locks. */
    @FunctionalInterface
    interface Maker {
        Lock make(String name) throws Exception;
    }

    private static Locks of(Runnable close, Maker maker) {
        return new Locks() {
            @Override
            public Lock lock(String name) throws Exception {
                return maker.make(name);
            }

            @Override
            public void close() {
                close.run();
            }
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
