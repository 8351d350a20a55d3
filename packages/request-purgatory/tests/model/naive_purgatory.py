"""A model of both purgatory designs: a few flat lists, and no threads."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from request_purgatory import InvalidArgumentError, PurgatoryClosedError
from tests.model.naive_timer import NS_PER_MS
from tests.support.requests import Fault

#: The exceptions of a request's own code, and of its actions that the purgatory refuses.
RAISED = (Fault, PurgatoryClosedError, InvalidArgumentError)

Event: TypeAlias = tuple[Literal["event"], str, int]
End: TypeAlias = tuple[Literal["complete", "cancel", "discard"], int]
Other: TypeAlias = (
    tuple[Literal["cancel_for_key"], str]
    | tuple[Literal["purge"]]
    | tuple[Literal["watch"], "Plan"]
)
#: An action of a request inside its tries and callbacks; requests by number, modulo their count.
Action: TypeAlias = Event | End | Other


@dataclass(eq=False)
class Plan:
    """The behaviour of a request; the model's request and the real one have the same plan.

    Its condition holds once the level of all (or any) of its keys is at least `needs`.

    Attributes:
        inner_action: The action of one of its tries, from the inside.
        inner_action_try: The number of that try; an event concerns the try that is running.
        completion_action: The action of its `on_complete`.
        cancellation_action: The action of its `on_cancellation`.
        failing_tries: The numbers of its tries that raise, counted from 1.
        failing_callbacks: Those of "complete", "expiration" and "cancellation" that raise.
    """

    keys: list[str]
    delay_ms: int
    needs: int
    every_key: bool
    inner_action: Action | None = None
    inner_action_try: int = 1
    completion_action: Action | None = None
    cancellation_action: Action | None = None
    failing_tries: frozenset[int] = frozenset()
    failing_callbacks: frozenset[str] = frozenset()

    def satisfied(self, level: Counter[str]) -> bool:
        """Return True if the condition holds."""
        quantifier = all if self.every_key else any
        return quantifier(level[key] >= self.needs for key in self.keys)


@dataclass(eq=False)
class NaiveRequest:
    """The model's request."""

    plan: Plan
    outcome: str | None = None
    tries: int = 0
    calls: list[str] = field(default_factory=list)
    met: bool = False
    entered: bool = False
    due_ms: int | None = None
    trying: bool = False
    noted: bool = False


