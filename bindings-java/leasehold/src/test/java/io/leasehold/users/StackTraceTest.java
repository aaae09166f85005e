package io.leasehold.users;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.leasehold.Guard;
import io.leasehold.InvalidArgumentException;
import io.leasehold.LeaseholdClient;
import java.util.Arrays;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import org.junit.jupiter.api.Test;

/** What users see of a failure: where they called, in another package than ours. */
final class StackTraceTest {
    @Test
    void failuresShowTheCaller() throws Exception {
        try (LeaseholdClient client = LeaseholdClient.connect("memory://traces")) {
            CompletableFuture<Guard> future = client.lock("").acquireAsync();
            Throwable later = assertThrows(ExecutionException.class, future::get).getCause();
            assertEquals(getClass().getName(), later.getStackTrace()[0].getClassName());
            assertEquals("failuresShowTheCaller", later.getStackTrace()[0].getMethodName());
            Throwable blocking = assertThrows(InvalidArgumentException.class, client.lock("")::acquire);
            assertTrue(Arrays.stream(blocking.getStackTrace())
                    .anyMatch(frame -> frame.getMethodName().equals("failuresShowTheCaller")));
        }
    }
}
