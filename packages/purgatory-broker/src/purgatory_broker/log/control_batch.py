"""Control batches: the markers that end transactions, as Kafka's `EndTransactionMarker` has them.

A marker is a batch of one record. Consumers skip the record, but its offset counts.

    key    2 bytes  version, 0             value  2 bytes  version, 0
           2 bytes  0 abort, 1 commit             4 bytes  the coordinator's epoch
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from purgatory_broker.log.batch import CONTROL, TRANSACTIONAL, BatchHeader, Buffer
from purgatory_broker.log.log_errors import RecordError
from purgatory_broker.log.record import build_batch, read_records
from purgatory_broker.log.transaction_marker import TransactionMarker

_VERSION = 0
_ABORT, _COMMIT = 0, 1
_KEY = struct.Struct(">hh")
_VALUE = struct.Struct(">hi")


class EndMarker(NamedTuple):
    is_commit: bool
    coordinator_epoch: int


def marker_batch(marker: TransactionMarker, now_ms: int) -> bytes:
    key = _KEY.pack(_VERSION, _COMMIT if marker.is_commit else _ABORT)
    return build_batch(
        [(key, _VALUE.pack(_VERSION, marker.coordinator_epoch))],
        now_ms,
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        attributes=TRANSACTIONAL | CONTROL,
    )


def read_end_marker(header: BatchHeader, batch: Buffer) -> EndMarker | None:
    """Return the marker in a control batch; None if it is another one, or invalid."""
    try:
        record = next(read_records(header, batch), None)
    except RecordError:
        return None
    if record is None:
        return None
    key, value = record.key or b"", record.value or b""
    if len(key) < _KEY.size or len(value) < _VALUE.size:
        return None
    kind = _KEY.unpack_from(key)[1]
    if kind not in (_ABORT, _COMMIT):
        return None
    return EndMarker(kind == _COMMIT, _VALUE.unpack_from(value)[1])
