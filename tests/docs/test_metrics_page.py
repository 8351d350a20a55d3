"""The table of metrics on docs/how_to/metrics.md is the one that the code has."""

from __future__ import annotations

import pytest

pytest.importorskip("prometheus_client", reason="the extra [metrics] is not installed")

from request_purgatory.metrics.prometheus import PurgatoryCollector
from request_purgatory.purgatory._metric_table import OF_PURGATORIES
from tests.docs.snippets import DOCS

#: Endings of names and types, as the text format has them.
SUFFIXES = {"counter": "_total", "info": "_info"}
TYPES = {"info": "gauge"}


def rows() -> dict[str, list[str]]:
    """Return the cells of the page's table, by the metric's name."""
    text = (DOCS / "how_to" / "metrics.md").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.startswith("| `purgatory_")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {name.strip("`"): rest for name, *rest in cells}


def test_table_has_each_metric_with_its_type_and_meaning() -> None:
    expected = {
        family.name + SUFFIXES.get(family.type, ""): [
            TYPES.get(family.type, family.type),
            family.documentation.partition(" (Kafka:")[0].rstrip("."),
        ]
        for family in PurgatoryCollector().describe()
    }
    found = {
        name: [kind, meaning[0].upper() + meaning[1:]]
        for name, (kind, meaning, _) in rows().items()
    }
    del expected["purgatory_build_info"][1], found["purgatory_build_info"][1]
    assert found == expected


def test_table_has_kafkas_names() -> None:
    expected = {f"purgatory_{metric.name}": metric.kafka for metric in OF_PURGATORIES}
    for name, (_, _, kafka) in rows().items():
        plain = name.removesuffix("_total").removesuffix("_seconds")
        assert kafka.replace("`", "") == expected.get(plain, ""), name
