package io.leasehold;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/**
 * What the JDK's own tests ask of {@code ReentrantReadWriteLock}, as far as it makes sense for a lock of many processes, in words of
 * our own. docs/java-compatibility.md has the table: which case is which test here, and which is none.
 */
final class ConcurrentReadWriteLockTest {
    private static final int HOLDS = 20;

    private final LeaseholdClient client = LeaseholdClient.connect("memory://concurrent");
    private final String name = Etcd.name();
    private final LeaseholdLock read = client.readWriteLock(name).readLock();
    private final LeaseholdLock write = client.readWriteLock(name).writeLock();
    private final Contenders contenders = new Contenders(client.lock(name));

    @AfterEach
    void close() throws Exception {
        contenders.close();
        assertFalse(write.isLocked());
        client.close();
    }

    private void assertWrittenByMe() {
        assertTrue(write.isHeldByCurrentThread());
        assertEquals(List.of("mutex"), holders());
    }

    private List<String> holders() {
        return write.queue().stream().filter(Contender::holder).map(Contender::kind).toList();
    }

    private Object writeOnce() {
        write.lock();
        write.unlock();
        return null;
    }

    private Object readOnce() {
        read.lock();
        read.unlock();
        return null;
    }

    @Test
    void bothAreFreeAndCanBeTakenInTurn() {
        assertFalse(write.isHeldByCurrentThread());
        assertFalse(read.isHeldByCurrentThread());
        write.lock();
        assertWrittenByMe();
        write.unlock();
        read.lock();
        assertEquals(List.of("shared"), holders());
        assertFalse(write.isHeldByCurrentThread());
        read.unlock();
        assertEquals(List.of(), holders());
    }

    @Test
    void holdsOfEachAreCounted() {
        for (LeaseholdLock each : List.of(read, write)) {
            for (int hold = 1; hold <= HOLDS; hold++) {
                each.lock();
                assertEquals(hold, each.getHoldCount());
            }
            for (int hold = HOLDS; hold > 0; hold--) {
                each.unlock();
                assertEquals(hold - 1, each.getHoldCount());
            }
        }
    }

    @Test
    void whoHoldsNeitherCannotUnlock() {
        assertThrows(IllegalMonitorStateException.class, write::unlock);
        assertThrows(IllegalMonitorStateException.class, read::unlock);
    }

    @Test
    void whatCanBeInterruptedIs() throws Exception {
        write.lockInterruptibly();
        contenders.interrupted(write::lockInterruptibly);
        contenders.interrupted(() -> write.tryLock(2, TimeUnit.MINUTES));
        contenders.interrupted(read::lockInterruptibly);
        contenders.interrupted(() -> read.tryLock(2, TimeUnit.MINUTES));
        assertWrittenByMe();
        write.unlock();
        read.lockInterruptibly();
        contenders.interrupted(write::lockInterruptibly);
        read.unlock();
    }

    @Test
    void aTryOfAWriteNeedsItFree() throws Exception {
        assertTrue(write.tryLock());
        assertWrittenByMe();
        assertTrue(write.tryLock());
        assertEquals(false, contenders.elsewhere(() -> write.tryLock()));
        assertEquals(false, contenders.elsewhere(() -> write.tryLock(20, TimeUnit.MILLISECONDS)));
        write.unlock();
        write.unlock();
        read.lock();
        assertEquals(false, contenders.elsewhere(() -> write.tryLock()));
        read.unlock();
    }

    @Test
    void aTryOfAReadNeedsNobodyWhoWrites() throws Exception {
        write.lock();
        assertEquals(false, contenders.elsewhere(() -> read.tryLock()));
        assertEquals(false, contenders.elsewhere(() -> read.tryLock(20, TimeUnit.MILLISECONDS)));
        write.unlock();
        read.lock();
        assertEquals(true, contenders.elsewhere(() -> {
            boolean taken = read.tryLock();
            read.unlock();
            return taken;
        }));
        read.unlock();
    }

    @Test
    void manyReadAtOnce() throws Exception {
        read.lock();
        contenders.elsewhere(() -> {
            assertTrue(read.tryLock());
            read.unlock();
            assertTrue(read.tryLock(2, TimeUnit.MINUTES));
            read.unlock();
            return readOnce();
        });
        read.unlock();
    }

    @Test
    void aWriteWaitsForAllReads() throws Exception {
        read.lock();
        read.lock();
        contenders.elsewhere(this::readOnce);
        Contenders.Running<Object> writer = contenders.queue(this::writeOnce);
        assertEquals(List.of("shared"), holders());
        read.unlock();
        assertEquals(List.of("shared"), holders(), "one of two holds is left");
        assertFalse(writer.result().isDone());
        read.unlock();
        writer.await();
    }

    @Test
    void readsWaitForAWrite() throws Exception {
        write.lock();
        List<Contenders.Running<Object>> readers = new ArrayList<>();
        for (int reader = 0; reader < 2; reader++) {
            readers.add(contenders.queue(this::readOnce));
        }
        assertWrittenByMe();
        write.unlock();
        for (Contenders.Running<Object> reader : readers) {
            reader.await();
        }
    }

    @Test
    void aReaderDoesNotOvertakeAWriterThatWaits() throws Exception {
        List<String> order = new CopyOnWriteArrayList<>();
        read.lock();
        Contenders.Running<Boolean> writer = contenders.queue(() -> {
            write.lock();
            order.add("write");
            write.unlock();
            return true;
        });
        Contenders.Running<Boolean> reader = contenders.queue(() -> {
            read.lock();
            order.add("read");
            read.unlock();
            return true;
        });
        // Not even by a try, which the JDK lets in.
        assertEquals(false, contenders.elsewhere(() -> read.tryLock()));
        assertEquals(List.of(), order);
        read.unlock();
        writer.await();
        reader.await();
        assertEquals(List.of("write", "read"), order);
    }

    @Test
    void whoWritesMayReadWhoeverWaits() throws Exception {
        write.lock();
        assertTrue(read.tryLock());
        read.unlock();
        List<Contenders.Running<Object>> waiting = new ArrayList<>();
        waiting.add(contenders.queue(this::readOnce));
        waiting.add(contenders.queue(this::writeOnce));
        read.lock();
        read.unlock();
        assertWrittenByMe();
        write.lock();
        assertEquals(2, write.getHoldCount());
        write.unlock();
        assertEquals(1, write.getHoldCount());
        assertWrittenByMe();
        write.unlock();
        for (Contenders.Running<Object> each : waiting) {
            each.await();
        }
    }

    @Test
    void thereAreNoConditionsOfEither() {
        // The JDK's read lock has none either.
        assertThrows(UnsupportedOperationException.class, read::newCondition);
        assertThrows(UnsupportedOperationException.class, write::newCondition);
        assertTrue(read.toString().contains(name));
    }
}
