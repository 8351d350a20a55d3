package requestpurgatory.bench;

import io.netty.util.HashedWheelTimer;
import io.netty.util.Timeout;
import io.netty.util.TimerTask;
import java.util.concurrent.TimeUnit;

/**
 * Netty's HashedWheelTimer with a tick of 1 ms, as Kafka's timer has it (Netty's default is 100 ms), and the default wheel of
 * 512 ticks. Its worker thread runs: it is that thread which moves added and cancelled tasks in and out of the wheel.
 */
final class NettyTimer implements PeerTimer {
    /** How many new tasks the worker takes over per tick; a constant inside HashedWheelTimer. */
    private static final int TAKEN_PER_TICK = 100_000;
    /** One task for all: what a caller gets from Netty is the Timeout that is made for it. */
    private static final TimerTask IDLE = timeout -> { };

    private final HashedWheelTimer timer = start();

    static HashedWheelTimer start() {
        HashedWheelTimer timer = new HashedWheelTimer(
            Thread::new, 1, TimeUnit.MILLISECONDS, 512, false);
        timer.start();
        return timer;
    }

    /** Waits for as many ticks as the worker needs to take over so many new tasks, and a few more. */
    static void settle(long added) throws InterruptedException {
        Thread.sleep(50 + 5 * (added / TAKEN_PER_TICK));
    }

    @Override
    public Object add(long delayMs) {
        return timer.newTimeout(IDLE, delayMs, TimeUnit.MILLISECONDS);
    }

    @Override
    public void cancel(Object handle) {
        ((Timeout) handle).cancel();
    }

    @Override
    public long pending() {
        return timer.pendingTimeouts();
    }

    @Override
    public void settle() throws InterruptedException {
        settle(pending());
    }

    @Override
    public void close() {
        timer.stop();
    }
}
