"""The messages of DescribeUserScramCredentials.

Made from Kafka 4.1.1's schemas: do not edit.
"""

from __future__ import annotations

import struct

from purgatory_broker._wire.api_messages import NEW_LIST, ApiMessages, MessageStruct
from purgatory_broker._wire.reader import Reader
from purgatory_broker._wire.writer import Writer

_BI = struct.Struct(">bi")
_H = struct.Struct(">h")
_IH = struct.Struct(">ih")


class UserName(MessageStruct):
    """UserName of Kafka."""

    __slots__ = ("name",)
    name: str

    def __init__(self, name: str = "") -> None:
        self.name = name


class DescribeUserScramCredentialsRequest(MessageStruct):
    """DescribeUserScramCredentialsRequest of Kafka."""

    __slots__ = ("users",)
    users: list[UserName] | None

    def __init__(self, users: list[UserName] | None = NEW_LIST) -> None:
        self.users = [] if users is NEW_LIST else users


class CredentialInfo(MessageStruct):
    """CredentialInfo of Kafka."""

    __slots__ = ("mechanism", "iterations")
    mechanism: int
    iterations: int

    def __init__(self, mechanism: int = 0, iterations: int = 0) -> None:
        self.mechanism = mechanism
        self.iterations = iterations


class DescribeUserScramCredentialsResult(MessageStruct):
    """DescribeUserScramCredentialsResult of Kafka."""

    __slots__ = ("user", "error_code", "error_message", "credential_infos")
    user: str
    error_code: int
    error_message: str | None
    credential_infos: list[CredentialInfo]

    def __init__(
        self,
        user: str = "",
        error_code: int = 0,
        error_message: str | None = "",
        credential_infos: list[CredentialInfo] = NEW_LIST,
    ) -> None:
        self.user = user
        self.error_code = error_code
        self.error_message = error_message
        self.credential_infos = [] if credential_infos is NEW_LIST else credential_infos


class DescribeUserScramCredentialsResponse(MessageStruct):
    """DescribeUserScramCredentialsResponse of Kafka."""

    __slots__ = ("throttle_time_ms", "error_code", "error_message", "results")
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    results: list[DescribeUserScramCredentialsResult]

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        results: list[DescribeUserScramCredentialsResult] = NEW_LIST,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.results = [] if results is NEW_LIST else results


def _read_user_name(reader: Reader, version: int) -> UserName:
    name = reader.string("name")
    reader.skip_tagged_fields()
    return UserName(name)


def _read_describe_user_scram_credentials_request(
    reader: Reader, version: int
) -> DescribeUserScramCredentialsRequest:
    users = (
        None
        if (count := reader.nullable_count("users", 2)) < 0
        else [_read_user_name(reader, version) for _ in range(count)]
    )
    reader.skip_tagged_fields()
    return DescribeUserScramCredentialsRequest(users)


def _read_credential_info(reader: Reader, version: int) -> CredentialInfo:
    mechanism, iterations = _BI.unpack_from(reader.frame, reader.position)
    reader.position += 5
    reader.skip_tagged_fields()
    return CredentialInfo(mechanism, iterations)


def _read_describe_user_scram_credentials_result(
    reader: Reader, version: int
) -> DescribeUserScramCredentialsResult:
    user = reader.string("user")
    (error_code,) = _H.unpack_from(reader.frame, reader.position)
    reader.position += 2
    error_message = reader.nullable_string("error_message")
    credential_infos: list[CredentialInfo] = []
    for _ in range(reader.count("credential_infos", 6)):
        credential_infos.append(_read_credential_info(reader, version))
    reader.skip_tagged_fields()
    return DescribeUserScramCredentialsResult(user, error_code, error_message, credential_infos)


def _read_describe_user_scram_credentials_response(
    reader: Reader, version: int
) -> DescribeUserScramCredentialsResponse:
    throttle_time_ms, error_code = _IH.unpack_from(reader.frame, reader.position)
    reader.position += 6
    error_message = reader.nullable_string("error_message")
    results: list[DescribeUserScramCredentialsResult] = []
    for _ in range(reader.count("results", 6)):
        results.append(_read_describe_user_scram_credentials_result(reader, version))
    reader.skip_tagged_fields()
    return DescribeUserScramCredentialsResponse(
        throttle_time_ms, error_code, error_message, results
    )


def _write_credential_info(out: Writer, data: CredentialInfo, version: int) -> None:
    out += _BI.pack(data.mechanism, data.iterations)
    out.append(0)


def _write_describe_user_scram_credentials_result(
    out: Writer, data: DescribeUserScramCredentialsResult, version: int
) -> None:
    out.string(data.user)
    out += _H.pack(data.error_code)
    out.nullable_string(data.error_message)
    out.length(len(data.credential_infos))
    for credential_info in data.credential_infos:
        _write_credential_info(out, credential_info, version)
    out.append(0)


def _write_describe_user_scram_credentials_response(
    out: Writer, data: DescribeUserScramCredentialsResponse, version: int
) -> None:
    out += _IH.pack(data.throttle_time_ms, data.error_code)
    out.nullable_string(data.error_message)
    out.length(len(data.results))
    for describe_user_scram_credentials_result in data.results:
        _write_describe_user_scram_credentials_result(
            out, describe_user_scram_credentials_result, version
        )
    out.append(0)


def _error_response(
    request: DescribeUserScramCredentialsRequest, code: int
) -> DescribeUserScramCredentialsResponse:
    return DescribeUserScramCredentialsResponse(
        error_code=code,
        error_message=None,
        results=[
            DescribeUserScramCredentialsResult(
                user=user_name.name, error_code=code, error_message=None
            )
            for user_name in (request.users or ())
        ],
    )


DESCRIBE_USER_SCRAM_CREDENTIALS_MESSAGES = ApiMessages(
    key=50,
    name="DescribeUserScramCredentials",
    versions=(0, 0),
    flexible_since=0,
    request=DescribeUserScramCredentialsRequest,
    response=DescribeUserScramCredentialsResponse,
    read_request=_read_describe_user_scram_credentials_request,
    read_response=_read_describe_user_scram_credentials_response,
    write_response=_write_describe_user_scram_credentials_response,
    error_response=_error_response,
    fields={},
)
