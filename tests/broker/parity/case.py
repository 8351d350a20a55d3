"""A case: a name, and a function that looks at a broker and returns what it has seen."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.broker.parity.observation import Normaliser
from tests.broker.parity.scene import Cluster, Scene


@dataclass(frozen=True)
class Case:
    """One thing that Kafka does."""

    name: str
    look: Callable[[Scene], Any]
    #: Whether it stops nodes: such cases come last.
    stops_nodes: bool = False

    def observe(self, cluster: Cluster) -> tuple[Any, list[str]]:
        """What there is to see on this cluster, made comparable, and the error messages that are not compared."""
        token = "." + secrets.token_hex(4)
        scene = Scene(cluster, self.name, token)
        normalise = Normaliser(token)
        try:
            return normalise(self.look(scene)), normalise.said
        finally:
            scene.close()


CASES: dict[str, Case] = {}


def case(look: Callable[[Scene], Any]) -> Callable[[Scene], Any]:
    """Adds a function to the cases, by its name."""
    return _add(look, stops_nodes=False)


def case_that_stops_nodes(look: Callable[[Scene], Any]) -> Callable[[Scene], Any]:
    """As `case`, for one that stops nodes, and starts them again."""
    return _add(look, stops_nodes=True)


def _add(look: Callable[[Scene], Any], *, stops_nodes: bool) -> Callable[[Scene], Any]:
    name = look.__name__.removesuffix("_")
    assert name not in CASES, f"two cases are named {name}"
    CASES[name] = Case(name, look, stops_nodes)
    return look
