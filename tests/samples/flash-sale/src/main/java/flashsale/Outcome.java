package flashsale;

/** What came of one request to buy. */
enum Outcome {
    /** Paid and counted. */
    BOUGHT,
    /** Nothing was left. */
    SOLD_OUT,
    /** Redis refused a write: the lock had a newer owner. */
    FENCED,
    /** The lock was lost, or not to be had. */
    NO_LOCK
}
