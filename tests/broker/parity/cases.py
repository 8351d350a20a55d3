"""All cases, in the order in which they run."""

from __future__ import annotations

from tests.broker.parity import fetch_cases, frame_cases, group_cases, offset_cases, produce_cases, topic_cases
from tests.broker.parity.case import CASES, Case

MODULES = (frame_cases, topic_cases, produce_cases, fetch_cases, group_cases, offset_cases)


def all_cases() -> list[Case]:
    """By name, those that stop nodes last."""
    return sorted(CASES.values(), key=lambda each: (each.stops_nodes, each.name))
