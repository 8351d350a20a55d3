"""DescribeUserScramCredentials: list users and the iterations of their credentials."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from kafka.protocol.admin import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)

from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.served_api import ServedApi, no_subjects
from purgatory_broker.request_context import RequestContext
from purgatory_broker.wire.error_code import ErrorCode
from purgatory_broker.wire.limits import truncate_message

_Result = DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult
_Credential = _Result.CredentialInfo


@dataclass(frozen=True, slots=True)
class _DescribeCredentials:
    """A decoded request: how often it names each user; None asks for all users."""

    users: Counter[str] | None


def _decode(message: Any, context: RequestContext) -> _DescribeCredentials:
    """Return the request of a message; as in Kafka, an empty list asks for all users."""
    if not message.users:
        return _DescribeCredentials(None)
    return _DescribeCredentials(Counter(user.name for user in message.users))


def _describe_user_scram_credentials(
    broker: BrokerApi, context: RequestContext, request: _DescribeCredentials
) -> None:
    users = Counter(broker.scram_credentials.users) if request.users is None else request.users
    context.reply(
        DescribeUserScramCredentialsResponse(
            error_code=0,
            error_message=None,
            results=[_describe(broker, user, times) for user, times in users.items()],
        )
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
    return _Result(
        user=user,
        error_code=0,
        error_message=None,
        credential_infos=[
            _Credential(mechanism=int(mechanism), iterations=iterations)
            for mechanism, iterations in by_mechanism.items()
        ],
    )


def _failure(user: str, code: ErrorCode, message: str | None) -> Any:
    return _Result(
        user=user,
        error_code=int(code),
        error_message=truncate_message(message),
        credential_infos=[],
    )


def _error_response(request: _DescribeCredentials, code: ErrorCode) -> Any:
    return DescribeUserScramCredentialsResponse(
        error_code=int(code),
        error_message=None,
        results=[_failure(user, code, None) for user in request.users or ()],
    )


API = ServedApi(
    key=50,
    name="DescribeUserScramCredentials",
    request=DescribeUserScramCredentialsRequest,
    response=DescribeUserScramCredentialsResponse,
    min_version=0,
    max_version=0,
    decode=_decode,
    handle=_describe_user_scram_credentials,
    error_response=_error_response,
    subjects=no_subjects,
)
