"""The log of a partition: record batches in segments, in memory or in files."""

from purgatory_broker.log.batch import (
    BatchHeader,
    read_header,
    split_batches,
    verify_checksum,
    with_offset_and_epoch,
)
from purgatory_broker.log.log import AppendInfo, PartitionLog
from purgatory_broker.log.log_errors import BatchFormatError, RecordError, StorageError
from purgatory_broker.log.log_settings import LogSettings
from purgatory_broker.log.record import Record, build_batch, read_records
from purgatory_broker.log.store import OpenFiles

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
