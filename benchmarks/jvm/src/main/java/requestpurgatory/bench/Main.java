package requestpurgatory.bench;

import java.util.Arrays;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Function;
import java.util.stream.Collectors;

/** Answers one question about one side and prints the metrics as one line of JSON. */
public final class Main {
    private static final int EXIT_FAILED = 1;
    private static final int EXIT_BAD_ARGUMENT = 2;
    private static final int EXIT_NOT_APPLICABLE = 3;

    private static final Map<String, Function<Params, Question>> QUESTIONS = new TreeMap<>(Map.of(
        "timer_cycle", TimerCycle::new,
        "timer_add", TimerAdd::new,
        "timer_cancel_random", TimerCancelRandom::new,
        "timer_expire", TimerExpire::new,
        "purgatory_cycle", PurgatoryCycle::new,
        "memory", Memory::new,
        "published", Published::new,
        "contention", Contention::new,
        "lateness", Lateness::new));

    private Main() {
    }

    public static void main(String[] arguments) {
        // Kafka's executor threads are no daemons, so the process is ended explicitly.
        System.exit(run(arguments));
    }

    private static int run(String[] arguments) {
        try {
            System.out.println(json(answer(arguments)));
            return 0;
        } catch (BadArgumentException error) {
            System.err.println(error.getMessage());
            return EXIT_BAD_ARGUMENT;
        } catch (NotApplicableException error) {
            System.err.println("not applicable: " + error.getMessage());
            return EXIT_NOT_APPLICABLE;
        } catch (Throwable error) {
            error.printStackTrace();
            return EXIT_FAILED;
        }
    }

    private static Map<String, Number> answer(String[] arguments) throws Exception {
        if (arguments.length < 2) {
            throw new BadArgumentException("usage: Main <question> <side> [key=value ...], with a question of "
                + QUESTIONS.keySet() + " and a side of " + Side.names());
        }
        Function<Params, Question> question = QUESTIONS.get(arguments[0]);
        if (question == null) {
            throw new BadArgumentException("question '" + arguments[0] + "' is none of " + QUESTIONS.keySet());
        }
        Side side = Side.named(arguments[1]);
        Params params = new Params(Arrays.asList(arguments).subList(2, arguments.length));
        Question asked = question.apply(params);
        params.rejectUnread();
        return asked.measure(side);
    }

    private static String json(Map<String, Number> metrics) {
        return metrics.entrySet().stream()
            .map(metric -> "\"" + metric.getKey() + "\": " + number(metric.getKey(), metric.getValue()))
            .collect(Collectors.joining(", ", "{", "}"));
    }

    private static String number(String metric, Number value) {
        if (!Double.isFinite(value.doubleValue())) {
            throw new IllegalStateException(metric + " is " + value + ", which is no number that JSON knows");
        }
        return value.toString();
    }
}
