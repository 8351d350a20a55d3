package requestpurgatory.bench;

import java.lang.ref.Reference;
import java.util.List;
import java.util.Map;
import org.apache.kafka.server.purgatory.DelayedOperationPurgatory;
import org.apache.kafka.server.purgatory.TopicPartitionOperationKey;

/**
 * Bytes of heap that one pending timer task, or one pending operation watched under one of some shared keys, takes with all that
 * belongs to it: the growth of the reachable heap, over the count. Nobody but the timer holds the tasks.
 */
final class Memory implements Question {
    private static final String HANDLE = "handle";
    private static final String OPERATION = "operation";

    private final int count;
    private final int keys;
    private final boolean operations;

    Memory(Params params) {
        count = params.integer("count", 1);
        keys = params.integerOr("keys", 1, 1);
        operations = params.choice("kind", List.of(HANDLE, OPERATION)).equals(OPERATION);
    }

    @Override
    public Map<String, Number> measure(Side side) throws Exception {
        if (operations) {
            side.requirePurgatory();
        }
        long grown = operations ? pendingOperations() : pendingHandles(side);
        return Map.of("bytes_per_pending", (double) grown / count);
    }

    private long pendingHandles(Side side) throws InterruptedException {
        int[] delays = Delays.pending(count);
        try (PeerTimer timer = PeerTimer.of(side)) {
            warmUp(timer);
            long before = ProcessUsage.reachableHeapBytes();
            for (int delay : delays) {
                timer.add(delay);
            }
            timer.settle();
            long grown = ProcessUsage.reachableHeapBytes() - before;
            verify(timer.pending());
            Reference.reachabilityFence(delays);
            return grown;
        }
    }

    /** Has the classes loaded and the wheels made that are needed whatever the count. */
    private static void warmUp(PeerTimer timer) throws InterruptedException {
        timer.cancel(timer.add(Delays.pending(1)[0]));
        timer.settle();
    }

    private long pendingOperations() throws Exception {
        DelayedOperationPurgatory<FlaggedOperation> purgatory = FlaggedOperation.purgatory();
        TopicPartitionOperationKey[] shared = FlaggedOperation.keys(keys);
        new Cycles(purgatory, shared, 1).run(1, 0);
        long before = ProcessUsage.reachableHeapBytes();
        for (int i = 0; i < count; i++) {
            purgatory.tryCompleteElseWatch(new FlaggedOperation(), List.of(shared[i % keys]));
        }
        long grown = ProcessUsage.reachableHeapBytes() - before;
        verify(purgatory.numDelayed());
        Reference.reachabilityFence(shared);
        return grown;
    }

    private void verify(long pending) {
        if (pending != count) {
            throw new IllegalStateException(pending + " are pending, not " + count);
        }
    }
}