class NaivePurgatory:
    """A model in which one list of (key, request) pairs holds all watchers and timers."""

    def __init__(self, *, legacy: bool, tick_ms: int, purge_interval: int, now_ms: int) -> None:
        self.legacy = legacy
        self.tick_ms = tick_ms
        self.purge_interval = purge_interval
        self.now_ns = now_ms * NS_PER_MS
        self.level: Counter[str] = Counter()
        self.entries: list[tuple[str, NaiveRequest]] = []
        self.queue: list[
            NaiveRequest
        ] = []  # The 0.8 design's delay queue, which keeps ended requests
        self.ends: Counter[str] = Counter()
        self.entered = 0
        self.estimate = 0
        self.since_purge = 0
        self.purges = 0
        self.callback_errors = 0
        self.is_closed = False
        #: All requests that were ever added, in order.
        self.given: list[NaiveRequest] = []

    # -- queries

    @property
    def pending(self) -> list[NaiveRequest]:
        """Return the pending requests; one about to be cancelled may have left the lists."""
        return [request for request in self.given if request.entered and request.outcome is None]

    @property
    def requests(self) -> list[NaiveRequest]:
        """Return the requests in the lists, each once."""
        return list(dict.fromkeys(request for _, request in self.entries))

    @property
    def watched(self) -> int:
        return len(self.entries) + len(self.queue)

    def watchers(self, key: str) -> list[NaiveRequest]:
        return [request for watched, request in self.entries if watched == key]

    # -- operations

    def watch(self, request: NaiveRequest) -> bool:
        """As try_complete_else_watch; raises the request's own Fault."""
        self.given.append(request)
        if self.is_closed:
            raise PurgatoryClosedError("naive")
        request.met = True
        self.entries += [(key, request) for key in request.plan.keys]
        try:
            completed = self.attempt(request)
        except RAISED:
            self.cancel_without_callback(request)
            self.leave(request)
            raise
        if request.outcome is not None:
            self.leave(request)
            return completed
        request.entered = True
        self.entered += 1
        self.estimate += 1
        self.since_purge += 1
        if request.plan.delay_ms > 0:
            self.await_timeout(request)
            return False
        try:
            self.end(request, "expired")
        except Fault:
            self.leave(request)
            raise
        return False

    def leave(self, request: NaiveRequest) -> None:
        self.entries = [entry for entry in self.entries if entry[1] is not request]

    def await_timeout(self, request: NaiveRequest) -> None:
        tick_ns = (1 if self.legacy else self.tick_ms) * NS_PER_MS
        deadline_ns = self.now_ns + request.plan.delay_ms * NS_PER_MS
        request.due_ms = -(-deadline_ns // tick_ns) * tick_ns // NS_PER_MS
        if self.legacy:
            self.queue.append(request)

    def event(self, key: str, amount: int) -> int:
        self.level[key] += amount
        return self.check(key)

    def check(self, key: str) -> int:
        """As check_and_complete; after a shutdown no list has anything left."""
        completed = 0
        for request in self.watchers(key):
            if request.outcome is None:
                try:
                    completed += self.attempt(request)
                except RAISED:
                    self.callback_errors += 1
                    completed += request.outcome == "completed"
            if request.outcome is not None and (key, request) in self.entries:
                self.entries.remove((key, request))
        return completed

    def advance(self, now_ns: int) -> None:
        """Advance the clock, expire due requests, and purge if a purge is due."""
        self.now_ns = now_ns
        now_ms = now_ns // NS_PER_MS
        for request in self.pending:
            if request.due_ms is not None and request.due_ms <= now_ms:
                try:
                    self.end(request, "expired")
                except Fault:
                    self.callback_errors += 1
        self.queue = [
            request for request in self.queue if request.due_ms is None or request.due_ms > now_ms
        ]
        if self.legacy:
            purge_due = self.since_purge >= max(self.purge_interval, 1)
        else:
            purge_due = self.estimate - len(self.pending) > self.purge_interval
        if purge_due:
            self.purge()

    def purge(self) -> int:
        """As the real `purge`.

        The new design leaves a request that ends inside its own try to the check that tries it.
        """
        before = self.watched
        self.entries = [
            (key, request)
            for key, request in self.entries
            if request.outcome is None or (request.trying and not self.legacy)
        ]
        self.queue = [request for request in self.queue if request.outcome is None]
        self.estimate = len(self.pending)
        self.since_purge = 0
        self.purges += 1
        return before - self.watched

    def cancel_for_key(self, key: str) -> list[NaiveRequest]:
        watchers = self.watchers(key)
        self.entries = [entry for entry in self.entries if entry[0] != key]
        return self.cancel_all(watchers)

    def discard(self, request: NaiveRequest) -> bool:
        """As the real `discard`."""
        if not request.met:
            raise InvalidArgumentError("operation", "one of this purgatory", request)
        cancelled = self.cancel_all([request])
        self.leave(request)
        return bool(cancelled)

    def shutdown(self, order: list[NaiveRequest]) -> list[NaiveRequest]:
        """As the real `shutdown`, in a given order, as the real one promises none."""
        self.is_closed = True
        self.entries = []
        self.queue = []
        return self.cancel_all(order)

    def perform(self, action: Action) -> None:
        """Do what a request's plan says for its tries and callbacks."""
        match action:
            case ("event", key, amount):
                self.event(key, amount)
            case ("complete", number):
                self.end(self.given[number % len(self.given)], "completed")
            case ("cancel", number):
                self.end(self.given[number % len(self.given)], "cancelled")
            case ("discard", number):
                self.discard(self.given[number % len(self.given)])
            case ("cancel_for_key", key):
                self.cancel_for_key(key)
            case ("purge",):
                self.purge()
            case ("watch", plan):
                self.watch(NaiveRequest(plan))

    # -- the life of a request

    def attempt(self, request: NaiveRequest) -> bool:
        """Try the request; try again if an event happened meanwhile that would have tried it."""
        if request.outcome is not None:
            return False
        if request.trying:
            request.noted = True
            return False
        request.trying = True
        try:
            while True:
                request.noted = False
                try:
                    completed = self.attempt_once(request)
                except RAISED:
                    if request.outcome is not None or not request.noted:
                        raise
                    self.callback_errors += 1
                else:
                    if request.outcome is not None or not request.noted:
                        return completed
        finally:
            request.trying = False

    def attempt_once(self, request: NaiveRequest) -> bool:
        plan = request.plan
        request.tries += 1
        if request.tries in plan.failing_tries:
            raise Fault
        if plan.satisfied(self.level):
            return self.end(request, "completed")
        if plan.inner_action is not None and request.tries == plan.inner_action_try:
            self.perform(plan.inner_action)
        return False

    def end(self, request: NaiveRequest, outcome: str) -> bool:
        if request.outcome is not None:
            return False
        request.outcome = outcome
        self.ends[outcome] += request.met
        if outcome == "cancelled":
            self.call(request, "cancellation", request.plan.cancellation_action)
            return True
        try:
            self.call(
                request,
                "complete",
                request.plan.completion_action if outcome == "completed" else None,
            )
        finally:
            if outcome == "expired":
                self.call(request, "expiration")
        return True

    def call(self, request: NaiveRequest, callback: str, action: Action | None = None) -> None:
        request.calls.append(callback)
        if action is not None:
            self.perform(action)
        if callback in request.plan.failing_callbacks:
            raise Fault

    def cancel_without_callback(self, request: NaiveRequest) -> None:
        """Cancel without a callback, as the caller gets the exception."""
        if request.outcome is None:
            request.outcome = "cancelled"
            self.ends["cancelled"] += 1

    def cancel_all(self, requests: list[NaiveRequest]) -> list[NaiveRequest]:
        cancelled = []
        for request in requests:
            if request.outcome is None:
                cancelled.append(request)
                try:
                    self.end(request, "cancelled")
                except RAISED:
                    self.callback_errors += 1
        return cancelled
