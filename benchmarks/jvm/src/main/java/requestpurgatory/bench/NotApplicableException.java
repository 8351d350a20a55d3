package requestpurgatory.bench;

/** The side asked about has no such feature. */
final class NotApplicableException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    NotApplicableException(String message) {
        super(message);
    }
}
