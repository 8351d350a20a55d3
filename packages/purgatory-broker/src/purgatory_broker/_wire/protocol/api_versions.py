"""The messages of ApiVersions.

Made from Kafka 4.1.1's schemas: do not edit.
"""

from __future__ import annotations

import struct

from purgatory_broker._wire.api_messages import NEW_LIST, ApiMessages, MessageStruct
from purgatory_broker._wire.reader import Reader
from purgatory_broker._wire.writer import Writer

_T = struct.Struct(">?")
_H = struct.Struct(">h")
_HH = struct.Struct(">hh")
_HHH = struct.Struct(">hhh")
_I = struct.Struct(">i")
_Q = struct.Struct(">q")


class ApiVersionsRequest(MessageStruct):
    """ApiVersionsRequest of Kafka."""

    __slots__ = ("client_software_name", "client_software_version")
    client_software_name: str
    client_software_version: str

    def __init__(self, client_software_name: str = "", client_software_version: str = "") -> None:
        self.client_software_name = client_software_name
        self.client_software_version = client_software_version


class ApiVersion(MessageStruct):
    """ApiVersion of Kafka."""

    __slots__ = ("api_key", "min_version", "max_version")
    api_key: int
    min_version: int
    max_version: int

    def __init__(self, api_key: int = 0, min_version: int = 0, max_version: int = 0) -> None:
        self.api_key = api_key
        self.min_version = min_version
        self.max_version = max_version


class SupportedFeatureKey(MessageStruct):
    """SupportedFeatureKey of Kafka."""

    __slots__ = ("name", "min_version", "max_version")
    name: str
    min_version: int
    max_version: int

    def __init__(self, name: str = "", min_version: int = 0, max_version: int = 0) -> None:
        self.name = name
        self.min_version = min_version
        self.max_version = max_version


class FinalizedFeatureKey(MessageStruct):
    """FinalizedFeatureKey of Kafka."""

    __slots__ = ("name", "max_version_level", "min_version_level")
    name: str
    max_version_level: int
    min_version_level: int

    def __init__(
        self, name: str = "", max_version_level: int = 0, min_version_level: int = 0
    ) -> None:
        self.name = name
        self.max_version_level = max_version_level
        self.min_version_level = min_version_level


class ApiVersionsResponse(MessageStruct):
    """ApiVersionsResponse of Kafka."""

    __slots__ = (
        "error_code",
        "api_keys",
        "throttle_time_ms",
        "supported_features",
        "finalized_features_epoch",
        "finalized_features",
        "zk_migration_ready",
    )
    error_code: int
    api_keys: list[ApiVersion]
    throttle_time_ms: int
    supported_features: list[SupportedFeatureKey]
    finalized_features_epoch: int
    finalized_features: list[FinalizedFeatureKey]
    zk_migration_ready: bool

    def __init__(
        self,
        error_code: int = 0,
        api_keys: list[ApiVersion] = NEW_LIST,
        throttle_time_ms: int = 0,
        supported_features: list[SupportedFeatureKey] = NEW_LIST,
        finalized_features_epoch: int = -1,
        finalized_features: list[FinalizedFeatureKey] = NEW_LIST,
        zk_migration_ready: bool = False,
    ) -> None:
        self.error_code = error_code
        self.api_keys = [] if api_keys is NEW_LIST else api_keys
        self.throttle_time_ms = throttle_time_ms
        self.supported_features = [] if supported_features is NEW_LIST else supported_features
        self.finalized_features_epoch = finalized_features_epoch
        self.finalized_features = [] if finalized_features is NEW_LIST else finalized_features
        self.zk_migration_ready = zk_migration_ready


def _read_api_versions_request(reader: Reader, version: int) -> ApiVersionsRequest:
    client_software_name: str = ""
    client_software_version: str = ""
    if version >= 3:
        client_software_name = reader.string("client_software_name")
        client_software_version = reader.string("client_software_version")
        reader.skip_tagged_fields()
    return ApiVersionsRequest(client_software_name, client_software_version)


def _read_api_version(reader: Reader, version: int) -> ApiVersion:
    api_key, min_version, max_version = _HHH.unpack_from(reader.frame, reader.position)
    reader.position += 6
    if version >= 3:
        reader.skip_tagged_fields()
    return ApiVersion(api_key, min_version, max_version)


def _read_supported_feature_key(reader: Reader, version: int) -> SupportedFeatureKey:
    name = reader.string("name")
    min_version, max_version = _HH.unpack_from(reader.frame, reader.position)
    reader.position += 4
    reader.skip_tagged_fields()
    return SupportedFeatureKey(name, min_version, max_version)


