"""The messages of AlterUserScramCredentials.

Made from Kafka 4.1.1's schemas: do not edit.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from purgatory_broker._wire.api_messages import ApiMessages, MessageStruct
from purgatory_broker._wire.reader import Reader
from purgatory_broker._wire.writer import Writer

_B = struct.Struct(">b")
_BI = struct.Struct(">bi")
_H = struct.Struct(">h")
_I = struct.Struct(">i")


@dataclass(slots=True, eq=False, repr=False, match_args=False)
class ScramCredentialDeletion(MessageStruct):
    """ScramCredentialDeletion of Kafka."""

    name: str = ""
    mechanism: int = 0


@dataclass(slots=True, eq=False, repr=False, match_args=False)
class ScramCredentialUpsertion(MessageStruct):
    """ScramCredentialUpsertion of Kafka."""

    name: str = ""
    mechanism: int = 0
    iterations: int = 0
    salt: bytes = b""
    salted_password: bytes = field(default=b"", repr=False)


@dataclass(slots=True, eq=False, repr=False, match_args=False)
class AlterUserScramCredentialsRequest(MessageStruct):
    """AlterUserScramCredentialsRequest of Kafka."""

    deletions: list[ScramCredentialDeletion] = field(default_factory=list)
    upsertions: list[ScramCredentialUpsertion] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False, match_args=False)
class AlterUserScramCredentialsResult(MessageStruct):
    """AlterUserScramCredentialsResult of Kafka."""

    user: str = ""
    error_code: int = 0
    error_message: str | None = ""


@dataclass(slots=True, eq=False, repr=False, match_args=False)
class AlterUserScramCredentialsResponse(MessageStruct):
    """AlterUserScramCredentialsResponse of Kafka."""

    throttle_time_ms: int = 0
    results: list[AlterUserScramCredentialsResult] = field(default_factory=list)


def _read_scram_credential_deletion(reader: Reader, version: int) -> ScramCredentialDeletion:
    name = reader.string("name")
    (mechanism,) = _B.unpack_from(reader.frame, reader.position)
    reader.position += 1
    reader.skip_tagged_fields()
    return ScramCredentialDeletion(name, mechanism)


def _read_scram_credential_upsertion(reader: Reader, version: int) -> ScramCredentialUpsertion:
    name = reader.string("name")
    mechanism, iterations = _BI.unpack_from(reader.frame, reader.position)
    reader.position += 5
    salt = reader.blob("salt")
    salted_password = reader.blob("salted_password")
    reader.skip_tagged_fields()
    return ScramCredentialUpsertion(name, mechanism, iterations, salt, salted_password)


def _read_alter_user_scram_credentials_request(
    reader: Reader, version: int
) -> AlterUserScramCredentialsRequest:
    deletions: list[ScramCredentialDeletion] = []
    for _ in range(reader.count("deletions", 3)):
        deletions.append(_read_scram_credential_deletion(reader, version))
    upsertions: list[ScramCredentialUpsertion] = []
    for _ in range(reader.count("upsertions", 9)):
        upsertions.append(_read_scram_credential_upsertion(reader, version))
    reader.skip_tagged_fields()
    return AlterUserScramCredentialsRequest(deletions, upsertions)


def _read_alter_user_scram_credentials_result(
    reader: Reader, version: int
) -> AlterUserScramCredentialsResult:
    user = reader.string("user")
    (error_code,) = _H.unpack_from(reader.frame, reader.position)
    reader.position += 2
    error_message = reader.nullable_string("error_message")
    reader.skip_tagged_fields()
    return AlterUserScramCredentialsResult(user, error_code, error_message)


def _read_alter_user_scram_credentials_response(
    reader: Reader, version: int
) -> AlterUserScramCredentialsResponse:
    (throttle_time_ms,) = _I.unpack_from(reader.frame, reader.position)
    reader.position += 4
    results: list[AlterUserScramCredentialsResult] = []
    for _ in range(reader.count("results", 5)):
        results.append(_read_alter_user_scram_credentials_result(reader, version))
    reader.skip_tagged_fields()
    return AlterUserScramCredentialsResponse(throttle_time_ms, results)


def _write_alter_user_scram_credentials_result(
    out: Writer, data: AlterUserScramCredentialsResult, version: int
) -> None:
    out.string(data.user)
    out += _H.pack(data.error_code)
    out.nullable_string(data.error_message)
    out.append(0)


def _write_alter_user_scram_credentials_response(
    out: Writer, data: AlterUserScramCredentialsResponse, version: int
) -> None:
    out += _I.pack(data.throttle_time_ms)
    out.length(len(data.results))
    for alter_user_scram_credentials_result in data.results:
        _write_alter_user_scram_credentials_result(
            out, alter_user_scram_credentials_result, version
        )
    out.append(0)


def _error_response(
    request: AlterUserScramCredentialsRequest, code: int
) -> AlterUserScramCredentialsResponse:
    return AlterUserScramCredentialsResponse(
        results=[
            *(
                AlterUserScramCredentialsResult(
                    user=scram_credential_deletion.name, error_code=code, error_message=None
                )
                for scram_credential_deletion in request.deletions
            ),
            *(
                AlterUserScramCredentialsResult(
                    user=scram_credential_upsertion.name, error_code=code, error_message=None
                )
                for scram_credential_upsertion in request.upsertions
            ),
        ]
    )


ALTER_USER_SCRAM_CREDENTIALS_MESSAGES = ApiMessages(
    key=51,
    name="AlterUserScramCredentials",
    versions=(0, 0),
    flexible_since=0,
    request=AlterUserScramCredentialsRequest,
    response=AlterUserScramCredentialsResponse,
    read_request=_read_alter_user_scram_credentials_request,
    read_response=_read_alter_user_scram_credentials_response,
    write_response=_write_alter_user_scram_credentials_response,
    error_response=_error_response,
    fields={},
    secrets=frozenset({"salted_password"}),
)
