package requestpurgatory.bench;

import java.util.List;
import java.util.Locale;
import java.util.Map;

/**
 * The published benchmark of the purgatory, as Kafka's TestPurgatoryPerformance does it: requests with log-normal latencies are
 * enqueued by one thread, completed by a second one when their latency is over, and expired by the purgatory if that is later
 * than their timeout. See {@link PublishedRun}.
 *
 * <p>With {@code queue=list} the second thread has the queue of the benchmark's loop in Python. With {@code late_answers=1} it
 * gets the requests that expire before their answer comes, too.
 */
final class Published implements Question {
    private static final String LOW = "low";
    private static final String HIGH = "high";
    private static final String HEAP = "heap";
    private static final String LIST = "list";
    private static final String NO = "0";
    private static final String YES = "1";
    private static final int WARM_UP_REQUESTS = 200_000;
    /** A slower warm-up would take long, and leave less of the code compiled. */
    private static final int WARM_UP_MINIMUM_RATE = 100_000;

    private final int rate;
    private final int count;
    private final Workload.Case latency;
    private final int timeoutMs;
    private final int keys;
    private final int seed;
    private final CompletionQueue.Kind queueKind;
    private final boolean lateAnswers;

    Published(Params params) {
        rate = params.integer("rate", 0);
        count = params.integer("count", 2);
        latency = Workload.Case.valueOf(params.choice("case", List.of(LOW, HIGH)).toUpperCase(Locale.ROOT));
        timeoutMs = params.integerOr("timeout_ms", 1, 200);
        keys = params.integerOr("keys", 1, 3);
        seed = params.integerOr("seed", 0, 1);
        queueKind = CompletionQueue.Kind.valueOf(params.choiceOr("queue", List.of(HEAP, LIST), HEAP).toUpperCase(Locale.ROOT));
        lateAnswers = params.choiceOr("late_answers", List.of(NO, YES), NO).equals(YES);
    }

    @Override
    public Map<String, Number> measure(Side side) throws Exception {
        side.requirePurgatory();
        int warmUpRate = rate == 0 ? 0 : Math.max(rate, WARM_UP_MINIMUM_RATE);
        run(Workload.draw(WARM_UP_REQUESTS, warmUpRate, latency, seed));
        return run(Workload.draw(count, rate, latency, seed));
    }

    private Map<String, Number> run(Workload workload) throws Exception {
        System.gc();
        return new PublishedRun(workload, timeoutMs, keys, queueKind, lateAnswers).metrics();
    }
}
