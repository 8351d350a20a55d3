package requestpurgatory.bench;

import java.util.concurrent.atomic.LongAdder;
import org.apache.kafka.server.purgatory.DelayedOperation;
import org.apache.kafka.server.purgatory.DelayedOperationPurgatory;
import org.apache.kafka.server.purgatory.TopicPartitionOperationKey;
import org.apache.kafka.server.util.timer.SystemTimer;

/** An operation that is complete once its flag is set; the least that a purgatory can hold. */
final class FlaggedOperation extends DelayedOperation {
    /** Counted by whichever thread completes an operation. Static, so that no operation needs a field for it. */
    static final LongAdder COMPLETED = new LongAdder();

    /** Far enough away that nothing expires while it is measured. */
    private static final long TIMEOUT_MS = 60_000;

    /** Not volatile: the purgatory calls {@link #tryComplete} under the operation's lock, also after the flag was set. */
    private boolean satisfied;

    FlaggedOperation() {
        super(TIMEOUT_MS);
    }

    /** A purgatory as the broker makes them: SystemTimer with tick 1 ms and wheel size 20, 512 shards, the reaper running. */
    static DelayedOperationPurgatory<FlaggedOperation> purgatory() {
        return new DelayedOperationPurgatory<>("bench", new SystemTimer("bench"), 0, 1000, true, true);
    }

    /** The broker's own kind of key. */
    static TopicPartitionOperationKey[] keys(int count) {
        TopicPartitionOperationKey[] keys = new TopicPartitionOperationKey[count];
        for (int i = 0; i < count; i++) {
            keys[i] = new TopicPartitionOperationKey("bench", i);
        }
        return keys;
    }

    void satisfy() {
        satisfied = true;
    }

    @Override
    public boolean tryComplete() {
        return satisfied && forceComplete();
    }

    @Override
    public void onComplete() {
        COMPLETED.increment();
    }

    @Override
    public void onExpiration() {
        throw new IllegalStateException("an operation expired that was to be completed");
    }
}
