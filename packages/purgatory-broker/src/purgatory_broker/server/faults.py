"""Faults that tests inject into requests and responses."""

from __future__ import annotations

import asyncio
import itertools
import logging
import random
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, TypeAlias, TypedDict, TypeVar

from purgatory_broker._wire.apis import Api
from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.metadata.topics import TopicPartition
from purgatory_broker.request_context import RequestContext, RequestSubjects
from request_purgatory.error_log import ErrorLog
from request_purgatory.errors import InvalidArgumentError, whole_number

logger = logging.getLogger(__name__)
_errors = ErrorLog(logger)

_CODES = frozenset(ErrorCode)
RESPONSE_FAULTS = ("delay", "drop", "corrupt", "disconnect")
#: The longest delay of a response, 24 days.
MAX_DELAY_MS = 2**31 - 1
#: The size and the correlation id, which precede the response itself.
_HEADER_BYTES = 8

#: Returns what a request names; None if that is unknown.
Subjects: TypeAlias = Callable[[], RequestSubjects | None]
#: Called with a decoded request, which has the fields of Kafka's message.
Predicate: TypeAlias = Callable[[Any], bool]


class FaultDescription(TypedDict):
    #: As returned by the command that injected the fault.
    id: int
    #: None is every API.
    api: str | None
    #: "error", "delay", "drop", "corrupt", "disconnect" or "intercept".
    kind: str
    #: Kafka's name of the error, for "error".
    error: str | None
    #: How many times are left; None is until it is cleared, 0 means that the fault is over.
    times: int | None
    hits: int
    #: The requests that the fault is limited to; None is any.
    node: int | None
    topic: str | None
    partition: int | None
    group: str | None
    transactional_id: str | None
    client_id: str | None
    #: The name of the predicate.
    when: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultFilter:
    """The requests that a fault is limited to: one of their subjects matches. None is any."""

    node: int | None = None
    topic: str | None = None
    partition: int | None = None
    group: str | None = None
    transactional_id: str | None = None
    client_id: str | None = None
    when: Predicate | None = None

    def describe(self) -> dict[str, Any]:
        """Return the limits by name; of a predicate, its name."""
        limits = {each.name: getattr(self, each.name) for each in fields(self)}
        if self.when is not None:
            limits["when"] = getattr(self.when, "__qualname__", None) or repr(self.when)
        return limits

    def names_partition(self, topic: str, partition: int | None) -> bool:
        """Return whether the filter's topic is this one, and its partition, if it has one."""
        return self.topic == topic and self.partition in (None, partition)

    @property
    def needs_subjects(self) -> bool:
        subjects = (self.topic, self.group, self.transactional_id)
        return any(subject is not None for subject in subjects)

    def matches(self, node: int, client_id: str, subjects: Subjects) -> bool:
        """Return whether a request matches, apart from `when`."""
        if self.node not in (None, node) or self.client_id not in (None, client_id):
            return False
        if not self.needs_subjects:
            return True
        named = subjects()
        if named is None or (self.group is not None and self.group not in named.groups):
            return False
        if self.transactional_id not in (None, *named.transactional_ids):
            return False
        if self.topic is None:
            return True
        if self.partition is None:
            return self.topic in named.topics
        return TopicPartition(self.topic, self.partition) in named.partitions


#: The names of what a fault may be limited by, as in its description.
FAULT_LIMITS = tuple(each.name for each in fields(FaultFilter))


@dataclass(slots=True, kw_only=True)
class Fault:
    id: int
    #: None is every API.
    api: Api | None
    #: None is until it is cleared.
    times: int | None
    filter: FaultFilter
    kind: str
    #: Kafka's name of the error that requests are answered with.
    error: str | None = None
    hits: int = 0

    def describe(self) -> FaultDescription:
        return {
            "id": self.id,
            "api": None if self.api is None else self.api.name,
            "kind": self.kind,
            "error": self.error,
            "times": self.times,
            "hits": self.hits,
            **self.filter.describe(),  # type: ignore[typeddict-item]
        }


