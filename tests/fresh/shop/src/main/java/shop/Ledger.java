package shop;

import io.leasehold.LeaseholdClient;
import org.springframework.stereotype.Component;

/** Keeps the last booking, and who was first in the queue of the lock at that moment, as etcd saw it. */
@Component
public class Ledger {
    public record Entry(long token, long owner) {}

    private final LeaseholdClient client;
    private volatile Entry entry;

    public Ledger(LeaseholdClient client) {
        this.client = client;
    }

    public Entry entry() {
        return entry;
    }

    void book(long id, long token) {
        entry = new Entry(token, client.lock("order:" + id).queue().get(0).token());
    }
}
