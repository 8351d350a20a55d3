package requestpurgatory.bench;

import java.util.Map;
import org.apache.kafka.server.purgatory.DelayedOperationPurgatory;

/**
 * An operation's way through the purgatory: made, watched, completed by a check of its key, by one thread.
 *
 * <p>The reaper runs, as in a broker, and purges what it finds every 1,000 completed operations. There is little to find here,
 * because a check takes the operations that it completes out of the list.
 */
final class PurgatoryCycle implements Question {
    private final int keys;
    private final int watchers;
    private final int operations;

    PurgatoryCycle(Params params) {
        keys = params.integer("keys", 1);
        watchers = params.integer("watchers", 1);
        operations = params.integer("operations", 1);
        if (operations % watchers != 0) {
            throw new BadArgumentException("operations=" + operations + " is no multiple of watchers=" + watchers);
        }
    }

    @Override
    public Map<String, Number> measure(Side side) throws Exception {
        side.requirePurgatory();
        DelayedOperationPurgatory<FlaggedOperation> purgatory = FlaggedOperation.purgatory();
        Cycles cycles = new Cycles(purgatory, FlaggedOperation.keys(keys), watchers);
        Rounds.Cost cost = Rounds.measure(operations, new Round() {
            @Override
            public void prepare() {
                FlaggedOperation.COMPLETED.reset();
            }

            @Override
            public void run() {
                cycles.run(operations / watchers, 0);
            }

            @Override
            public void finish() {
                if (FlaggedOperation.COMPLETED.sum() != operations) {
                    throw new IllegalStateException(FlaggedOperation.COMPLETED + " of " + operations + " were completed");
                }
            }
        });
        purgatory.shutdown();
        return cost.metrics();
    }
}
