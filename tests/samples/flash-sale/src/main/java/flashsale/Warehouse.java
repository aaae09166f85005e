package flashsale;

/**
 * The numbers of the sale in Redis: {@code stock}, what is left, and {@code lucky}, how many have bought.
 *
 * <p>Read, check and write are separate commands, as in any real service: nothing but a lock makes them one.
 */
interface Warehouse {
    /** What is left. */
    long stock();

    /** Overwrites what is left. */
    void putStock(long left);

    /** Counts one who has bought. */
    void addLucky();
}
