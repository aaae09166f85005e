import io.leasehold.*;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;

public class Main {
    public static void main(String[] arguments) throws Exception {
        @README@
    }
}
