"""The topics that match the regular expressions of consumer groups."""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass, field

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.groups.change import Change
from purgatory_broker.groups.consumer.membership import ConsumerMembership
from purgatory_broker.groups.group_messages import GroupError
from purgatory_broker.groups.modern.consumer_group import ConsumerGroup
from purgatory_broker.groups.modern.group import ModernGroup
from purgatory_broker.groups.modern.record_values import ConsumerMemberValue, ResolvedRegex
from purgatory_broker.groups.modern.records import RecordKind
from purgatory_broker.patterns.cursor import PatternError
from purgatory_broker.patterns.pattern import Pattern

logger = logging.getLogger(__name__)

#: Returns those of some topics that a client may describe; None if it may describe all.
Describable = Callable[[Iterable[str]], Container[str]] | None

#: The kind of the wait for the next slice of the work.
REGEX = "regex"
#: Kafka's REGEX_BATCH_REFRESH_MIN_INTERVAL_MS.
_LEAST_INTERVAL_MS = 10_000
#: After which a slice begins; a timer without a delay would not give way to the event loop.
_PAUSE_MS = 1


@dataclass(slots=True, eq=False)
class Regexes:
    """Looks for topics after a heartbeat, for all regular expressions of a group together.

    As in Kafka that is at most every 10 seconds, when there is an expression that was not looked
    for yet, when topics were created, and after the refresh interval. The event loop has its turn
    after each slice of the work. The group gets another epoch if topics were found or are gone.
    Topics that the member of the heartbeat may not describe are not found, for any member.
    """

    membership: ConsumerMembership
    now_ms: Callable[[], int]
    refresh_interval_ms: int
    #: Incremented when topics are created: earlier results are out of date.
    version: int = 1
    _work: dict[ConsumerGroup, Iterator[None]] = field(default_factory=dict)

    def is_resolved_change(
        self, group: ConsumerGroup, former: ConsumerMemberValue, member: ConsumerMemberValue
    ) -> bool:
        """Return whether a member has another expression whose topics are known.

        Refuse an expression that is not valid; it is not looked at otherwise.
        """
        regex = member.regex
        if regex == former.regex or not regex:
            return False
        if not group.num_regex_subscribers(regex):
            _compiled(regex, group.group_id)
            return False
        return regex in group.regexes

    def refresh(self, group: ConsumerGroup, describable: Describable = None) -> None:
        """Begin to look for the topics of a group's regular expressions, if that is due."""
        if not group.subscribed_regexes or group in self._work:
            return
        now_ms = self.now_ms()
        last_ms = max((each.timestamp_ms for each in group.regexes.values()), default=None)
        if last_ms is not None and now_ms <= last_ms + _LEAST_INTERVAL_MS:
            return
        is_due = (
            last_ms is None
            or group.subscribed_regexes != set(group.regexes)
            or min(each.version for each in group.regexes.values()) < self.version
            or now_ms > last_ms + self.refresh_interval_ms
        )
        if is_due:
            self._work[group] = self._resolve(group, describable)
            self.membership.timers.schedule(group, "", REGEX, _PAUSE_MS)

    def go_on(self, group: ModernGroup) -> None:
        """Do the next slice of the work."""
        assert isinstance(group, ConsumerGroup)
        if group not in self._work:
            return
        try:
            next(self._work[group])
        except StopIteration:
            del self._work[group]
        else:
            self.membership.timers.schedule(group, "", REGEX, _PAUSE_MS)

    def forget(self, group: ModernGroup) -> None:
        """Do no more for a group that this node does not coordinate any more."""
        if isinstance(group, ConsumerGroup):
            self._work.pop(group, None)

    def _resolve(self, group: ConsumerGroup, describable: Describable) -> Iterator[None]:
        version = self.version
        matching: dict[str, set[str]] = {}
        names = list(self.membership.metadata.topics)
        for regex in sorted(group.subscribed_regexes):
            found = matching[regex] = set()
            try:
                pattern = _compiled(regex, group.group_id)
            except GroupError:  # Stored by a broker that takes other expressions.
                logger.error("group %r: the expression %r is invalid", group.group_id, regex)
                continue
            for name in names:
                if (yield from pattern.match(name)):
                    found.add(name)
        if describable is not None:
            allowed = describable(sorted(set().union(*matching.values())))
            for found in matching.values():
                found.intersection_update([name for name in found if name in allowed])
        self._store(group, version, matching)

    def _store(self, group: ConsumerGroup, version: int, matching: dict[str, set[str]]) -> None:
        shards = self.membership.shards
        shard = shards.by_partition.get(shards.partition_for(group.group_id))
        if shard is None or shard.groups.get(group.group_id) is not group:
            return
        change = Change(shards, shard, group)
        before = group.subscribed_topics
        changed = False
        for regex, topics in matching.items():
            if not group.num_regex_subscribers(regex):
                continue  # Its last member has left in the meantime.
            known = group.regexes.get(regex)
            changed |= (known.topics if known is not None else frozenset()) != topics
            resolved = ResolvedRegex(frozenset(topics), version, self.now_ms())
            change.put(RecordKind.CONSUMER_REGEX, resolved, regex)
        if changed or group.subscribed_topics != before:
            self.membership.put_epoch(change, bump=True)
        change.append(self.membership.actions, lambda error: self._stored(group, error))

    def _stored(self, group: ConsumerGroup, error: ErrorCode) -> None:
        if error is not ErrorCode.NONE:
            logger.warning(
                "group %r: cannot store the topics of its expressions: %s",
                group.group_id,
                error.name,
            )


def _compiled(regex: str, group_id: str) -> Pattern:
    try:
        return Pattern(regex)
    except PatternError as error:
        raise GroupError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            group_id,
            f"SubscribedTopicRegex `{regex}` is not a valid regular expression: "
            f"{error.description}.",
        ) from error
