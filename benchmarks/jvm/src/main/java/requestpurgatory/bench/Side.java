package requestpurgatory.bench;

import java.util.Arrays;
import java.util.List;
import java.util.Locale;

/** Whose classes are measured. */
enum Side {
    KAFKA,
    NETTY;

    static Side named(String name) {
        return Arrays.stream(values())
            .filter(side -> side.label().equals(name))
            .findFirst()
            .orElseThrow(() -> new BadArgumentException("side '" + name + "' is none of " + names()));
    }

    static List<String> names() {
        return Arrays.stream(values()).map(Side::label).toList();
    }

    private String label() {
        return name().toLowerCase(Locale.ROOT);
    }

    /** Lets a question go on that only Kafka's classes can answer. */
    void requirePurgatory() {
        if (this != KAFKA) {
            throw new NotApplicableException(label() + " has timers but no purgatory");
        }
    }
}
