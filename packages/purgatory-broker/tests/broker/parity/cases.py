"""All cases, in the order in which they run."""

from __future__ import annotations

import importlib
from pathlib import Path

from tests.broker.parity.case import CASES, Case
from tests.broker.parity.secured import SECURED_CASES

for _module in sorted(Path(__file__).parent.glob("*_cases.py")):
    importlib.import_module(f"tests.broker.parity.{_module.stem}")


#: Its cases set min.insync.replicas for all brokers. Kafka 4.1.1 writes a record of each topic
#: then, and a node that starts again can't read such a record of a topic that is new to it.
_NO_NODE_STARTS_AFTER = "dynamic_config_cases"


def all_cases() -> list[Case]:
    """Return the cases by name; those that stop nodes are last, but for what Kafka can't bear."""

    def order(each: Case) -> tuple[bool, bool, str]:
        is_last = each.look.__module__.endswith(_NO_NODE_STARTS_AFTER)
        return is_last, each.stops_nodes, each.name

    return sorted(CASES.values(), key=order)


def secured_cases() -> list[Case]:
    """Return the cases of a broker with an authorizer, by name."""
    return sorted(SECURED_CASES.values(), key=lambda each: each.name)
