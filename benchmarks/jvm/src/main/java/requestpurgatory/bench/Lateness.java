package requestpurgatory.bench;

import io.netty.util.HashedWheelTimer;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.server.util.timer.SystemTimer;
import org.apache.kafka.server.util.timer.SystemTimerReaper;
import org.apache.kafka.server.util.timer.TimerTask;

/**
 * How long after its time a task runs, in real time: tasks are added over a second, each notes how far the clock is past the
 * moment of its adding plus its delay. Kafka's timer is driven by Kafka's own SystemTimerReaper and runs its tasks on its
 * executor; it may be early, because its wheel rounds down to the tick. Netty's tick is 1 ms too, and its worker runs the tasks.
 */
final class Lateness implements Question {
    private static final long ADDING_NANOS = TimeUnit.SECONDS.toNanos(1);
    private static final long LAST_TASK_WAIT_SECONDS = 30;
    private static final double NANOS_PER_MILLI = 1e6;

    private final int count;
    private final int timeoutMs;

    Lateness(Params params) {
        count = params.integer("count", 1);
        timeoutMs = params.integerOr("timeout_ms", 1, 200);
    }

    /** Adds an action to a timer, to be run after the question's delay. */
    private interface Adder {
        void add(Runnable action);
    }

    private static final class ActionTask extends TimerTask {
        private final Runnable action;

        ActionTask(long delayMs, Runnable action) {
            super(delayMs);
            this.action = action;
        }

        @Override
        public void run() {
            action.run();
        }
    }

    @Override
    public Map<String, Number> measure(Side side) throws Exception {
        return switch (side) {
            case KAFKA -> measureKafka();
            case NETTY -> measureNetty();
        };
    }

    private Map<String, Number> measureKafka() throws Exception {
        SystemTimer timer = new SystemTimer("bench");
        try (SystemTimerReaper driven = new SystemTimerReaper("bench-reaper", timer)) {
            return summary(action -> driven.add(new ActionTask(timeoutMs, action)));
        }
    }

    private Map<String, Number> measureNetty() throws InterruptedException {
        HashedWheelTimer timer = NettyTimer.start();
        try {
            return summary(action -> timer.newTimeout(timeout -> action.run(), timeoutMs, TimeUnit.MILLISECONDS));
        } finally {
            timer.stop();
        }
    }

    private Map<String, Number> summary(Adder timer) throws InterruptedException {
        // The first time is for class loading and the compiler.
        latenesses(timer);
        long[] nanos = latenesses(timer);
        Arrays.sort(nanos);
        Map<String, Number> metrics = new LinkedHashMap<>();
        metrics.put("lateness_mean_ms", Arrays.stream(nanos).average().orElseThrow() / NANOS_PER_MILLI);
        metrics.put("lateness_p99_ms", nanos[(int) Math.ceil(0.99 * count) - 1] / NANOS_PER_MILLI);
        metrics.put("lateness_max_ms", nanos[count - 1] / NANOS_PER_MILLI);
        metrics.put("lateness_min_ms", nanos[0] / NANOS_PER_MILLI);
        return metrics;
    }

    private long[] latenesses(Adder timer) throws InterruptedException {
        long[] nanos = new long[count];
        CountDownLatch ran = new CountDownLatch(count);
        long delayNanos = TimeUnit.MILLISECONDS.toNanos(timeoutMs);
        long start = System.nanoTime();
        for (int i = 0; i < count; i++) {
            long addAt = start + ADDING_NANOS * i / count;
            for (long wait; (wait = addAt - System.nanoTime()) > 0; ) {
                LockSupport.parkNanos(wait);
            }
            int task = i;
            long due = System.nanoTime() + delayNanos;
            timer.add(() -> {
                nanos[task] = System.nanoTime() - due;
                ran.countDown();
            });
        }
        if (!ran.await(LAST_TASK_WAIT_SECONDS + timeoutMs / 1000, TimeUnit.SECONDS)) {
            throw new IllegalStateException(ran.getCount() + " of " + count + " tasks did not run");
        }
        return nanos;
    }
}
