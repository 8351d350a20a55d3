"""The messages of AlterUserScramCredentials.

Made from Kafka 4.1.1's schemas: do not edit.
"""

from __future__ import annotations

import struct

from purgatory_broker._wire.api_messages import NEW_LIST, ApiMessages, MessageStruct
from purgatory_broker._wire.reader import Reader
from purgatory_broker._wire.writer import Writer

_B = struct.Struct(">b")
_BI = struct.Struct(">bi")
_H = struct.Struct(">h")
_I = struct.Struct(">i")


class ScramCredentialDeletion(MessageStruct):
    """ScramCredentialDeletion of Kafka."""

    __slots__ = ("name", "mechanism")
    name: str
    mechanism: int

    def __init__(self, name: str = "", mechanism: int = 0) -> None:
        self.name = name
        self.mechanism = mechanism


class ScramCredentialUpsertion(MessageStruct):
    """ScramCredentialUpsertion of Kafka."""

    __slots__ = ("name", "mechanism", "iterations", "salt", "salted_password")
    name: str
    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes
    hidden_fields = ("salted_password",)

    def __init__(
        self,
        name: str = "",
        mechanism: int = 0,
        iterations: int = 0,
        salt: bytes = b"",
        salted_password: bytes = b"",
    ) -> None:
        self.name = name
        self.mechanism = mechanism
        self.iterations = iterations
        self.salt = salt
        self.salted_password = salted_password


class AlterUserScramCredentialsRequest(MessageStruct):
    """AlterUserScramCredentialsRequest of Kafka."""

    __slots__ = ("deletions", "upsertions")
    deletions: list[ScramCredentialDeletion]
    upsertions: list[ScramCredentialUpsertion]

    def __init__(
        self,
        deletions: list[ScramCredentialDeletion] = NEW_LIST,
        upsertions: list[ScramCredentialUpsertion] = NEW_LIST,
    ) -> None:
        self.deletions = [] if deletions is NEW_LIST else deletions
        self.upsertions = [] if upsertions is NEW_LIST else upsertions


class AlterUserScramCredentialsResult(MessageStruct):
    """AlterUserScramCredentialsResult of Kafka."""

    __slots__ = ("user", "error_code", "error_message")
    user: str
    error_code: int
    error_message: str | None

    def __init__(self, user: str = "", error_code: int = 0, error_message: str | None = "") -> None:
        self.user = user
        self.error_code = error_code
        self.error_message = error_message


class AlterUserScramCredentialsResponse(MessageStruct):
    """AlterUserScramCredentialsResponse of Kafka."""

    __slots__ = ("throttle_time_ms", "results")
    throttle_time_ms: int
    results: list[AlterUserScramCredentialsResult]

    def __init__(
        self, throttle_time_ms: int = 0, results: list[AlterUserScramCredentialsResult] = NEW_LIST
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = [] if results is NEW_LIST else results


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
