"""AlterUserScramCredentials and DescribeUserScramCredentials: users' credentials."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple, TypeAlias

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker._wire.limits import truncate_message
from purgatory_broker._wire.protocol.alter_user_scram_credentials import (
    ALTER_USER_SCRAM_CREDENTIALS_MESSAGES,
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from purgatory_broker._wire.protocol.describe_user_scram_credentials import (
    DESCRIBE_USER_SCRAM_CREDENTIALS_MESSAGES,
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.served_api import ServedApi
from purgatory_broker.metadata.acls import AclOperation, AclResource
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


_Change: TypeAlias = ScramCredentialDeletion | ScramCredentialUpsertion


def _changes(request: AlterUserScramCredentialsRequest) -> list[_Change]:
    return [*request.deletions, *request.upsertions]


class _Refusal(NamedTuple):
    code: ErrorCode
    message: str


_TWICE = _Refusal(
    ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request"
)


def _alter_user_scram_credentials(
    broker: BrokerApi, context: RequestContext, request: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse:
    """All changes of a user that is named twice are refused."""
    credentials = broker.scram_credentials
    changes: dict[str, _Change] = {}
    refusals: dict[str, _Refusal] = {}
    users = set(credentials.users)
    for change in _changes(request):
        if change.name in refusals:
            continue
        if changes.pop(change.name, None) is not None:
            refusals[change.name] = _TWICE
            continue
        refusal = _check(credentials, change, users)
        if refusal is None:
            users.add(change.name)
            changes[change.name] = change
        else:
            refusals[change.name] = refusal
    try:
        credentials.alter(
            {
                (change.name, ScramMechanism(change.mechanism)): _credential(change)
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


def _check(credentials: ScramCredentials, change: _Change, users: set[str]) -> _Refusal | None:
    """Return why a change is refused; None if it is allowed."""
    if not change.name:
        return _Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if change.mechanism not in list(ScramMechanism):
        return _Refusal(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    if isinstance(change, ScramCredentialDeletion):
        if not credentials.has(change.name, ScramMechanism(change.mechanism)):
            return _Refusal(
                ErrorCode.RESOURCE_NOT_FOUND,
                "Attempt to delete a user credential that does not exist",
            )
        return None
    if change.iterations < MIN_ITERATIONS:
        return _Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if change.iterations > MAX_ITERATIONS:
        return _Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    if change.name not in users and len(users) >= MAX_USERS:
        return _Refusal(ErrorCode.POLICY_VIOLATION, f"There are {MAX_USERS} users")
    return None


def _credential(change: _Change) -> ScramCredential | None:
    if isinstance(change, ScramCredentialDeletion):
        return None
    mechanism = ScramMechanism(change.mechanism)
    return salted_credential(mechanism, change.salt, change.iterations, change.salted_password)


def _altered(user: str, code: ErrorCode, message: str | None) -> AlterUserScramCredentialsResult:
    return AlterUserScramCredentialsResult(
        user=user, error_code=code, error_message=truncate_message(message)
    )


def _refuse_alter_user_scram_credentials(
    request: AlterUserScramCredentialsRequest, code: ErrorCode, version: int
) -> AlterUserScramCredentialsResponse:
    """Return the response with an error for every user, once."""
    names = dict.fromkeys(change.name for change in _changes(request))
    return AlterUserScramCredentialsResponse(results=[_altered(name, code, None) for name in names])


ALTER_USER_SCRAM_CREDENTIALS = ServedApi(
    messages=ALTER_USER_SCRAM_CREDENTIALS_MESSAGES,
    versions=(0, 0),
    requires={AclResource.CLUSTER: AclOperation.ALTER},
    needs_controller=True,
    answer=_alter_user_scram_credentials,
    refuse=_refuse_alter_user_scram_credentials,
)


def _describe_user_scram_credentials(
    broker: BrokerApi, context: RequestContext, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    """Answer; as in Kafka, an empty list asks for all users."""
    users = Counter(user.name for user in request.users or ()) or Counter(
        broker.scram_credentials.users
    )
    return DescribeUserScramCredentialsResponse(
        error_message=None,
        results=[_describe(broker, user, times) for user, times in users.items()],
    )


def _describe(broker: BrokerApi, user: str, times: int) -> DescribeUserScramCredentialsResult:
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


def _failure(user: str, code: ErrorCode, message: str | None) -> DescribeUserScramCredentialsResult:
    return DescribeUserScramCredentialsResult(
        user=user,
        error_code=int(code),
        error_message=truncate_message(message),
        credential_infos=[],
    )


def _refuse_describe_user_scram_credentials(
    request: DescribeUserScramCredentialsRequest, code: ErrorCode, version: int
) -> DescribeUserScramCredentialsResponse:
    """Return the response with an error for every user, once."""
    names = dict.fromkeys(user.name for user in request.users or ())
    return DescribeUserScramCredentialsResponse(
        error_code=code,
        error_message=None,
        results=[_failure(name, code, None) for name in names],
    )


DESCRIBE_USER_SCRAM_CREDENTIALS = ServedApi(
    messages=DESCRIBE_USER_SCRAM_CREDENTIALS_MESSAGES,
    versions=(0, 0),
    requires={AclResource.CLUSTER: AclOperation.DESCRIBE},
    answer=_describe_user_scram_credentials,
    refuse=_refuse_describe_user_scram_credentials,
)
