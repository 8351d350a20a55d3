package requestpurgatory.bench;

import java.util.Random;

/** Delays in milliseconds, drawn before anything is measured and the same in every run. */
final class Delays {
    private static final long SEED = 1;

    private Delays() {
    }

    static int[] uniform(int count, int fromMs, int toMs) {
        return new Random(SEED).ints(count, fromMs, toMs + 1).toArray();
    }

    /** Far enough away that nothing comes due while it is measured. */
    static int[] pending(int count) {
        return uniform(count, 30_000, 90_000);
    }
}
