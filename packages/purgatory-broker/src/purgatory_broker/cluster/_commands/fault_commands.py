"""The commands that make requests and responses fail."""

from __future__ import annotations

from typing import Any

from purgatory_broker.api.registry import find_api
from purgatory_broker.api.served_api import ServedApi
from purgatory_broker.cluster._commands.arguments import INT32_MAX, require_between
from purgatory_broker.cluster._commands.command_group import CommandGroup, command, require_own_loop
from purgatory_broker.cluster.interception import InterceptFunction, Interception
from purgatory_broker.request_context import Subject
from purgatory_broker.server.faults import FaultDescription, FaultFilter, Predicate
from request_purgatory.errors import InvalidArgumentError


class FaultCommands(CommandGroup):
    @command
    def inject_request_error(
        self,
        api: str,
        error: int | str,
        *,
        times: int | None = 1,
        node: int | None = None,
        topic: str | None = None,
        partition: int | None = None,
        group: str | None = None,
        transactional_id: str | None = None,
        client_id: str | None = None,
        when: Predicate | None = None,
    ) -> int:
        """Answer the next request of an API with an error, without handling it.

        With a topic, or a partition of it, only these have the error, and the rest of the request
        is handled: in DeleteRecords, Fetch, ListOffsets, Metadata, OffsetCommit,
        OffsetForLeaderEpoch, Produce and TxnOffsetCommit, whose responses have an error for each.
        Otherwise a request that names several topics, groups or transactional ids is answered with
        the error for all. A fetch names those of its session, and has its response at once. A
        topic, a group and a transactional id need not exist yet. Metadata
        requests below version 13 that name no topic are handled, and not counted: their response
        has no place for an error.

        Args:
            api: Kafka's name of the API, such as "Produce".
            error: Kafka's name of the error, such as "NOT_ENOUGH_REPLICAS", or its number.
            times: number of requests; None is all, until `clear_faults`.
            node: only requests to this node; any node unless given.
            topic: only requests that name this topic.
            partition: only requests that name this partition of the topic.
            group: only requests that name this group.
            transactional_id: only requests that name this transactional id.
            client_id: only requests of clients with this id.
            when: only requests for which this is true: a function of the decoded request, with the
                fields of Kafka's message. It is called on the cluster's thread, where the cluster
                is in this process. What it raises fails the test, as with `intercept`.

        Returns:
            The fault's id, as in `faults`.

        Raises:
            InvalidArgumentError: the error is unknown or NONE, `times` is not allowed, or no
                request can match: there is no such node, or requests of the API name no topic,
                partition, group or transactional id.
        """
        served = find_api(api)
        only = FaultFilter(
            node=node,
            topic=topic,
            partition=partition,
            group=group,
            transactional_id=transactional_id,
            client_id=client_id,
            when=when,
        )
        self._check_filter(served, only)
        return self._faults.add_request_error(served, error, times=times, only=only)

    @command
    def inject_response_fault(
        self,
        api: str,
        kind: str,
        *,
        times: int | None = 1,
        node: int | None = None,
        delay_ms: int = 0,
        seed: int | None = None,
        topic: str | None = None,
        partition: int | None = None,
        group: str | None = None,
        transactional_id: str | None = None,
        client_id: str | None = None,
        when: Predicate | None = None,
    ) -> int:
        """Delay, drop, corrupt or cut off the next response of an API; its request is handled.

        With a topic, a partition, a group or a transactional id, the fault is limited to requests
        that name it, and arrive after this command.

        Args:
            api: Kafka's name of the API, such as "Produce".
            kind: "delay", "drop", "corrupt" or "disconnect".
            times: number of responses; None is all, until `clear_faults`.
            node: only responses of this node; any node unless given.
            delay_ms: milliseconds, for "delay".
            seed: of the random changes, for "corrupt"; a random one unless given.
            topic: only requests that name this topic.
            partition: only requests that name this partition of the topic.
            group: only requests that name this group.
            transactional_id: only requests that name this transactional id.
            client_id: only requests of clients with this id.
            when: only requests for which this is true: a function of the decoded request, with the
                fields of Kafka's message. It is called on the cluster's thread, where the cluster
                is in this process. What it raises fails the test, as with `intercept`.

        Returns:
            The fault's id, as in `faults`.

        Raises:
            InvalidArgumentError: the kind is unknown, another value is not allowed, an argument is
                of another kind, or no request can match.
        """
        served = find_api(api)
        only = FaultFilter(
            node=node,
            topic=topic,
            partition=partition,
            group=group,
            transactional_id=transactional_id,
            client_id=client_id,
            when=when,
        )
        self._check_filter(served, only)
        return self._faults.add_response_fault(
            served, kind, times=times, only=only, delay_ms=delay_ms, seed=seed
        )

    def _check_filter(self, api: ServedApi[Any, Any], only: FaultFilter) -> None:
        if only.node is not None:
            self._node(only.node)
        for subject in Subject:
            value = getattr(only, subject.value)
            if value is not None and subject not in api.names:
                requirement = f"left out for {api.name}, whose requests name no {subject.value}"
                raise InvalidArgumentError(subject.value, requirement, value)
        if only.partition is not None:
            require_between("partition", only.partition, 0, INT32_MAX)
            if only.topic is None:
                raise InvalidArgumentError("partition", "given with its topic", only.partition)

    @command
    def clear_faults(self) -> None:
        """Remove every injected request error and response fault, and every interception."""
        self._faults.clear()
        self._interceptions.clear()

    @command
    def faults(self) -> list[FaultDescription]:
        """Return the injected faults and interceptions with their hits, also those that are over.

        Returns:
            For each fault, in the order of injection: `id`, `api`, `kind`, `error`, `times` left
            (None is until it is cleared, 0 that it is over), `hits`, and the `node`, `topic`,
            `partition`, `group`, `transactional_id` and `client_id` that it is limited to, and the
            name of its `when`.
        """
        faults = [*self._faults.describe(), *self._interceptions.describe()]
        return sorted(faults, key=lambda each: each["id"])

    def intercept(
        self, api: str | None, function: InterceptFunction, *, may_be_cancelled: bool = False
    ) -> Interception:
        """Call a function with each request of an API before the broker handles it.

        A plain function may change the request. It returns None to let the broker handle it, or a
        response, or `Unanswered.DROP` or `Unanswered.DISCONNECT`. A coroutine function may also
        await `handle()` for the broker's response, and return another one or change it; and it
        may wait. The connection's next request is handled after the answer to this one.

        If several functions intercept a request, the first added is called first. The next one is
        called if it has neither answered the request nor let the broker handle it. Injected faults
        come after the functions: `handle()` returns an injected error. Followers' fetches, and
        requests of an unsupported version, are not intercepted.

        Args:
            api: Kafka's name of the API, such as "Produce"; None is every API.
            function: called on the cluster's event loop, with an `InterceptedRequest`. It must not
                block: the cluster stands still while it runs. What it raises, of whatever kind, is
                raised again at the end of the block; see `Interception`.
            may_be_cancelled: whether the function may be cancelled half way, when its client goes
                or the cluster stops. Else that is an error, since an assertion may not have run.

        Returns:
            The interception, with its hits; `remove()` or the end of its `with` block ends it.

        Raises:
            InvalidArgumentError: no API has this name, or the function is not callable.
            ClusterError: the cluster is not running, or the caller is on another thread.
        """
        require_own_loop(self, "intercept")
        found = None if api is None else find_api(api)
        return self._interceptions.add(found, function, may_be_cancelled=may_be_cancelled)
