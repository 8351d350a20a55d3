"""What the wire needs to know of an API: its versions and kafka-python's message classes.

kafka-python has one class for all versions of a message. The APIs are in the package `api`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from operator import attrgetter
from typing import Any, TypeAlias

from kafka.protocol.schemas.fields.codecs import EncodeBuffer

#: The largest request of any API but Produce, whose bytes are mostly records.
MAX_PLAIN_REQUEST_BYTES = 4 * 2**20
#: The largest response of any API but Fetch, whose size is limited by the request and by
#: `fetch.max.bytes`. By default clients accept no more from a broker: librdkafka's
#: `receive.message.max.bytes` is 100 MB.
MAX_PLAIN_RESPONSE_BYTES = 100 * 2**20

#: Decodes a request at a position of a buffer; returns the request and the position after it.
RequestDecoder: TypeAlias = Callable[[memoryview, int], tuple[Any, int]]
#: Encodes a response into a buffer.
ResponseEncoder: TypeAlias = Callable[[Any, EncodeBuffer], None]
#: The APIs of a broker, by key.
ApiTable: TypeAlias = "Mapping[int, Api]"

# kafka-python compiles a codec for each version of a message, faster than its public `decode` and
# `encode`, but offers it only through this private attribute of the message's class.
_schema = attrgetter("_struct")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Api:
    """The messages of an API, and the versions of them that are served.

    Attributes:
        versions: The first and the last version that are served.
        min_advertised_version: The oldest version that ApiVersions names; None is the first served.
        max_request_bytes: The size of the largest request; None if only that of a frame is limited.
        max_response_bytes: The size of the largest response; None if it is limited otherwise.
        answers_unsupported_versions: Pass requests of other versions to the handler, as None,
            instead of closing the connection. Their responses are of version 0.
        has_tagged_header: The header of a flexible response has tagged fields.
        read: Reads a request at a position of a frame, in a version; returns the request and the
            position after it. None reads it by the schema of `request`.
        write: Writes a response of a version after its header; None writes it by the schema of
            `response`.
        holds_records: A response may have many records; requests wait while clients leave too many
            responses unread.
        secrets: The fields, at any depth of both messages, that are not shown.
    """

    request: Any
    response: Any
    versions: tuple[int, int]
    min_advertised_version: int | None = None
    max_request_bytes: int | None = MAX_PLAIN_REQUEST_BYTES
    max_response_bytes: int | None = MAX_PLAIN_RESPONSE_BYTES
    answers_unsupported_versions: bool = False
    has_tagged_header: bool = True
    holds_records: bool = False
    secrets: frozenset[str] = frozenset()
    read: Callable[[bytes, int, int], tuple[Any, int]] | None = None
    write: Callable[[bytearray, Any, int], None] | None = None
    #: The API's key and its name in Kafka's protocol.
    key: int = field(init=False)
    name: str = field(init=False)
    #: The first version that is flexible.
    flexible_since: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", self.request.API_KEY)
        object.__setattr__(self, "name", self.request.__name__.removesuffix("Request"))
        versions = range(self.max_version + 1)
        flexible = filter(self.request.flexible_version_q, versions)
        object.__setattr__(self, "flexible_since", next(flexible, versions.stop))

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

    def supports(self, version: int) -> bool:
        return self.min_version <= version <= self.max_version

    def is_flexible(self, version: int) -> bool:
        """Return whether messages of `version` have compact lengths and tagged fields (KIP-482)."""
        return version >= self.flexible_since

    @cache  # noqa: B019 - APIs live as long as the process
    def request_decoder(self, version: int) -> RequestDecoder:
        flexible = self.is_flexible(version)
        decoder: RequestDecoder = _schema(self.request).compiled_decode_from(
            version, compact=flexible, tagged=flexible, data_class=self.request
        )
        return decoder

    @cache  # noqa: B019 - as above
    def response_encoder(self, version: int) -> ResponseEncoder:
        flexible = self.is_flexible(version)
        encoder: ResponseEncoder = _schema(self.response).compiled_encode_into(
            version, compact=flexible, tagged=flexible
        )
        return encoder
