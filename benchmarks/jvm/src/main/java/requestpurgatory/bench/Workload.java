package requestpurgatory.bench;

import java.util.Random;

/**
 * When the requests of the published benchmark arrive and how long each takes, drawn beforehand.
 *
 * @param arrivals nanoseconds after the start; {@code null} if each arrives as soon as the one before is enqueued
 * @param latencies milliseconds until the request is complete
 */
record Workload(long[] arrivals, int[] latencies) {
    /** The 75th percentile of the standard normal distribution. */
    private static final double NORMAL_75TH_PERCENTILE = 0.6744897501960817;
    private static final double NANOS_PER_SECOND = 1e9;

    /** The published cases: median and 75th percentile of a log-normal latency, in milliseconds. */
    enum Case {
        LOW(20, 60),
        HIGH(200, 400);

        private final double median;
        private final double percentile75;

        Case(double median, double percentile75) {
            this.median = median;
            this.percentile75 = percentile75;
        }
    }

    /** Draws a Poisson process of {@code rate} requests a second, or an unthrottled sequence for a rate of 0. */
    static Workload draw(int count, int rate, Case latency, long seed) {
        Random random = new Random(seed);
        double mu = Math.log(latency.median);
        double sigma = (Math.log(latency.percentile75) - mu) / NORMAL_75TH_PERCENTILE;
        int[] latencies = new int[count];
        for (int i = 0; i < count; i++) {
            // Whole milliseconds as in Kafka's benchmark; the cast keeps what is beyond an int at its maximum.
            latencies[i] = (int) Math.exp(mu + sigma * random.nextGaussian());
        }
        if (rate == 0) {
            return new Workload(null, latencies);
        }
        long[] arrivals = new long[count];
        double arrival = 0;
        for (int i = 0; i < count; i++) {
            arrival -= Math.log(1 - random.nextDouble()) * NANOS_PER_SECOND / rate;
            arrivals[i] = (long) arrival;
        }
        return new Workload(arrivals, latencies);
    }

    int count() {
        return latencies.length;
    }
}
