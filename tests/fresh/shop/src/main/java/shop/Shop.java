package shop;

import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.RestController;

@SpringBootApplication
@RestController
public class Shop {
    private final Orders orders;
    private final Ledger ledger;

    public Shop(Orders orders, Ledger ledger) {
        this.orders = orders;
        this.ledger = ledger;
    }

    public static void main(String[] arguments) {
        SpringApplication.run(Shop.class, arguments);
    }

    @PostMapping("/pay/{id}")
    public Ledger.Entry pay(@PathVariable long id) {
        orders.pay(id);
        return ledger.entry();
    }
}
