"""A case: a name, and a function that uses a broker and returns its observations."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.broker.parity.case_harness import CaseHarness, Cluster
from tests.broker.parity.observation import Normaliser


@dataclass(frozen=True)
class Case:
    """One behaviour of Kafka."""

    name: str
    look: Callable[[CaseHarness], Any]
    #: Whether it stops nodes: such cases come last.
    stops_nodes: bool = False

    def observe(self, cluster: Cluster) -> tuple[Any, list[str]]:
        """Return the normalised observations of a cluster, and the omitted error messages."""
        token = "." + secrets.token_hex(4)
        harness = CaseHarness(cluster, self.name, token)
        normalise = Normaliser(token)
        try:
            return normalise(self.look(harness)), normalise.said
        finally:
            harness.close()


CASES: dict[str, Case] = {}


def case(look: Callable[[CaseHarness], Any]) -> Callable[[CaseHarness], Any]:
    """Add a function to the cases, by its name."""
    return _add(look, stops_nodes=False)


def case_that_stops_nodes(look: Callable[[CaseHarness], Any]) -> Callable[[CaseHarness], Any]:
    """Add a function to the cases that stop and restart nodes."""
    return _add(look, stops_nodes=True)


def _add(look: Callable[[CaseHarness], Any], *, stops_nodes: bool) -> Callable[[CaseHarness], Any]:
    name = look.__name__.removesuffix("_")
    assert name not in CASES, f"two cases are named {name}"
    CASES[name] = Case(name, look, stops_nodes)
    return look
