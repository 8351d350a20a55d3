package requestpurgatory.bench;

/**
 * What the timers of both sides can do: tasks that do nothing, added and cancelled.
 *
 * <p>A process measures one side, so only one class of these is ever loaded and the compiler inlines its methods as if there
 * were no interface.
 */
interface PeerTimer extends AutoCloseable {
    static PeerTimer of(Side side) {
        return switch (side) {
            case KAFKA -> new KafkaTimer();
            case NETTY -> new NettyTimer();
        };
    }

    /** Schedules a new task and returns what {@link #cancel} takes. */
    Object add(long delayMs);

    void cancel(Object handle);

    /** How many are pending by the timer's own count. */
    long pending();

    /** Waits until what was added is in the timer's buckets, if a thread of the timer puts it there. */
    default void settle() throws InterruptedException {
    }

    @Override
    void close();
}
