"""Writes what the broker lacks into docs/kafka_tests.md: what Kafka has, and the code has not.

    python tools/limits_page.py            write it
    python tools/limits_page.py --check    exit code 1 if it is out of date

A test runs the check. What is added to the broker leaves the list by itself. The list looks for
APIs in the registry, and for settings in the sources: one that no module names takes no effect.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from textwrap import fill

import purgatory_broker
from purgatory_broker.api.registry import APIS
from purgatory_broker.metadata import (
    broker_configs,
    client_quotas,
    resource_configs,
    topic_configs,
)
from purgatory_broker.setting_checks import SASL_MECHANISMS

PAGE = Path(__file__).parents[1] / "docs" / "kafka_tests.md"
BEGIN = "<!-- This list is made by tools/limits_page.py. -->\n"
END = "<!-- The end of the list. -->\n"

#: What an API is for, of those of Kafka 4.1 that clients send and that the broker may lack.
PURPOSES = {
    "The consumer group protocol of KIP-848": ("ConsumerGroupHeartbeat", "ConsumerGroupDescribe"),
    "Share groups (KIP-932)": (
        "ShareGroupHeartbeat",
        "ShareGroupDescribe",
        "ShareFetch",
        "ShareAcknowledge",
        "DescribeShareGroupOffsets",
        "AlterShareGroupOffsets",
        "DeleteShareGroupOffsets",
    ),
    "Streams groups (KIP-1071)": ("StreamsGroupHeartbeat", "StreamsGroupDescribe"),
    "Topics described in pages of partitions": ("DescribeTopicPartitions",),
    "Client metrics that are pushed to the broker (KIP-714)": (
        "GetTelemetrySubscriptions",
        "PushTelemetry",
    ),
    "Delegation tokens": (
        "CreateDelegationToken",
        "RenewDelegationToken",
        "ExpireDelegationToken",
        "DescribeDelegationToken",
    ),
    "Replicas that move between log directories": ("AlterReplicaLogDirs",),
    "Features that change at run time": ("UpdateFeatures",),
    "Voters and brokers that are added or removed": (
        "AddRaftVoter",
        "RemoveRaftVoter",
        "UnregisterBroker",
    ),
}
#: Versions that Kafka 4.1 serves with `unstable.api.versions.enable` alone.
UNSTABLE = {"InitProducerId": 6, "OffsetCommit": 10, "OffsetFetch": 10}
#: The login mechanisms of Kafka.
MECHANISMS = ("GSSAPI", "OAUTHBEARER", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
#: The modules that define settings, and so name each.
_TABLES = (broker_configs, client_quotas, resource_configs, topic_configs)


def limits() -> Iterator[str]:
    """Yield what each limit is."""
    served = {api.name for api in APIS.values()}
    for purpose, names in PURPOSES.items():
        lacking = [name for name in names if name not in served]
        if lacking:
            yield f"{purpose}: {_listed(lacking)}"
    for api in APIS.values():
        latest = api.messages.versions[1]
        latest -= UNSTABLE.get(api.name) == latest
        if api.max_version < latest:
            yield f"Versions of {api.name} after {api.max_version}"
    mechanisms = [each for each in MECHANISMS if each not in SASL_MECHANISMS]
    if mechanisms:
        yield f"Logins by {_listed(mechanisms)}"
    of_topics = _unused(topic_configs.TOPIC_CONFIGS)
    for whose, unused in (
        ("topics", of_topics),
        ("groups", _unused(resource_configs.GROUP_CONFIGS)),
        ("brokers, at run time", list(_without_effect(of_topics))),
        ("quotas", _unused(client_quotas.QUOTA_KEYS)),
    ):
        if unused:
            yield f"Effects of these settings of {whose}, which are stored: {_listed(unused)}"


def _without_effect(unused_of_topics: list[str]) -> Iterator[str]:
    """Yield the settings of brokers that are no limits, and no defaults with an effect."""
    for name in broker_configs.BROKER_CONFIGS:
        topic_config = broker_configs.TOPIC_DEFAULTS.get(name)
        is_used = topic_config not in unused_of_topics
        if not is_used or (topic_config is None and name not in broker_configs.LIMITS):
            yield name


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _unused(names: Iterable[str]) -> list[str]:
    """Return the names that no module of the broker has but those that define them."""
    tables = {Path(str(module.__file__)) for module in _TABLES}
    package = Path(str(purgatory_broker.__file__)).parent
    text = "\n".join(
        path.read_text(encoding="utf-8")
        for path in sorted(package.rglob("*.py"))
        if path not in tables
    )
    return [name for name in names if f'"{name}"' not in text]


def page(text: str) -> str:
    """Return the page with its list made anew.

    Args:
        text: The page as it is.
    """
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    lines = [
        fill(
            f"- {limit}",
            100,
            subsequent_indent="  ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        for limit in limits()
    ]
    return before + BEGIN + "\n" + "\n".join(lines) + "\n\n" + END + after


def main(arguments: list[str]) -> int:
    """Write the page, or check it.

    Returns:
        The exit code.
    """
    before = PAGE.read_text(encoding="utf-8")
    after = page(before)
    if "--check" in arguments:
        return int(before != after)
    PAGE.write_text(after, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
