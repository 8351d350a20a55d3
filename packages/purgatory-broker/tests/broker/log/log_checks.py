"""What the tests of the log share: sizes, its segments, and refusals."""

from __future__ import annotations

import pytest

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.log.log import PartitionLog
from purgatory_broker.log.log_errors import RecordError
from purgatory_broker.log.segment import Segment

#: A segment of two or three batches of the tests.
SMALL = 250
EVERYTHING = 10**9


def refused(code: ErrorCode) -> pytest.RaisesExc[RecordError]:
    """Return a context manager that expects a RecordError with this code."""
    return pytest.raises(RecordError, check=lambda error: error.code is code)


def segments(log: PartitionLog) -> list[Segment]:
    """Return the segments of a log."""
    return list(log._segments)
