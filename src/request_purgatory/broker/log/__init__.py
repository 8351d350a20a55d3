"""The log of a partition: record batches in segments, in memory or in files."""

from request_purgatory.broker.log.batch import BatchHeader, read_header, split, stamped, verify
from request_purgatory.broker.log.errors import NoBatchError, RecordError
from request_purgatory.broker.log.log import Appended, PartitionLog
from request_purgatory.broker.log.record import Record, build, read_records
from request_purgatory.broker.log.settings import LogSettings
from request_purgatory.broker.log.store import OpenFiles

__all__ = [
    "Appended",
    "BatchHeader",
    "LogSettings",
    "NoBatchError",
    "OpenFiles",
    "PartitionLog",
    "Record",
    "RecordError",
    "build",
    "read_header",
    "read_records",
    "split",
    "stamped",
    "verify",
]
