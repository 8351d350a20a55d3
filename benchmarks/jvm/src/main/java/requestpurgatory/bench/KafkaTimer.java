package requestpurgatory.bench;

import org.apache.kafka.server.util.timer.SystemTimer;
import org.apache.kafka.server.util.timer.TimerTask;

/** Kafka's SystemTimer with its usual settings (tick 1 ms, wheel size 20). Its clock stands still: nobody advances it. */
final class KafkaTimer implements PeerTimer {
    private final SystemTimer timer = new SystemTimer("bench");

    /** The smallest task there can be: a subclass without fields. */
    private static final class IdleTask extends TimerTask {
        IdleTask(long delayMs) {
            super(delayMs);
        }

        @Override
        public void run() {
        }
    }

    @Override
    public Object add(long delayMs) {
        IdleTask task = new IdleTask(delayMs);
        timer.add(task);
        return task;
    }

    @Override
    public void cancel(Object handle) {
        ((IdleTask) handle).cancel();
    }

    @Override
    public long pending() {
        return timer.size();
    }

    @Override
    public void close() {
        timer.close();
    }
}
