"""The requests that wait, each a `DelayedOperation` in a purgatory of its own."""

from request_purgatory.broker.delayed.delete_records import DelayedDeleteRecords
from request_purgatory.broker.delayed.fetch import DelayedFetch, FetchedPartition, FetchParams, FetchTarget
from request_purgatory.broker.delayed.produce import DelayedProduce, ProducedPartition
from request_purgatory.broker.delayed.throttle import ThrottledChannel

__all__ = [
    "DelayedDeleteRecords",
    "DelayedFetch",
    "DelayedProduce",
    "FetchParams",
    "FetchTarget",
    "FetchedPartition",
    "ProducedPartition",
    "ThrottledChannel",
]
