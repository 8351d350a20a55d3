package requestpurgatory.bench;

import java.time.Instant;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.locks.LockSupport;

/**
 * The queue of the benchmark's loop in Python: a list for each millisecond, and a thread that wakes once in each.
 *
 * <p>Adding costs a look-up in a map instead of a place in a heap, and an answer needs no entry of its own.
 */
final class ListQueue implements CompletionQueue {
    private static final int NANOS_PER_MILLI = 1_000_000;

    /** Guarded by this, as is the next field. */
    private final Map<Long, List<Answer>> byMs = new HashMap<>();
    /** The last millisecond whose list the thread has taken. */
    private long finishedMs = System.currentTimeMillis();
    private final Thread thread = new Thread(this::completeWhatIsDue, "completer");
    private volatile boolean running = true;

    ListQueue() {
        thread.start();
    }

    @Override
    public void add(Answer answer) {
        if (!queued(answer)) {
            // The thread has passed that millisecond since the request was made.
            answer.complete();
        }
    }

    @Override
    public void close() throws InterruptedException {
        running = false;
        thread.join();
    }

    private synchronized boolean queued(Answer answer) {
        if (answer.dueMs() <= finishedMs) {
            return false;
        }
        byMs.computeIfAbsent(answer.dueMs(), ms -> new ArrayList<>()).add(answer);
        return true;
    }

    /** The answers of the next millisecond; {@code null} if it is after {@code nowMs}. */
    private synchronized List<Answer> takeNext(long nowMs) {
        if (finishedMs >= nowMs) {
            return null;
        }
        finishedMs++;
        List<Answer> due = byMs.remove(finishedMs);
        return due == null ? List.of() : due;
    }

    private void completeWhatIsDue() {
        while (running) {
            long nowMs = System.currentTimeMillis();
            for (List<Answer> due = takeNext(nowMs); due != null; due = takeNext(nowMs)) {
                due.forEach(Answer::complete);
            }
            // Until the next millisecond begins. A sleep of a whole one would lose the time of the work above.
            LockSupport.parkNanos(NANOS_PER_MILLI - Instant.now().getNano() % NANOS_PER_MILLI);
        }
    }
}
