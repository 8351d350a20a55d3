package requestpurgatory.bench;

/** One repetition of a measurement; only {@link #run()} is timed on the clock. */
interface Round {
    default void prepare() throws Exception {
    }

    void run() throws Exception;

    /** Waits for what the run left to threads of the timer; the CPU time that this takes belongs to the run. */
    default void settle() throws Exception {
    }

    /** Checks the outcome and lets go of what {@link #prepare()} made. */
    default void finish() throws Exception {
    }
}
