"""What a log refuses, and why."""

from __future__ import annotations

from request_purgatory.broker.wire.error_code import ErrorCode
from request_purgatory.errors import PurgatoryError


class RecordError(PurgatoryError):
    """Records that a log does not take, an offset that it does not have, or a disk that failed it.

    Attributes:
        code: Kafka's error code for it.
        faults: the records at fault, as (index in the batch, what is wrong), for `record_errors` of
            a produce response.
    """

    def __init__(
        self, code: ErrorCode, message: str, faults: tuple[tuple[int, str], ...] = ()
    ) -> None:
        super().__init__(message)
        self.code = code
        self.faults = faults

    def __reduce__(
        self,
    ) -> tuple[type[RecordError], tuple[ErrorCode, str, tuple[tuple[int, str], ...]]]:
        return type(self), (self.code, str(self), self.faults)


class NoBatchError(RecordError):
    """What should be the one batch of a partition is none, or more, or of an old format: Kafka finds that out before it looks for
    the log, and tells of no log start in its answer."""


def storage_error(doing: str, error: OSError) -> RecordError:
    """What the system said while `doing`, as the error that clients are answered with.

    They find another leader and try again.
    """
    return RecordError(ErrorCode.KAFKA_STORAGE_ERROR, f"{doing}: {error}")
