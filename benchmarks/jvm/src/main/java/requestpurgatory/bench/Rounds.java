package requestpurgatory.bench;

import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * Repeats a round until it is compiled and then some more times, and takes the median.
 *
 * <p>Before a measured round the heap is collected, so that each starts with what is pending in the old generation, where
 * long-lived timers are, and does not pay for the rubbish of the round before. Collections during the round do count.
 */
final class Rounds {
    /** Far beyond the optimising compiler's thresholds, also for code that is called once per operation only. */
    private static final long WARM_UP_OPERATIONS = 3_000_000;
    private static final int WARM_UP_ROUNDS = 3;
    /** Small rounds whose preparation is expensive (starting and joining a thread) stop warming up after this. */
    private static final long WARM_UP_NANOS = 4_000_000_000L;
    private static final int MEASURED_ROUNDS = 7;
    /** Less CPU time than this, in all measured rounds together, is lost in the steps in which it is read. */
    private static final long LEAST_CPU_NANOS = 350_000_000;

    private Rounds() {
    }

    /**
     * What an operation costs.
     *
     * @param nanos median over the rounds, on the clock
     * @param cpuNanos mean over the rounds, of all threads of the process together: with Netty the worker does a part of the
     *     work after the caller has gone on. The JVM reads it in steps of 10 ms: NaN if the rounds were too short for that.
     */
    record Cost(double nanos, double cpuNanos) {
        Map<String, Number> metrics() {
            Map<String, Number> metrics = new LinkedHashMap<>();
            metrics.put("ns_per_operation", nanos);
            if (!Double.isNaN(cpuNanos)) {
                metrics.put("cpu_ns_per_operation", cpuNanos);
            }
            return metrics;
        }
    }

    static Cost measure(long operationsPerRound, Round round) throws Exception {
        long warmUpEnds = System.nanoTime() + WARM_UP_NANOS;
        for (long done = 0, rounds = 0;
             rounds < WARM_UP_ROUNDS || done < WARM_UP_OPERATIONS && System.nanoTime() < warmUpEnds;
             rounds++, done += operationsPerRound) {
            round.prepare();
            round.run();
            round.settle();
            round.finish();
        }
        double[] nanos = new double[MEASURED_ROUNDS];
        long cpuNanos = 0;
        for (int i = 0; i < MEASURED_ROUNDS; i++) {
            round.prepare();
            System.gc();
            long cpuStart = ProcessUsage.cpuNanos();
            long start = System.nanoTime();
            round.run();
            nanos[i] = System.nanoTime() - start;
            round.settle();
            cpuNanos += ProcessUsage.cpuNanos() - cpuStart;
            round.finish();
        }
        Arrays.sort(nanos);
        return new Cost(
            nanos[MEASURED_ROUNDS / 2] / operationsPerRound,
            cpuNanos < LEAST_CPU_NANOS ? Double.NaN : (double) cpuNanos / MEASURED_ROUNDS / operationsPerRound);
    }
}
