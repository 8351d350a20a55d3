package requestpurgatory.bench;

import java.util.Map;

/** Schedule a task and cancel it, with others pending: what a request that is answered in time costs the timer. */
final class TimerCycle implements Question {
    /** A power of two, so that the next delay is found with a mask. */
    private static final int DRAWN_DELAYS = 1 << 16;

    private final int pending;
    private final int operations;

    TimerCycle(Params params) {
        pending = params.integer("pending", 0);
        operations = params.integer("operations", 1);
    }

    @Override
    public Map<String, Number> measure(Side side) throws Exception {
        int[] delays = Delays.pending(DRAWN_DELAYS);
        try (PeerTimer timer = PeerTimer.of(side)) {
            for (int delay : Delays.pending(pending)) {
                timer.add(delay);
            }
            timer.settle();
            return Rounds.measure(operations, () -> cycle(timer, delays)).metrics();
        }
    }

    private void cycle(PeerTimer timer, int[] delays) {
        for (int i = 0; i < operations; i++) {
            timer.cancel(timer.add(delays[i & (DRAWN_DELAYS - 1)]));
        }
    }
}
