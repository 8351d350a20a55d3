"""The messages of DescribeUserScramCredentials.

Made from Kafka 4.1.1's schemas: do not edit.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from purgatory_broker._wire.api_messages import ApiMessages, MessageStruct
from purgatory_broker._wire.reader import Reader
from purgatory_broker._wire.writer import Writer

_BI = struct.Struct(">bi")
_H = struct.Struct(">h")
_IH = struct.Struct(">ih")


@dataclass(slots=True, eq=False, repr=False, match_args=False)
class UserName(MessageStruct):
    """UserName of Kafka."""

    name: str = ""


@dataclass(slots=True, eq=False, repr=False, match_args=False)
class DescribeUserScramCredentialsRequest(MessageStruct):
    """DescribeUserScramCredentialsRequest of Kafka."""

    users: list[UserName] | None = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False, match_args=False)
class CredentialInfo(MessageStruct):
    """CredentialInfo of Kafka."""

    mechanism: int = 0
    iterations: int = 0


@dataclass(slots=True, eq=False, repr=False, match_args=False)
class DescribeUserScramCredentialsResult(MessageStruct):
    """DescribeUserScramCredentialsResult of Kafka."""

    user: str = ""
    error_code: int = 0
    error_message: str | None = ""
    credential_infos: list[CredentialInfo] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False, match_args=False)
class DescribeUserScramCredentialsResponse(MessageStruct):
    """DescribeUserScramCredentialsResponse of Kafka."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    results: list[DescribeUserScramCredentialsResult] = field(default_factory=list)


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
