package requestpurgatory.bench;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.server.purgatory.DelayedOperationPurgatory;

/**
 * Several threads that share a purgatory's operations out among them, each watching one at a time and completing it. With fewer
 * keys than threads they meet in the same lists, and one may complete another's operation. The 512 shards are Kafka's.
 */
final class Contention implements Question {
    private static final double NANOS_PER_SECOND = 1e9;

    private final int threads;
    private final int keys;
    private final int operations;

    Contention(Params params) {
        threads = params.integer("threads", 1);
        keys = params.integer("keys", 1);
        operations = params.integer("operations", 1);
        if (operations % threads != 0) {
            throw new BadArgumentException("operations=" + operations + " is no multiple of threads=" + threads);
        }
    }

    @Override
    public Map<String, Number> measure(Side side) throws Exception {
        side.requirePurgatory();
        DelayedOperationPurgatory<FlaggedOperation> purgatory = FlaggedOperation.purgatory();
        ExecutorService executor = Executors.newFixedThreadPool(threads);
        List<Cycles> cyclesByThread = new ArrayList<>();
        for (int i = 0; i < threads; i++) {
            cyclesByThread.add(new Cycles(purgatory, FlaggedOperation.keys(keys), 1));
        }
        Rounds.Cost cost = Rounds.measure(operations, new Round() {
            @Override
            public void prepare() {
                FlaggedOperation.COMPLETED.reset();
            }

            @Override
            public void run() throws Exception {
                List<Future<?>> running = new ArrayList<>();
                for (int i = 0; i < threads; i++) {
                    Cycles cycles = cyclesByThread.get(i);
                    // Spread over the keys, so that the threads do not go round them in step.
                    int firstKey = (int) ((long) keys * i / threads);
                    running.add(executor.submit(() -> cycles.run(operations / threads, firstKey)));
                }
                for (Future<?> thread : running) {
                    thread.get();
                }
            }

            @Override
            public void finish() {
                if (FlaggedOperation.COMPLETED.sum() != operations) {
                    throw new IllegalStateException(FlaggedOperation.COMPLETED + " of " + operations + " were completed");
                }
            }
        });
        executor.shutdown();
        executor.awaitTermination(1, TimeUnit.MINUTES);
        purgatory.shutdown();
        return Map.of("operations_per_second", NANOS_PER_SECOND / cost.nanos());
    }
}
