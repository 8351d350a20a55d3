package requestpurgatory.bench;

/** A command line that can't be understood; the message names the value. */
final class BadArgumentException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    BadArgumentException(String message) {
        super(message);
    }
}
