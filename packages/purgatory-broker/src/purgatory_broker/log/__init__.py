"""The log of a partition: record batches in segments, in memory or in files."""

from request_purgatory.broker.log.batch import (
    BatchHeader,
    read_header,
    split_batches,
    verify_checksum,
    with_offset_and_epoch,
)
from request_purgatory.broker.log.errors import BatchFormatError, RecordError, StorageError
from request_purgatory.broker.log.log import AppendInfo, PartitionLog
from request_purgatory.broker.log.record import Record, build_batch, read_records
from request_purgatory.broker.log.settings import LogSettings
from request_purgatory.broker.log.store import OpenFiles

__all__ = [
    "AppendInfo",
    "BatchFormatError",
    "BatchHeader",
    "LogSettings",
    "OpenFiles",
    "PartitionLog",
    "Record",
    "RecordError",
    "StorageError",
    "build_batch",
    "read_header",
    "read_records",
    "split_batches",
    "verify_checksum",
    "with_offset_and_epoch",
]
