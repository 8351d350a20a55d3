package requestpurgatory.bench;

import java.util.concurrent.DelayQueue;
import java.util.concurrent.Delayed;
import java.util.concurrent.TimeUnit;

/** The queue of Kafka's own benchmark: a {@link DelayQueue} with an entry for each answer. */
final class HeapQueue implements CompletionQueue {
    private static final int POLL_MS = 100;

    private final DelayQueue<Entry> entries = new DelayQueue<>();
    private final Thread thread = new Thread(this::completeWhatIsDue, "completer");
    private volatile boolean running = true;

    HeapQueue() {
        thread.start();
    }

    private record Entry(Answer answer) implements Delayed {
        @Override
        public long getDelay(TimeUnit unit) {
            return unit.convert(answer.dueMs() - System.currentTimeMillis(), TimeUnit.MILLISECONDS);
        }

        @Override
        public int compareTo(Delayed other) {
            return Long.compare(answer.dueMs(), ((Entry) other).answer.dueMs());
        }
    }

    @Override
    public void add(Answer answer) {
        entries.add(new Entry(answer));
    }

    @Override
    public void close() throws InterruptedException {
        running = false;
        thread.join();
    }

    private void completeWhatIsDue() {
        try {
            while (running) {
                Entry due = entries.poll(POLL_MS, TimeUnit.MILLISECONDS);
                if (due != null) {
                    due.answer.complete();
                }
            }
        } catch (InterruptedException error) {
            throw new IllegalStateException("nobody interrupts this thread", error);
        }
    }
}
