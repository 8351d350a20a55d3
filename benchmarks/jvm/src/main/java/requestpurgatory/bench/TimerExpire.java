package requestpurgatory.bench;

import io.netty.util.HashedWheelTimer;
import io.netty.util.TimerTask;
import java.lang.reflect.Field;
import java.util.List;
import java.util.Map;
import java.util.concurrent.AbstractExecutorService;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.timer.SystemTimer;

/**
 * Tasks spread over a span of time, all expired without waiting for that time to pass. Timed is from the moment that they are
 * all due until the last has run.
 *
 * <p><b>Kafka.</b> SystemTimer reads the system's clock, but takes the time at which its wheel starts. Here that start lies a
 * span in the past and the tasks have negative delays: they fall into the wheel as tasks of the future do, all its buckets are
 * due by the clock, and a single {@code advanceClock(0)} walks the wheel through them in their order, moving tasks down from
 * wheel to wheel. All of it is Kafka's unchanged code. With {@code executor=direct} SystemTimer's one-thread executor is
 * replaced (by reflection) with one that runs tasks on the thread which advances the clock, as request-purgatory does; with
 * {@code executor=own}, the default, they are handed to SystemTimer's own thread.
 *
 * <p><b>Netty.</b> HashedWheelTimer measures time from the moment it was started. That moment (a private field) is moved into
 * the past, and the worker then goes through the ticks that it believes to have missed without sleeping. It runs tasks on the
 * worker thread itself. As on any HashedWheelTimer, each turn of the wheel visits every task that is still pending.
 */
final class TimerExpire implements Question {
    private static final String OWN = "own";
    private static final String DIRECT = "direct";
    /** Netty's tasks are due this much later, so that none is before all have been added. */
    private static final int NETTY_HEAD_START_MS = 3_000;
    private static final long LAST_TASK_WAIT_SECONDS = 120;

    private final int count;
    private final int spanMs;
    private final boolean direct;

    TimerExpire(Params params) {
        count = params.integer("count", 1);
        spanMs = params.integerOr("span_ms", 1, 60_000);
        direct = params.choiceOr("executor", List.of(OWN, DIRECT), OWN).equals(DIRECT);
    }

    @Override
    public Map<String, Number> measure(Side side) throws Exception {
        int[] deadlines = Delays.uniform(count, 1, spanMs);
        Round round = switch (side) {
            case KAFKA -> new KafkaRound(deadlines, spanMs, direct);
            case NETTY -> new NettyRound(deadlines, spanMs);
        };
        return Rounds.measure(count, round).metrics();
    }

    /** Counts the tasks that ran. All run on one thread, so a plain field does; the latch makes the last one visible. */
    private static final class Tally {
        private final CountDownLatch reached = new CountDownLatch(1);
        private final int expected;
        private int ran;

        Tally(int expected) {
            this.expected = expected;
        }

        void count() {
            if (++ran == expected) {
                reached.countDown();
            }
        }

        void await() throws InterruptedException {
            if (!reached.await(LAST_TASK_WAIT_SECONDS, TimeUnit.SECONDS)) {
                throw new IllegalStateException("only " + ran + " of " + expected + " tasks ran");
            }
        }

        /** To be called when no more can run. */
        void verify() {
            if (ran != expected) {
                throw new IllegalStateException(ran + " tasks ran, not " + expected);
            }
        }
    }

    private static final class CountingTask extends org.apache.kafka.server.util.timer.TimerTask {
        private final Tally tally;

        CountingTask(long delayMs, Tally tally) {
            super(delayMs);
            this.tally = tally;
        }

        @Override
        public void run() {
            tally.count();
        }
    }

    private static final class KafkaRound implements Round {
        private final int[] deadlines;
        private final int spanMs;
        private final boolean direct;
        private SystemTimer timer;
        private Tally tally;

        KafkaRound(int[] deadlines, int spanMs, boolean direct) {
            this.deadlines = deadlines;
            this.spanMs = spanMs;
            this.direct = direct;
        }

        @Override
        public void prepare() throws ReflectiveOperationException {
            long startMs = Time.SYSTEM.hiResClockMs() - spanMs - 1;
            timer = new SystemTimer("bench", 1, 20, startMs);
            if (direct) {
                Field executor = SystemTimer.class.getDeclaredField("taskExecutor");
                executor.setAccessible(true);
                ((ExecutorService) executor.get(timer)).shutdown();
                executor.set(timer, new DirectExecutor());
            }
            tally = new Tally(deadlines.length);
            for (int deadline : deadlines) {
                timer.add(new CountingTask(startMs + deadline - Time.SYSTEM.hiResClockMs(), tally));
            }
            // A deadline of at least one tick after the start is never due at once.
            if (timer.size() != deadlines.length) {
                throw new IllegalStateException(timer.size() + " of " + deadlines.length + " tasks are pending");
            }
        }

        @Override
        public void run() throws InterruptedException {
            timer.advanceClock(0);
            tally.await();
        }

        @Override
        public void finish() {
            timer.close();
            tally.verify();
        }
    }

    private static final class NettyRound implements Round {
        private final int[] deadlines;
        private final int spanMs;
        private HashedWheelTimer timer;
        private Tally tally;
        private Field startTime;

        NettyRound(int[] deadlines, int spanMs) {
            this.deadlines = deadlines;
            this.spanMs = spanMs;
        }

        @Override
        public void prepare() throws ReflectiveOperationException, InterruptedException {
            startTime = HashedWheelTimer.class.getDeclaredField("startTime");
            startTime.setAccessible(true);
            timer = NettyTimer.start();
            tally = new Tally(deadlines.length);
            TimerTask task = timeout -> tally.count();
            for (int deadline : deadlines) {
                timer.newTimeout(task, NETTY_HEAD_START_MS + deadline, TimeUnit.MILLISECONDS);
            }
            NettyTimer.settle(deadlines.length);
        }

        @Override
        public void run() throws ReflectiveOperationException, InterruptedException {
            if (timer.pendingTimeouts() != deadlines.length) {
                throw new IllegalStateException("tasks ran before the clock was advanced: " + timer.pendingTimeouts()
                    + " of " + deadlines.length + " are pending");
            }
            long jump = TimeUnit.MILLISECONDS.toNanos(NETTY_HEAD_START_MS + spanMs);
            startTime.setLong(timer, startTime.getLong(timer) - jump);
            tally.await();
        }

        @Override
        public void finish() {
            timer.stop();
            tally.verify();
        }
    }

    /** Runs what is submitted at once, on the caller's thread. */
    private static final class DirectExecutor extends AbstractExecutorService {
        private boolean shutDown;

        @Override
        public void execute(Runnable command) {
            command.run();
        }

        @Override
        public void shutdown() {
            shutDown = true;
        }

        @Override
        public List<Runnable> shutdownNow() {
            shutdown();
            return List.of();
        }

        @Override
        public boolean isShutdown() {
            return shutDown;
        }

        @Override
        public boolean isTerminated() {
            return shutDown;
        }

        @Override
        public boolean awaitTermination(long timeout, TimeUnit unit) {
            return shutDown;
        }
    }
}
