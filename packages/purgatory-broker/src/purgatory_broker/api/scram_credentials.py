"""AlterUserScramCredentials and DescribeUserScramCredentials: users' credentials."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker._wire.limits import truncate_message
from purgatory_broker._wire.protocol.alter_user_scram_credentials import (
    ALTER_USER_SCRAM_CREDENTIALS_MESSAGES,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from purgatory_broker._wire.protocol.describe_user_scram_credentials import (
    DESCRIBE_USER_SCRAM_CREDENTIALS_MESSAGES,
    CredentialInfo,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.served_api import ServedApi
from purgatory_broker.metadata.scram import (
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    ScramCredential,
    ScramMechanism,
    salted_credential,
)
from purgatory_broker.metadata.scram_credentials import ScramCredentials
from purgatory_broker.metadata.topics import ControllerError
from purgatory_broker.request_context import RequestContext

#: The most users with credentials: each costs up to some kilobytes for ever.
MAX_USERS = 10_000


@dataclass(frozen=True, slots=True)
class _Deletion:
    """A credential to delete; the mechanism is a number of the protocol, or unknown."""

    user: str
    mechanism: int


@dataclass(frozen=True, slots=True)
class _Upsertion:
    user: str
    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class _AlterCredentials:
    deletions: tuple[_Deletion, ...]
    upsertions: tuple[_Upsertion, ...]

    @property
    def changes(self) -> list[_Deletion | _Upsertion]:
        return [*self.deletions, *self.upsertions]


class _Refusal(NamedTuple):
    code: ErrorCode
    message: str


_TWICE = _Refusal(
    ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request"
)


def _decode_alter_user_scram_credentials(
    message: Any, context: RequestContext
) -> _AlterCredentials:
    return _AlterCredentials(
        tuple(_Deletion(deletion.name, deletion.mechanism) for deletion in message.deletions),
        tuple(
            _Upsertion(
                upsertion.name,
                upsertion.mechanism,
                upsertion.iterations,
                bytes(upsertion.salt),
                bytes(upsertion.salted_password),
            )
            for upsertion in message.upsertions
        ),
    )


def _alter_user_scram_credentials(
    broker: BrokerApi, context: RequestContext, request: _AlterCredentials
) -> Any:
    """All changes of a user that is named twice are refused."""
    credentials = broker.scram_credentials
    changes: dict[str, _Deletion | _Upsertion] = {}
    refusals: dict[str, _Refusal] = {}
    users = set(credentials.users)
    for change in request.changes:
        if change.user in refusals:
            continue
        if changes.pop(change.user, None) is not None:
            refusals[change.user] = _TWICE
            continue
        refusal = _check(credentials, change, users)
        if refusal is None:
            users.add(change.user)
            changes[change.user] = change
        else:
            refusals[change.user] = refusal
    try:
        credentials.alter(
            {
                (change.user, ScramMechanism(change.mechanism)): _credential(change)
                for change in changes.values()
            }
        )
    except ControllerError as error:
        refusals |= dict.fromkeys(changes, _Refusal(error.code, str(error)))
        changes.clear()
    return AlterUserScramCredentialsResponse(
        results=[
            *(_altered(user, ErrorCode.NONE, None) for user in changes),
            *(_altered(user, *refusal) for user, refusal in refusals.items()),
        ]
    )


def _check(
    credentials: ScramCredentials, change: _Deletion | _Upsertion, users: set[str]
) -> _Refusal | None:
    """Return why a change is refused; None if it is allowed."""
    if not change.user:
        return _Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if change.mechanism not in list(ScramMechanism):
        return _Refusal(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    if isinstance(change, _Deletion):
        if not credentials.has(change.user, ScramMechanism(change.mechanism)):
            return _Refusal(
                ErrorCode.RESOURCE_NOT_FOUND,
                "Attempt to delete a user credential that does not exist",
            )
        return None
    if change.iterations < MIN_ITERATIONS:
        return _Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if change.iterations > MAX_ITERATIONS:
        return _Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    if change.user not in users and len(users) >= MAX_USERS:
        return _Refusal(ErrorCode.POLICY_VIOLATION, f"There are {MAX_USERS} users")
    return None


def _credential(change: _Deletion | _Upsertion) -> ScramCredential | None:
    if isinstance(change, _Deletion):
        return None
    mechanism = ScramMechanism(change.mechanism)
    return salted_credential(mechanism, change.salt, change.iterations, change.salted_password)


def _altered(user: str, code: ErrorCode, message: str | None) -> Any:
    return AlterUserScramCredentialsResult(
        user=user, error_code=int(code), error_message=truncate_message(message)
    )


def _refuse_alter_user_scram_credentials(request: _AlterCredentials, code: ErrorCode) -> Any:
    return AlterUserScramCredentialsResponse(
        results=[
            _altered(user, code, None)
            for user in dict.fromkeys(change.user for change in request.changes)
        ]
    )


ALTER_USER_SCRAM_CREDENTIALS = ServedApi(
    messages=ALTER_USER_SCRAM_CREDENTIALS_MESSAGES,
    versions=(0, 0),
    needs_controller=True,
    decode=_decode_alter_user_scram_credentials,
    answer=_alter_user_scram_credentials,
    refuse=_refuse_alter_user_scram_credentials,
    secrets=frozenset({"salted_password"}),
)


@dataclass(frozen=True, slots=True)
class _DescribeCredentials:
    """A decoded request: how often it names each user; None asks for all users."""

    users: Counter[str] | None


def _decode_describe_user_scram_credentials(
    message: Any, context: RequestContext
) -> _DescribeCredentials:
    """Return the request of a message; as in Kafka, an empty list asks for all users."""
    if not message.users:
        return _DescribeCredentials(None)
    return _DescribeCredentials(Counter(user.name for user in message.users))


def _describe_user_scram_credentials(
    broker: BrokerApi, context: RequestContext, request: _DescribeCredentials
) -> Any:
    users = Counter(broker.scram_credentials.users) if request.users is None else request.users
    return DescribeUserScramCredentialsResponse(
        error_message=None,
        results=[_describe(broker, user, times) for user, times in users.items()],
    )


def _describe(broker: BrokerApi, user: str, times: int) -> Any:
    by_mechanism = broker.scram_credentials.iterations(user)
    if times > 1:
        return _failure(
            user,
            ErrorCode.DUPLICATE_RESOURCE,
            "Cannot describe SCRAM credentials for the same user twice in a single request: "
            f"{user}",
        )
    if not by_mechanism:
        return _failure(
            user,
            ErrorCode.RESOURCE_NOT_FOUND,
            f"Attempt to describe a user credential that does not exist: {user}",
        )
    return DescribeUserScramCredentialsResult(
        user=user,
        error_message=None,
        credential_infos=[
            CredentialInfo(mechanism=int(mechanism), iterations=iterations)
            for mechanism, iterations in by_mechanism.items()
        ],
    )


def _failure(user: str, code: ErrorCode, message: str | None) -> Any:
    return DescribeUserScramCredentialsResult(
        user=user,
        error_code=int(code),
        error_message=truncate_message(message),
        credential_infos=[],
    )


def _refuse_describe_user_scram_credentials(request: _DescribeCredentials, code: ErrorCode) -> Any:
    return DescribeUserScramCredentialsResponse(
        error_code=int(code),
        error_message=None,
        results=[_failure(user, code, None) for user in request.users or ()],
    )


DESCRIBE_USER_SCRAM_CREDENTIALS = ServedApi(
    messages=DESCRIBE_USER_SCRAM_CREDENTIALS_MESSAGES,
    versions=(0, 0),
    decode=_decode_describe_user_scram_credentials,
    answer=_describe_user_scram_credentials,
    refuse=_refuse_describe_user_scram_credentials,
)
