package requestpurgatory.bench;

import java.util.Map;

/**
 * Add tasks to a fresh timer and keep them all; making the task object is part of it. Netty's worker runs, so its first tasks
 * expire meanwhile: some hundredths of a percent for each 10 ms that the adding takes.
 */
final class TimerAdd implements Question {
    private final int count;

    TimerAdd(Params params) {
        count = params.integer("count", 1);
    }

    @Override
    public Map<String, Number> measure(Side side) throws Exception {
        int[] delays = Delays.uniform(count, 1, 60_000);
        return Rounds.measure(count, new Round() {
            private PeerTimer timer;

            @Override
            public void prepare() {
                timer = PeerTimer.of(side);
            }

            @Override
            public void run() {
                for (int delay : delays) {
                    timer.add(delay);
                }
            }

            @Override
            public void settle() throws InterruptedException {
                timer.settle();
            }

            @Override
            public void finish() {
                timer.close();
            }
        }).metrics();
    }
}
