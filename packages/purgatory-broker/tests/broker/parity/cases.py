"""All cases, in the order in which they run."""

from __future__ import annotations

import importlib
from pathlib import Path

from tests.broker.parity.case import CASES, Case
from tests.broker.parity.secured import SECURED_CASES

for _module in sorted(Path(__file__).parent.glob("*_cases.py")):
    importlib.import_module(f"tests.broker.parity.{_module.stem}")


def all_cases() -> list[Case]:
    """Return the cases by name; those that stop nodes are last."""
    return sorted(CASES.values(), key=lambda each: (each.stops_nodes, each.name))


def secured_cases() -> list[Case]:
    """Return the cases of a broker with an authorizer, by name."""
    return sorted(SECURED_CASES.values(), key=lambda each: each.name)
