package requestpurgatory.bench;

import java.util.function.Supplier;

/** Requests of the published benchmark that wait for their answer, and the thread that completes each of them when it is due. */
interface CompletionQueue {
    /** An answer on its way to a request. */
    interface Answer {
        /** The time of {@link System#currentTimeMillis} at which the answer comes. */
        long dueMs();

        /** Completes the request, unless it has ended already. */
        boolean complete();
    }

    /** The queues to choose from. */
    enum Kind {
        /** Kafka's own: a heap that wakes its thread for each answer. */
        HEAP(HeapQueue::new),
        /** That of the benchmark's loop in Python: a list for each millisecond. */
        LIST(ListQueue::new);

        private final Supplier<CompletionQueue> constructor;

        Kind(Supplier<CompletionQueue> constructor) {
            this.constructor = constructor;
        }

        CompletionQueue open() {
            return constructor.get();
        }
    }

    void add(Answer answer);

    /** Ends the thread; answers that have not come by then are dropped. */
    void close() throws InterruptedException;
}
