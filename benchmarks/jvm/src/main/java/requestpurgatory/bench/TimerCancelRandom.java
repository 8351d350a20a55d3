package requestpurgatory.bench;

import java.util.Arrays;
import java.util.Collections;
import java.util.Map;
import java.util.Random;

/** Cancel all pending tasks, in an order that has nothing to do with the one they were added in. */
final class TimerCancelRandom implements Question {
    private static final long SHUFFLE_SEED = 2;
    /** How long to wait for Netty's worker, which takes cancelled tasks out of the wheel, before calling them pending. */
    private static final long REMOVAL_NANOS = 10_000_000_000L;

    private final int count;

    TimerCancelRandom(Params params) {
        count = params.integer("count", 1);
    }

    @Override
    public Map<String, Number> measure(Side side) throws Exception {
        int[] delays = Delays.pending(count);
        return Rounds.measure(count, new Round() {
            private PeerTimer timer;
            private Object[] handles;

            @Override
            public void prepare() throws InterruptedException {
                timer = PeerTimer.of(side);
                handles = new Object[count];
                for (int i = 0; i < count; i++) {
                    handles[i] = timer.add(delays[i]);
                }
                timer.settle();
                Collections.shuffle(Arrays.asList(handles), new Random(SHUFFLE_SEED));
            }

            @Override
            public void run() {
                for (Object handle : handles) {
                    timer.cancel(handle);
                }
            }

            @Override
            public void settle() throws InterruptedException {
                long giveUp = System.nanoTime() + REMOVAL_NANOS;
                while (timer.pending() > 0 && System.nanoTime() < giveUp) {
                    Thread.sleep(1);
                }
            }

            @Override
            public void finish() {
                if (timer.pending() != 0) {
                    throw new IllegalStateException(timer.pending() + " of " + count + " are pending after cancelling all");
                }
                timer.close();
            }
        }).metrics();
    }
}
