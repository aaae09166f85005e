package shop;

import io.leasehold.spring.CurrentLock;
import io.leasehold.spring.Locked;
import org.springframework.stereotype.Service;
import org.springframework.transaction.annotation.Transactional;

@Service
public class Orders {
    private final Ledger ledger;

    public Orders(Ledger ledger) {
        this.ledger = ledger;
    }

    @README@
}
