package requestpurgatory.bench;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.LongAdder;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.purgatory.DelayedOperation;
import org.apache.kafka.server.purgatory.DelayedOperationPurgatory;
import org.apache.kafka.server.purgatory.TopicPartitionOperationKey;
import org.apache.kafka.server.util.timer.SystemTimer;

/**
 * One run of a workload through a purgatory.
 *
 * <p>As in Kafka's benchmark: all requests watch the same keys; only those which are to be completed before their timeout go to
 * the completing thread, unless late answers are asked for; arrivals are waited for in whole milliseconds, so that the requests
 * of one millisecond come together and a late enqueuer catches up. Other than there, a request is complete after its own latency
 * (the Java port of Kafka's benchmark sets the time of completion to the timeout), latencies and gaps are drawn beforehand, and
 * it is counted how each request ended.
 */
final class PublishedRun {
    private static final int REQUEST_BYTES = 100;
    private static final int PURGE_INTERVAL = 1000;
    private static final int TICK_MS = 1;
    private static final int WHEEL_SIZE = 20;
    private static final int SAMPLING_MS = 10;
    private static final long LAST_REQUEST_WAIT_SECONDS = 60;
    private static final double NANOS_PER_SECOND = 1e9;
    private static final double MILLIS_PER_SECOND = 1e3;

    private final Workload workload;
    private final int timeoutMs;
    private final List<TopicPartitionOperationKey> keys;
    private final DelayedOperationPurgatory<Request> purgatory = new DelayedOperationPurgatory<>(
        "bench", new SystemTimer("bench", TICK_MS, WHEEL_SIZE, Time.SYSTEM.hiResClockMs()), 0, PURGE_INTERVAL, true, true);
    private final CompletionQueue.Kind queueKind;
    private final boolean lateAnswers;
    private final CountDownLatch ended;
    private final LongAdder completed = new LongAdder();
    private final LongAdder expired = new LongAdder();
    private volatile boolean running = true;
    private int peakPending;

    /**
     * Prepares a run.
     *
     * @param lateAnswers whether requests whose latency is not below the timeout go to the queue, too. It refers to them until
     *     their latency is over, and then completes them in vain.
     */
    PublishedRun(Workload workload, int timeoutMs, int keys, CompletionQueue.Kind queueKind, boolean lateAnswers) {
        this.workload = workload;
        this.timeoutMs = timeoutMs;
        this.queueKind = queueKind;
        this.lateAnswers = lateAnswers;
        this.keys = List.of(FlaggedOperation.keys(keys));
        ended = new CountDownLatch(workload.count());
    }

    /** A request with some bytes that it holds on to, complete at a given time. */
    private final class Request extends DelayedOperation implements CompletionQueue.Answer {
        @SuppressWarnings("unused") // held, as a request's content is
        private final byte[] content = new byte[REQUEST_BYTES];
        private final long completesAt;

        Request(int latencyMs) {
            super(timeoutMs);
            completesAt = System.currentTimeMillis() + latencyMs;
        }

        @Override
        public long dueMs() {
            return completesAt;
        }

        /** Completes the request for another reason than its timeout, unless it has ended already. */
        @Override
        public boolean complete() {
            boolean byThisCall = forceComplete();
            if (byThisCall) {
                completed.increment();
            }
            return byThisCall;
        }

        @Override
        public boolean tryComplete() {
            return System.currentTimeMillis() >= completesAt && complete();
        }

        @Override
        public void onComplete() {
            ended.countDown();
        }

        @Override
        public void onExpiration() {
            expired.increment();
        }
    }

    /** Runs the workload and returns what it took. */
    Map<String, Number> metrics() throws Exception {
        Thread sampler = new Thread(this::samplePending, "sampler");
        CompletionQueue queue = queueKind.open();
        sampler.start();
        long cpuStart = ProcessUsage.cpuNanos();
        long collectionStart = ProcessUsage.collectionMillis();
        long start = System.nanoTime();
        double enqueueSeconds = enqueueAll(queue) / NANOS_PER_SECOND;
        if (!ended.await(LAST_REQUEST_WAIT_SECONDS, TimeUnit.SECONDS)) {
            throw new IllegalStateException(ended.getCount() + " of " + workload.count() + " requests did not end");
        }
        double totalSeconds = (System.nanoTime() - start) / NANOS_PER_SECOND;
        double cpuSeconds = (ProcessUsage.cpuNanos() - cpuStart) / NANOS_PER_SECOND;
        double collectionSeconds = (ProcessUsage.collectionMillis() - collectionStart) / MILLIS_PER_SECOND;
        running = false;
        queue.close();
        sampler.join();
        // Waits for the timer's executor too, which may still be about to count its last expiration.
        purgatory.shutdown();
        if (completed.sum() + expired.sum() != workload.count()) {
            throw new IllegalStateException(
                completed + " completed and " + expired + " expired, of " + workload.count() + " requests");
        }

        Map<String, Number> metrics = new LinkedHashMap<>();
        metrics.put("enqueue_rate", workload.count() / enqueueSeconds);
        metrics.put("enqueue_seconds", enqueueSeconds);
        metrics.put("total_seconds", totalSeconds);
        metrics.put("cpu_seconds", cpuSeconds);
        metrics.put("cpu_seconds_per_million", cpuSeconds / workload.count() * 1e6);
        metrics.put("gc_seconds", collectionSeconds);
        metrics.put("peak_pending", peakPending);
        metrics.put("completed", completed.sum());
        metrics.put("expired", expired.sum());
        metrics.put("peak_memory_bytes", ProcessUsage.peakResidentBytes());
        return metrics;
    }

    /** Enqueues all requests and returns the nanoseconds from the first one's arrival until the last is in. */
    private long enqueueAll(CompletionQueue queue) throws InterruptedException {
        long[] arrivals = workload.arrivals();
        long start = System.nanoTime();
        long first = start;
        for (int i = 0; i < workload.count(); i++) {
            if (arrivals != null) {
                waitUntil(start, arrivals[i]);
                if (i == 0) {
                    first = System.nanoTime();
                }
            }
            int latencyMs = workload.latencies()[i];
            Request request = new Request(latencyMs);
            if (lateAnswers || latencyMs < timeoutMs) {
                queue.add(request);
            }
            purgatory.tryCompleteElseWatch(request, keys);
        }
        return System.nanoTime() - first;
    }

    private static void waitUntil(long start, long arrival) throws InterruptedException {
        long millis = TimeUnit.NANOSECONDS.toMillis(arrival) - TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - start);
        if (millis > 0) {
            Thread.sleep(millis);
        }
    }

    private void samplePending() {
        try {
            while (running) {
                peakPending = Math.max(peakPending, purgatory.numDelayed());
                Thread.sleep(SAMPLING_MS);
            }
        } catch (InterruptedException error) {
            throw new IllegalStateException("nobody interrupts this thread", error);
        }
    }
}
