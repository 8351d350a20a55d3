package requestpurgatory.bench;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** The {@code key=value} arguments of a question. Every one has to be read, so that a misspelt name does not pass unnoticed. */
final class Params {
    private final Map<String, String> unread = new LinkedHashMap<>();

    Params(List<String> arguments) {
        for (String argument : arguments) {
            int equals = argument.indexOf('=');
            if (equals <= 0) {
                throw new BadArgumentException("argument '" + argument + "' is not of the form key=value");
            }
            String name = argument.substring(0, equals);
            if (unread.put(name, argument.substring(equals + 1)) != null) {
                throw new BadArgumentException("parameter '" + name + "' is given twice");
            }
        }
    }

    /** A whole number from {@code minimum} up to what an int holds, since counts are sizes of arrays here. */
    int integer(String name, int minimum) {
        String value = unread.remove(name);
        if (value == null) {
            throw new BadArgumentException("parameter '" + name + "' is missing");
        }
        return parsed(name, value, minimum);
    }

    int integerOr(String name, int minimum, int fallback) {
        String value = unread.remove(name);
        return value == null ? fallback : parsed(name, value, minimum);
    }

    String choice(String name, List<String> choices) {
        String value = unread.remove(name);
        if (value == null) {
            throw new BadArgumentException("parameter '" + name + "' is missing; it is one of " + choices);
        }
        return chosen(name, value, choices);
    }

    String choiceOr(String name, List<String> choices, String fallback) {
        String value = unread.remove(name);
        return value == null ? fallback : chosen(name, value, choices);
    }

    void rejectUnread() {
        if (!unread.isEmpty()) {
            throw new BadArgumentException("this question has no parameter " + unread.keySet());
        }
    }

    private static String chosen(String name, String value, List<String> choices) {
        if (!choices.contains(value)) {
            throw new BadArgumentException(name + "=" + value + " is none of " + choices);
        }
        return value;
    }

    private static int parsed(String name, String value, int minimum) {
        try {
            int number = Integer.parseInt(value);
            if (number >= minimum) {
                return number;
            }
        } catch (NumberFormatException error) {
            // answered below, with the same message as a number out of range
        }
        throw new BadArgumentException(name + "=" + value + " is not a whole number of at least " + minimum);
    }
}
