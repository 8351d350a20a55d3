"""A topic of a request with the numbers of some of its partitions."""

from __future__ import annotations

from typing import NamedTuple


class RequestedTopic(NamedTuple):
    """A topic's name and the numbers of partitions, in the order of the request."""

    name: str
    partitions: tuple[int, ...]
