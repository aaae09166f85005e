package flashsale;

import java.time.Duration;
import java.util.Map;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.http.HttpStatus;
import org.springframework.http.ResponseEntity;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.RequestParam;
import org.springframework.web.bind.annotation.RestController;

/**
 * {@code POST /buy/leasehold}: one purchase, under the lock of that name; {@code think} in milliseconds. {@code GET /stock/reduce} is the
 * same as readers of the article know it, under the lock of {@code ?lock=} or of the property {@code sale.lock}.
 */
@RestController
class SaleController {
    private final Map<String, SaleLock> locks;
    private final Sale sale;
    private final String usual;

    SaleController(Map<String, SaleLock> locks, Sale sale, @Value("${sale.lock}") String usual) {
        this.locks = locks;
        this.sale = sale;
        this.usual = usual;
    }

    @GetMapping("/stock/reduce")
    ResponseEntity<String> reduce(@RequestParam(required = false) String lock) {
        return buy(lock == null ? usual : lock, 0);
    }

    @PostMapping("/buy/{lock}")
    ResponseEntity<String> buy(@PathVariable String lock, @RequestParam(defaultValue = "0") long think) {
        SaleLock chosen = locks.get(lock);
        if (chosen == null) {
            return ResponseEntity.status(HttpStatus.NOT_FOUND).body("no lock " + lock + "; there are " + locks.keySet());
        }
        Outcome outcome = chosen.exclusively(warehouse -> sale.buy(warehouse, Duration.ofMillis(think)));
        return ResponseEntity.ok(outcome.name());
    }

    @GetMapping("/ready")
    String ready() {
        return "ready";
    }
}
