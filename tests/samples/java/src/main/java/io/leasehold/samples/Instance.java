package io.leasehold.samples;

import io.etcd.jetcd.ByteSequence;
import io.etcd.jetcd.Client;
import io.etcd.jetcd.lease.LeaseKeepAliveResponse;
import io.grpc.stub.StreamObserver;
import io.leasehold.Guard;
import io.leasehold.LeaseholdClient;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;

/** One instance of a service: with jetcd's Lock client, or with leasehold. {@code acquire} and {@code release} on stdin. */
final class Instance {
    static final String NAME = "/lock/upgrade";
    static final Duration TTL = Duration.ofSeconds(5);

    private Instance() {}

    static void main(String kind, String endpoint) throws Exception {
        if (kind.equals("old")) {
            old(endpoint);
        } else {
            renewed(endpoint);
        }
        System.exit(0);
    }

    private interface Lock {
        /** Returns the key that stands for the hold. */
        String acquire() throws Exception;

        void release() throws Exception;
    }

    private static void serve(Lock lock) throws Exception {
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        String line;
        System.out.println("ready");
        while ((line = in.readLine()) != null) {
            if (line.equals("acquire")) {
                System.out.println("acquired " + lock.acquire());
            } else {
                lock.release();
                System.out.println("released");
            }
        }
    }

    private static void renewed(String endpoint) throws Exception {
        try (LeaseholdClient client = LeaseholdClient.builder(endpoint).ttl(TTL).build()) {
            serve(new Lock() {
                private Guard guard;

                @Override
                public String acquire() throws InterruptedException {
                    guard = client.lock(NAME).acquire();
                    return guard.key();
                }

                @Override
                public void release() {
                    guard.release();
                }
            });
        }
    }

    private static void old(String endpoint) throws Exception {
        try (Client client = Client.builder().endpoints(endpoint).build()) {
            long lease = client.getLeaseClient().grant(TTL.toSeconds()).get().getID();
            client.getLeaseClient().keepAlive(lease, new Ignore());
            serve(new Lock() {
                private ByteSequence key;

                @Override
                public String acquire() throws Exception {
                    ByteSequence name = ByteSequence.from(NAME, StandardCharsets.UTF_8);
                    key = client.getLockClient().lock(name, lease).get().getKey();
                    return key.toString(StandardCharsets.UTF_8);
                }

                @Override
                public void release() throws Exception {
                    client.getLockClient().unlock(key).get();
                }
            });
        }
    }

    private static final class Ignore implements StreamObserver<LeaseKeepAliveResponse> {
        @Override
        public void onNext(LeaseKeepAliveResponse response) {}

        @Override
        public void onError(Throwable error) {}

        @Override
        public void onCompleted() {}
    }
}
