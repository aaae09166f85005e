package flashsale;

import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;

/** A shop with one article, sold by several instances of this service from one stock in Redis. */
@SpringBootApplication
public class FlashSaleApplication {
    public static void main(String[] arguments) {
        SpringApplication.run(FlashSaleApplication.class, arguments);
    }
}
