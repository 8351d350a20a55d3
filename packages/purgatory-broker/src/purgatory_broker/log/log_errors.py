"""The errors of a log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from purgatory_broker._wire.error_code import ErrorCode
from request_purgatory.errors import PurgatoryError


class RecordError(PurgatoryError):
    """Records that a log refuses, an offset that it does not have, or a failure of its disk.

    Attributes:
        code: Kafka's error code.
        record_errors: The invalid records, as (index in the batch, message), for the field of this
            name of a Produce response.
    """

    def __init__(
        self, code: ErrorCode, message: str, record_errors: tuple[tuple[int, str], ...] = ()
    ) -> None:
        super().__init__(message)
        self.code = code
        self.record_errors = record_errors

    def __reduce__(
        self,
    ) -> tuple[type[RecordError], tuple[ErrorCode, str, tuple[tuple[int, str], ...]]]:
        return type(self), (self.code, str(self), self.record_errors)


class BatchFormatError(RecordError):
    """A partition's records that are not exactly one batch of the current format.

    Kafka finds this error before it looks up the log, so its response has no log start offset.
    """


class StorageError(RecordError):
    """A failure of the log's disk, after which clients retry, possibly with another leader."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.KAFKA_STORAGE_ERROR, message)

    def __reduce__(self) -> tuple[type[StorageError], tuple[str]]:  # type: ignore[override]
        return type(self), (str(self),)


@contextmanager
def storage_errors(action: str) -> Iterator[None]:
    """Raise a StorageError, with what was to be done, where the block raises an OSError."""
    try:
        yield
    except OSError as error:
        raise StorageError(f"{action} failed: {error}") from error
