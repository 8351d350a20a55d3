"""What the wire needs to know of an API: its messages, and the versions that are served.

The APIs are in the package `api`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from purgatory_broker._wire.api_messages import ApiMessages

#: The largest request of any API but Produce, whose bytes are mostly records.
MAX_PLAIN_REQUEST_BYTES = 4 * 2**20
#: The APIs of a broker, by key.
ApiTable: TypeAlias = "Mapping[int, Api]"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Api:
    """The messages of an API, and the versions of them that are served.

    Attributes:
        versions: The first and the last version that are served.
        min_advertised_version: The oldest version that ApiVersions names; None is the first served.
        max_request_bytes: The size of the largest request; None if only that of a frame is limited.
        answers_unsupported_versions: Pass requests of other versions to the handler, as None,
            instead of closing the connection. Their responses are of version 0.
        has_tagged_header: The header of a flexible response has tagged fields.
        holds_records: A response may have many records, and no limit of its own; requests wait
            while clients leave too many responses unread.
    """

    messages: ApiMessages[Any, Any]
    versions: tuple[int, int]
    min_advertised_version: int | None = None
    max_request_bytes: int | None = MAX_PLAIN_REQUEST_BYTES
    answers_unsupported_versions: bool = False
    has_tagged_header: bool = True
    holds_records: bool = False
    #: The API's key and its name in Kafka's protocol.
    key: int = field(init=False)
    name: str = field(init=False)
    #: The first version that is flexible.
    flexible_since: int = field(init=False)

    def __post_init__(self) -> None:
        messages = self.messages
        object.__setattr__(self, "key", messages.key)
        object.__setattr__(self, "name", messages.name)
        since = messages.flexible_since
        object.__setattr__(self, "flexible_since", sys.maxsize if since is None else since)

    @property
    def min_version(self) -> int:
        return self.versions[0]

    @property
    def max_version(self) -> int:
        return self.versions[1]

    @property
    def advertised_versions(self) -> tuple[int, int]:
        oldest = self.min_advertised_version
        return self.min_version if oldest is None else oldest, self.max_version

    @property
    def secrets(self) -> frozenset[str]:
        """The fields, at any depth of both messages, that are not shown."""
        return self.messages.secrets

    def supports(self, version: int) -> bool:
        return self.min_version <= version <= self.max_version

    def is_flexible(self, version: int) -> bool:
        """Return whether messages of `version` have compact lengths and tagged fields (KIP-482)."""
        return version >= self.flexible_since
