package io.leasehold;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * One result of an operation, as the native library writes it into two arrays ({@code bindings-java/native/src/completions.rs}).
 *
 * @param last whether nothing more comes for this operation
 * @param kind what it brought, one of the constants
 * @param a the first number of that
 * @param b the second
 * @param c the third
 * @param first the first object of that
 * @param second the second
 */
record Completion(boolean last, int kind, long a, long b, long c, @Nullable Object first, @Nullable Object second) {
    /** Numbers and objects of each completion. */
    static final int NUMBERS = 6;

    static final int OBJECTS = 2;

    static final int FAILED = -1;
    static final int GUARD = 1;
    static final int LOST = 6;
    static final int LOG = 9;
    static final int OBSERVED = 11;

    private static final int CONTENDER_FIELDS = 12;

    /** Whether nothing more comes for the operation of this row. */
    static boolean isLast(long[] numbers, int row) {
        return numbers[row * NUMBERS + 1] != 0;
    }

    /** Takes the objects of a row out of the array, which is used again. */
    static void forget(@Nullable Object[] objects, int row) {
        objects[row * OBJECTS] = null;
        objects[row * OBJECTS + 1] = null;
    }

    /** A row of the two arrays. */
    static Completion of(long[] numbers, @Nullable Object[] objects, int row) {
        int number = row * NUMBERS;
        int object = row * OBJECTS;
        return new Completion(
                isLast(numbers, row),
                (int) numbers[number + 2],
                numbers[number + 3],
                numbers[number + 4],
                numbers[number + 5],
                objects[object],
                objects[object + 1]);
    }

    boolean isFailure() {
        return kind == FAILED;
    }

    boolean is(ErrorCode code) {
        return kind == FAILED && a == code.number();
    }

    /** The exception of a failure. Made where it is thrown, so that it shows the caller. */
    RuntimeException failure() {
        return LeaseholdException.of((int) a, (int) b, text(first));
    }

    static String text(@Nullable Object object) {
        return object == null ? "" : (String) object;
    }

    List<Contender> contenders() {
        String[] fields = first == null ? new String[0] : (String[]) first;
        List<Contender> contenders = new ArrayList<>(fields.length / CONTENDER_FIELDS);
        for (int at = 0; at < fields.length; at += CONTENDER_FIELDS) {
            String pid = fields[at + 5];
            contenders.add(new Contender(
                    fields[at],
                    Long.parseLong(fields[at + 1]),
                    fields[at + 2],
                    fields[at + 3],
                    fields[at + 4],
                    pid == null ? null : Long.valueOf(pid),
                    fields[at + 6],
                    fields[at + 7],
                    fields[at + 8] != null,
                    fields[at + 9],
                    Integer.parseInt(fields[at + 10]),
                    fields[at + 11] != null));
        }
        return List.copyOf(contenders);
    }

    /** Of a leader, and of what an observer sees. */
    Optional<Leader> leader() {
        if (first == null || second == null) {
            return Optional.empty();
        }
        return Optional.of(new Leader((String) first, a, (byte[]) second, b));
    }

    boolean isAfterGap() {
        return c != 0;
    }

    /** Of a guard: one key for each name. */
    List<String> keys() {
        return first instanceof String[] several ? List.of(several) : List.of(text(first));
    }

    Committed committed() {
        List<Optional<byte[]>> values = new ArrayList<>();
        if (first != null) {
            for (Object value : (Object[]) first) {
                values.add(Optional.ofNullable((byte[]) value));
            }
        }
        return new Committed(a, b, List.copyOf(values));
    }
}
