package requestpurgatory.bench;

import java.util.Map;

/** One question of the benchmark, with its parameters already read. */
interface Question {
    /**
     * Measures one side.
     *
     * @return metrics by name, in the order in which they are printed
     * @throws NotApplicableException if that side has nothing to measure here
     */
    Map<String, Number> measure(Side side) throws Exception;
}
