"""Addresses: inputs and outputs as one writes them on a command line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from request_purgatory.errors import InvalidArgumentError
from request_purgatory.pipeline.stream.endpoints.endpoint import Endpoints, Sink, Source
from request_purgatory.pipeline.stream.endpoints.folders import FolderSink, FolderSource
from request_purgatory.pipeline.stream.endpoints.kafka import (
    KafkaCluster,
    KafkaSink,
    KafkaSource,
)
from request_purgatory.pipeline.stream.endpoints.rate import RateSource

KAFKA = "kafka://"
RATE = "rate://"
#: Two letters at least: one is a drive.
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")

_FORMS = f"a folder of this machine, {KAFKA}HOST:PORT[,HOST:PORT]/TOPIC"
_RATE_FORM = f"{RATE}ROWS_PER_SECOND[?hosts=N&keys=N]"


@dataclass(frozen=True)
class AddressOptions:
    """What goes for all addresses of a kind.

    Attributes:
        format: of files; see `FolderSource`.
        files_per_batch: of each input folder.
        rows_per_batch: of each input topic.
        kafka_options: as `KafkaCluster.options`, in pairs.
    """

    format: str = "parquet"
    files_per_batch: int | None = None
    rows_per_batch: int | None = None
    kafka_options: Sequence[tuple[str, str]] = field(default=(), repr=False)


def is_kafka(address: str) -> bool:
    """Whether this is a topic's address."""
    return address.startswith(KAFKA)


def endpoints(
    requests: str, events: str, out: str, options: AddressOptions | None = None
) -> Endpoints:
    """What three addresses name: folders, `kafka://HOST:PORT[,HOST:PORT]/TOPIC`, and of inputs `rate://ROWS_PER_SECOND`.

    A rate may go on with `?hosts=N&keys=N`, and that of requests with `timeout_ms=N`: see
    `RateSource`.

    Raises:
        InvalidArgumentError: an address is none of these, or an option is for a kind that is not
            among them.
    """
    options = options or AddressOptions()
    topic_in = is_kafka(requests) or is_kafka(events)
    folder_in = not (_SCHEME.match(requests) and _SCHEME.match(events))
    # Values of Kafka's options are nobody's business: one may be a password.
    _require(
        "kafka_option",
        [name for name, _ in options.kafka_options],
        topic_in or is_kafka(out),
        f"for a {KAFKA} address",
    )
    _require("rows_per_batch", options.rows_per_batch, topic_in, f"for a {KAFKA} input")
    _require("files_per_batch", options.files_per_batch, folder_in, "for an input that is a folder")
    return Endpoints(
        _source("requests", requests, options, ("hosts", "keys", "timeout_ms")),
        _source("events", events, options, ("hosts", "keys")),
        _sink(out, options),
    )


def _require(name: str, value: object, has_use: bool, use: str) -> None:
    if value and not has_use:
        raise InvalidArgumentError(name, use, value)


def _source(name: str, address: str, options: AddressOptions, rates: tuple[str, ...]) -> Source:
    if is_kafka(address):
        cluster, topic = _topic(name, address, options)
        return KafkaSource(cluster, topic, options.rows_per_batch)
    if address.startswith(RATE):
        return _rate(name, address, rates)
    return FolderSource(
        _folder(name, address, f"{_FORMS}, or {_RATE_FORM}"),
        options.format,
        options.files_per_batch,
    )


def _sink(address: str, options: AddressOptions) -> Sink:
    if is_kafka(address):
        return KafkaSink(*_topic("out", address, options))
    return FolderSink(_folder("out", address, _FORMS), options.format)


def _topic(name: str, address: str, options: AddressOptions) -> tuple[KafkaCluster, str]:
    servers, slash, topic = address.removeprefix(KAFKA).partition("/")
    if not (servers and slash and topic):
        raise InvalidArgumentError(name, f"{KAFKA}HOST:PORT[,HOST:PORT]/TOPIC", address)
    return KafkaCluster(servers, dict(options.kafka_options)), topic


def _rate(name: str, address: str, allowed: tuple[str, ...]) -> RateSource:
    requirement = f"{RATE}ROWS_PER_SECOND, and maybe ? and {', '.join(f'{each}=N' for each in allowed)} with & between them"
    parts = urlsplit(address)
    try:
        numbers = (
            {key: int(value) for key, value in parse_qsl(parts.query, strict_parsing=True)}
            if parts.query
            else {}
        )
        rate = int(parts.netloc)
    except ValueError:
        raise InvalidArgumentError(name, requirement, address) from None
    if parts.path.strip("/") or parts.fragment or not set(numbers) <= set(allowed):
        raise InvalidArgumentError(name, requirement, address)
    return RateSource(rate, **numbers)


def _folder(name: str, address: str, requirement: str) -> Path:
    if _SCHEME.match(address):
        raise InvalidArgumentError(name, requirement, address)
    return Path(address)
