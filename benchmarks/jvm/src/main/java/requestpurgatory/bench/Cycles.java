package requestpurgatory.bench;

import java.util.List;
import java.util.stream.Stream;
import org.apache.kafka.server.purgatory.DelayedOperationPurgatory;
import org.apache.kafka.server.purgatory.TopicPartitionOperationKey;

/** Operations that are watched and then completed by a check of their key. One thread uses one of these. */
final class Cycles {
    private final DelayedOperationPurgatory<FlaggedOperation> purgatory;
    private final TopicPartitionOperationKey[] keys;
    /** The list of keys that each operation passes, made beforehand: callers have theirs anyway. */
    private final List<List<TopicPartitionOperationKey>> watched;
    private final FlaggedOperation[] batch;

    Cycles(DelayedOperationPurgatory<FlaggedOperation> purgatory, TopicPartitionOperationKey[] keys, int watchers) {
        this.purgatory = purgatory;
        this.keys = keys;
        watched = Stream.of(keys).map(List::of).toList();
        batch = new FlaggedOperation[watchers];
    }

    /**
     * Goes round the keys: under each in turn, a batch of operations is watched, then satisfied, then completed by one check.
     */
    void run(int batches, int firstKey) {
        int key = firstKey;
        for (int i = 0; i < batches; i++) {
            for (int j = 0; j < batch.length; j++) {
                FlaggedOperation operation = new FlaggedOperation();
                purgatory.tryCompleteElseWatch(operation, watched.get(key));
                batch[j] = operation;
            }
            for (FlaggedOperation operation : batch) {
                operation.satisfy();
            }
            purgatory.checkAndComplete(keys[key]);
            if (++key == keys.length) {
                key = 0;
            }
        }
    }
}