def _read_finalized_feature_key(reader: Reader, version: int) -> FinalizedFeatureKey:
    name = reader.string("name")
    max_version_level, min_version_level = _HH.unpack_from(reader.frame, reader.position)
    reader.position += 4
    reader.skip_tagged_fields()
    return FinalizedFeatureKey(name, max_version_level, min_version_level)


def _read_api_versions_response(reader: Reader, version: int) -> ApiVersionsResponse:
    throttle_time_ms: int = 0
    supported_features: list[SupportedFeatureKey] = []
    finalized_features_epoch: int = -1
    finalized_features: list[FinalizedFeatureKey] = []
    zk_migration_ready: bool = False
    (error_code,) = _H.unpack_from(reader.frame, reader.position)
    reader.position += 2
    api_keys: list[ApiVersion] = []
    for _ in range(reader.count("api_keys", 6)):
        api_keys.append(_read_api_version(reader, version))
    if version >= 1:
        (throttle_time_ms,) = _I.unpack_from(reader.frame, reader.position)
        reader.position += 4
    if version >= 3:
        for _ in range(reader.tagged_fields()):
            tag = reader.tag()
            if tag == 0:
                supported_features = [
                    _read_supported_feature_key(reader, version)
                    for _ in range(reader.count("supported_features", 6))
                ]
            elif tag == 1:
                finalized_features_epoch = reader.unpack(_Q)[0]
            elif tag == 2:
                finalized_features = [
                    _read_finalized_feature_key(reader, version)
                    for _ in range(reader.count("finalized_features", 6))
                ]
            elif tag == 3:
                zk_migration_ready = reader.unpack(_T)[0]
            else:
                reader.skip_value()
    return ApiVersionsResponse(
        error_code,
        api_keys,
        throttle_time_ms,
        supported_features,
        finalized_features_epoch,
        finalized_features,
        zk_migration_ready,
    )


def _write_api_version(out: Writer, data: ApiVersion, version: int) -> None:
    out += _HHH.pack(data.api_key, data.min_version, data.max_version)
    if version >= 3:
        out.append(0)


def _write_supported_feature_key(out: Writer, data: SupportedFeatureKey, version: int) -> None:
    out.string(data.name)
    out += _HH.pack(data.min_version, data.max_version)
    out.append(0)


def _write_finalized_feature_key(out: Writer, data: FinalizedFeatureKey, version: int) -> None:
    out.string(data.name)
    out += _HH.pack(data.max_version_level, data.min_version_level)
    out.append(0)


def _write_api_versions_response(out: Writer, data: ApiVersionsResponse, version: int) -> None:
    out += _H.pack(data.error_code)
    out.length(len(data.api_keys))
    for api_version in data.api_keys:
        _write_api_version(out, api_version, version)
    if version >= 1:
        out += _I.pack(data.throttle_time_ms)
    if version >= 3:
        tagged: list[tuple[int, bytes | bytearray]] = []
        if data.supported_features:
            value = out.value()
            value.length(len(data.supported_features))
            for supported_feature_key in data.supported_features:
                _write_supported_feature_key(value, supported_feature_key, version)
            tagged.append((0, value))
        if data.finalized_features_epoch != -1:
            value = out.value()
            value += _Q.pack(data.finalized_features_epoch)
            tagged.append((1, value))
        if data.finalized_features:
            value = out.value()
            value.length(len(data.finalized_features))
            for finalized_feature_key in data.finalized_features:
                _write_finalized_feature_key(value, finalized_feature_key, version)
            tagged.append((2, value))
        if data.zk_migration_ready:
            value = out.value()
            value += _T.pack(data.zk_migration_ready)
            tagged.append((3, value))
        if tagged:
            out.tagged_fields(tagged)
        else:
            out.append(0)


def _error_response(request: ApiVersionsRequest, code: int) -> ApiVersionsResponse:
    return ApiVersionsResponse(error_code=code)


API_VERSIONS_MESSAGES = ApiMessages(
    key=18,
    name="ApiVersions",
    versions=(0, 4),
    flexible_since=3,
    request=ApiVersionsRequest,
    response=ApiVersionsResponse,
    read_request=_read_api_versions_request,
    read_response=_read_api_versions_response,
    write_response=_write_api_versions_response,
    error_response=_error_response,
    fields={
        ApiVersionsRequest: {"client_software_name": (3, 4), "client_software_version": (3, 4)},
        ApiVersionsResponse: {
            "throttle_time_ms": (1, 4),
            "supported_features": (3, 4),
            "finalized_features_epoch": (3, 4),
            "finalized_features": (3, 4),
            "zk_migration_ready": (3, 4),
        },
    },
)