@dataclass(slots=True, kw_only=True)
class ResponseFault(Fault):
    """A fault of an API's responses; the requests have been handled.

    Kinds:
        `delay`: Send the response after `delay_ms`.
        `drop`: Never send the response, nor any later one on the connection.
        `corrupt`: Change bytes of the response's body.
        `disconnect`: Close the connection instead of sending the response.
    """

    delay_ms: int = 0
    random: random.Random = field(default_factory=random.Random)

    def apply(
        self,
        frame: bytes | bytearray,
        write: Callable[[bytes | bytearray], None],
        disconnect: Callable[[], None],
    ) -> None:
        if self.kind == "delay":
            asyncio.get_running_loop().call_later(self.delay_ms / 1_000, write, frame)
        elif self.kind == "corrupt":
            write(self.corrupt(frame))
        elif self.kind == "disconnect":
            disconnect()
        # After `drop` the request has no response, and no later one on this connection is handled.

    def corrupt(self, frame: bytes | bytearray) -> bytes:
        """Return a frame with some bytes changed, but the same size and correlation id."""
        changed = bytearray(frame)
        body = len(changed) - _HEADER_BYTES
        for _ in range(max(1, body // 16)):
            if body > 0:
                changed[_HEADER_BYTES + self.random.randrange(body)] ^= self.random.randrange(
                    1, 256
                )
        return bytes(changed)


F = TypeVar("F", bound=Fault)


class Faults:
    """The faults in the order of their injection; one that is over stays until `clear`."""

    def __init__(self) -> None:
        #: The ids of faults.
        self.ids = itertools.count(1)
        #: Called with a fault's id when a request or a response has met it.
        self.on_hit: Callable[[int], None] = lambda _fault: None
        #: Called with what a predicate has raised.
        self.on_error: Callable[[BaseException], None] = lambda _error: None
        self._all: list[Fault] = []
        self._requests: list[Fault] = []
        self._responses: list[ResponseFault] = []

    def add_request_error(
        self, api: Api, error: str | int, *, times: int | None, only: FaultFilter
    ) -> int:
        """Answer the next requests of an API with an error, unhandled; None times is all."""
        fault = Fault(
            kind="error",
            error=error_code(error).name,
            times=_times(times),
            id=next(self.ids),
            api=api,
            filter=only,
        )
        self._requests.append(fault)
        self._all.append(fault)
        return fault.id

    def add_response_fault(
        self,
        api: Api,
        kind: str,
        *,
        times: int | None,
        only: FaultFilter,
        delay_ms: int,
        seed: int | None,
    ) -> int:
        """None times is all; `delay_ms` is for `delay`, `seed` for the bytes of `corrupt`."""
        if kind not in RESPONSE_FAULTS:
            raise InvalidArgumentError("kind", f"one of {', '.join(RESPONSE_FAULTS)}", kind)
        if kind == "delay" and not 1 <= whole_number("delay_ms", delay_ms) <= MAX_DELAY_MS:
            raise InvalidArgumentError("delay_ms", f"between 1 and {MAX_DELAY_MS}", delay_ms)
        if kind != "delay" and delay_ms:
            raise InvalidArgumentError("delay_ms", f"left out for {kind}", delay_ms)
        if kind != "corrupt" and seed is not None:
            raise InvalidArgumentError("seed", f"left out for {kind}", seed)
        fault = ResponseFault(
            times=_times(times),
            id=next(self.ids),
            api=api,
            filter=only,
            kind=kind,
            delay_ms=delay_ms,
            random=random.Random(seed),
        )
        self._responses.append(fault)
        self._all.append(fault)
        return fault.id

    def clear(self) -> None:
        self._requests.clear()
        self._responses.clear()
        self._all.clear()

    def describe(self) -> list[FaultDescription]:
        return [fault.describe() for fault in self._all]

    @property
    def has_request_errors(self) -> bool:
        return bool(self._requests)

    def needs_subjects(self, api: Api) -> bool:
        return bool(self._responses) and any(
            fault.api is api and fault.filter.needs_subjects for fault in self._responses
        )

    def needs_request(self, api: Api) -> bool:
        return bool(self._responses) and any(
            fault.api is api and fault.filter.when is not None for fault in self._responses
        )

    def take_request_error(
        self, node: int, context: RequestContext, subjects: Subjects, request: Any
    ) -> tuple[ErrorCode, FaultFilter] | None:
        """Return the error for a request and what it is for; counts as one of the times."""
        fault = self._take(self._requests, node, context, subjects, request)
        if fault is None or fault.error is None:
            return None
        return ErrorCode[fault.error], fault.filter

    def take_response_fault(self, node: int, context: RequestContext) -> ResponseFault | None:
        """Return the fault of a response, or None; counts as one of the fault's times."""
        if not self._responses:
            return None
        return self._take(self._responses, node, context, lambda: context.subjects, context.request)

    def _take(
        self,
        faults: list[F],
        node: int,
        context: RequestContext,
        subjects: Subjects,
        request: Any,
    ) -> F | None:
        api, client_id = context.header.api, context.client.client_id
        for fault in faults:
            if (
                fault.api is api
                and fault.filter.matches(node, client_id, subjects)
                and self._is_wanted(fault, request)
            ):
                fault.hits += 1
                if fault.times is not None:
                    fault.times -= 1
                    if fault.times == 0:
                        faults.remove(fault)
                self.on_hit(fault.id)
                return fault
        return None

    def _is_wanted(self, fault: Fault, request: Any) -> bool:
        when = fault.filter.when
        try:
            return when is None or bool(when(request))
        except BaseException as error:  # As of `pytest.fail`. The test is to see it.
            _errors.log(error, "the predicate of fault %d failed", fault.id)
            self.on_error(error)
            return False


def error_code(error: str | int) -> ErrorCode:
    code: ErrorCode | None = None
    if isinstance(error, str):
        code = ErrorCode.__members__.get(error.upper())
    elif isinstance(error, int) and not isinstance(error, bool) and error in _CODES:
        code = ErrorCode(error)
    if code is None or code is ErrorCode.NONE:
        raise InvalidArgumentError(
            "error", "the name or number of an error of Kafka's protocol, other than NONE", error
        )
    return code


def _times(times: int | None) -> int | None:
    if times is not None and whole_number("times", times) < 1:
        raise InvalidArgumentError("times", "at least 1, or None for until it is cleared", times)
    return times
