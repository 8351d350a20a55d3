"""Addresses: inputs and outputs of a stream as text, as on the command line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from purgatory_spark._rows.mapping import TableMapping
from purgatory_spark._stream.endpoints.avro_rows import AvroMessages
from purgatory_spark._stream.endpoints.endpoint import Endpoints, Sink, Source
from purgatory_spark._stream.endpoints.folders import OUTPUT_FORMATS, FolderSink, FolderSource
from purgatory_spark._stream.endpoints.kafka import KafkaCluster, KafkaSink, KafkaSource
from purgatory_spark._stream.endpoints.rate import RateSource
from request_purgatory.errors import InvalidArgumentError

KAFKA = "kafka://"
RATE = "rate://"
#: At least two letters, because a single one is a drive of Windows.
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")

_KAFKA_FORM = f"{KAFKA}HOST:PORT[,HOST:PORT]/TOPIC"
_SINK_FORMS = f"a local folder, or {_KAFKA_FORM}"
_SOURCE_FORMS = f"a local folder, {_KAFKA_FORM}, or {RATE}ROWS_PER_SECOND[?hosts=N&keys=N]"


@dataclass(frozen=True)
class AddressOptions:
    """Options that apply to all addresses of a kind.

    Attributes:
        format: the format of all files: parquet, or json with one row in each line; or, with a
            mapping, csv, with an output in parquet.
        files_per_batch: the largest number of new files of an input folder in one micro-batch;
            unlimited by default.
        rows_per_batch: the largest number of messages of an input topic in one micro-batch;
            unlimited by default.
        kafka_options: options of Kafka's clients as pairs of name and value, such as
            security.protocol=SSL.
        kafka_key: the column of outcomes that is the key of the output's messages: host, or
            request_id.
        avro_requests: a file with the Avro schema of the requests' messages, which are JSON
            otherwise. Needs a mapping.
        avro_events: the same for the events' messages.
        avro_header: messages in Avro begin with a schema registry's five bytes, which are skipped.
    """

    format: str = "parquet"
    files_per_batch: int | None = None
    rows_per_batch: int | None = None
    kafka_options: Sequence[tuple[str, str]] = field(default=(), repr=False)
    kafka_key: str = "host"
    avro_requests: Path | None = None
    avro_events: Path | None = None
    avro_header: bool = False

    def avro(self, name: str) -> AvroMessages | None:
        """Return how the messages of requests or of events are written in Avro, or None."""
        file = self.avro_requests if name == "requests" else self.avro_events
        return None if file is None else AvroMessages(file, self.avro_header)


def is_kafka_address(address: str) -> bool:
    return address.startswith(KAFKA)


def parse_endpoints(
    requests: str,
    events: str,
    out: str,
    options: AddressOptions | None = None,
    mapping: TableMapping | None = None,
) -> Endpoints:
    """Return the endpoints that three addresses name.

    An address is a path of a folder, or `kafka://HOST:PORT[,HOST:PORT]/TOPIC`. An input may also be
    a generated load, `rate://ROWS_PER_SECOND`, with parameters such as `?hosts=4&keys=1000`, and
    for requests `timeout_ms`: see `RateSource`.

    Args:
        requests: the address of the input of requests.
        events: the address of the input of events.
        out: the address of the output.
        options: None is the defaults.
        mapping: the inputs' columns; None if they are those of the schema.

    Raises:
        InvalidArgumentError: an address has none of these forms, or an option is given for a kind
            of address that does not occur.
        TraceFormatError: the mapping lacks a field.
    """
    options = options or AddressOptions()
    has_topic_input = is_kafka_address(requests) or is_kafka_address(events)
    has_folder_input = not (_SCHEME.match(requests) and _SCHEME.match(events))
    _require_use(
        "kafka_option",
        # Only the names: a value may be a password.
        [name for name, _ in options.kafka_options],
        has_topic_input or is_kafka_address(out),
        f"used with a {KAFKA} address",
    )
    _require_use(
        "rows_per_batch", options.rows_per_batch, has_topic_input, f"used with a {KAFKA} input"
    )
    _require_use(
        "files_per_batch", options.files_per_batch, has_folder_input, "used with an input folder"
    )
    _require_mapping_suits(requests, events, options, mapping)
    _require_use(
        "kafka_key",
        options.kafka_key if options.kafka_key != "host" else None,
        is_kafka_address(out),
        f"used with a {KAFKA} output",
    )
    return Endpoints(
        _source("requests", requests, options, ("hosts", "keys", "timeout_ms")),
        _source("events", events, options, ("hosts", "keys")),
        _sink(out, options),
        mapping,
    )


def _require_mapping_suits(
    requests: str, events: str, options: AddressOptions, mapping: TableMapping | None
) -> None:
    """Check that a mapping is given where one is needed, and not where it can't be used."""
    for name, address in (("requests", requests), ("events", events)):
        avro = options.avro(name)
        _require_use(
            f"avro_{name}",
            None if avro is None else str(avro.schema_file),
            is_kafka_address(address) and mapping is not None,
            f"used with a {KAFKA} input and with --map",
        )
        if mapping is not None and address.startswith(RATE):
            raise InvalidArgumentError(name, "a folder or a topic, with --map", address)
    has_avro = options.avro_requests is not None or options.avro_events is not None
    _require_use(
        "avro_header", options.avro_header, has_avro, "used with --avro-requests or --avro-events"
    )
    _require_use(
        "format",
        options.format if options.format not in OUTPUT_FORMATS else None,
        mapping is not None,
        f"one of {', '.join(OUTPUT_FORMATS)} without --map",
    )


def _require_use(name: str, value: object, is_used: bool, requirement: str) -> None:
    if value and not is_used:
        raise InvalidArgumentError(name, requirement, value)


def _source(
    name: str, address: str, options: AddressOptions, rate_parameters: tuple[str, ...]
) -> Source:
    if is_kafka_address(address):
        cluster, topic = _topic(name, address, options)
        return KafkaSource(cluster, topic, options.rows_per_batch, options.avro(name))
    if address.startswith(RATE):
        return _rate(name, address, rate_parameters)
    return FolderSource(
        _folder(name, address, _SOURCE_FORMS), options.format, options.files_per_batch
    )


def _sink(address: str, options: AddressOptions) -> Sink:
    if is_kafka_address(address):
        return KafkaSink(*_topic("out", address, options), options.kafka_key)
    # CSV would lose the types of outcomes.
    format = options.format if options.format in OUTPUT_FORMATS else "parquet"
    return FolderSink(_folder("out", address, _SINK_FORMS), format)


def _topic(name: str, address: str, options: AddressOptions) -> tuple[KafkaCluster, str]:
    servers, slash, topic = address.removeprefix(KAFKA).partition("/")
    if not (servers and slash and topic):
        raise InvalidArgumentError(name, _KAFKA_FORM, address)
    return KafkaCluster(servers, dict(options.kafka_options)), topic


def _rate(name: str, address: str, parameters: tuple[str, ...]) -> RateSource:
    query = "&".join(f"{parameter}=N" for parameter in parameters)
    requirement = f"{RATE}ROWS_PER_SECOND[?{query}] with whole numbers"
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
    if parts.path.strip("/") or parts.fragment or not set(numbers) <= set(parameters):
        raise InvalidArgumentError(name, requirement, address)
    return RateSource(rate, **numbers)


def _folder(name: str, address: str, requirement: str) -> Path:
    if _SCHEME.match(address):
        raise InvalidArgumentError(name, requirement, address)
    return Path(address)
