"""The dashboard and the alerts in examples/grafana."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("prometheus_client", reason="the extra [metrics] is not installed")

from prometheus_client.registry import Collector

from request_purgatory.metrics.prometheus import PurgatoryCollector

FOLDER = Path(__file__).parents[2] / "examples" / "grafana"
SUFFIXES = {
    "counter": ["_total"],
    "gauge": [""],
    "histogram": ["_bucket", "_sum", "_count"],
    "info": ["_info"],
}


def exported(collector: Collector) -> set[str]:
    """Return the names of a collector's samples."""
    return {
        f"{family.name}{suffix}"
        for family in collector.collect()
        for suffix in SUFFIXES[family.type]
    }


def named(texts: list[str]) -> set[str]:
    """Return the metrics that expressions name; `purgatory` alone is a label."""
    return {name for text in texts for name in re.findall(r"\bpurgatory_\w+", text)}


def dashboard() -> dict[str, Any]:
    """Return the dashboard."""
    loaded: dict[str, Any] = json.loads((FOLDER / "dashboard.json").read_text())
    return loaded


def expressions() -> list[str]:
    """Return the expressions of all panels."""
    return [
        target["expr"] for panel in dashboard()["panels"] for target in panel.get("targets", [])
    ]


def rules() -> list[str]:
    """Return the lines of the rules that are no comments."""
    lines = (FOLDER / "rules.yaml").read_text().splitlines()
    return [line for line in lines if not line.lstrip().startswith("#")]


def test_dashboard_shows_every_metric_of_purgatories_and_timers() -> None:
    names = exported(PurgatoryCollector())
    shown = {name for name in named(expressions()) if not name.startswith("purgatory_stream_")}
    assert shown - names == set()
    # The sums and the counts of waits are for means.
    waits = ("purgatory_wait_seconds", "purgatory_hold_wait_seconds")
    assert names - shown == {f"{name}_{kind}" for name in waits for kind in ("sum", "count")}


def test_variables_and_alerts_name_metrics_that_exist() -> None:
    texts = [json.dumps(dashboard()["templating"]), *rules()]
    found = {name for name in named(texts) if not name.startswith("purgatory_stream_")}
    assert found
    assert found - exported(PurgatoryCollector()) == set()


def test_dashboard_and_alerts_name_metrics_of_streams_that_exist() -> None:
    pytest.importorskip("pyspark", reason="the extra [spark] is not installed")
    from purgatory_spark._stream.metrics import StreamMetrics
    from purgatory_spark._stream.progress import BatchProgress

    metrics = StreamMetrics()
    metrics.add(BatchProgress(1, 100, 2.5, "2026-01-01T00:00:00Z", 50, 30, 2, 18, 4096, ""))
    texts = [json.dumps(dashboard()["templating"]), *expressions(), *rules()]
    found = {name for name in named(texts) if name.startswith("purgatory_stream_")}
    assert found
    assert found - exported(metrics) == set()


def test_panels_have_a_title_a_description_and_a_unit() -> None:
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, f"{panel['title']} covers another panel"
        assert place["x"] + place["w"] <= 24
        taken |= cells
        assert panel["title"]
        if panel["type"] != "row":
            assert panel["description"].endswith(".")
            assert panel["fieldConfig"]["defaults"]["unit"]


def run(tool: str, *arguments: str) -> str:
    """Run a tool that may be missing, and return what it prints; it has to succeed."""
    found = shutil.which(tool)
    if found is None:
        pytest.skip(f"{tool} is not installed; examples/grafana/README.md says where it comes from")
    result = subprocess.run(
        [found, *arguments], cwd=FOLDER, capture_output=True, text=True, timeout=60
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout + result.stderr


@pytest.mark.slow
def test_rules_and_configuration_are_valid() -> None:
    run("promtool", "check", "config", "prometheus.yaml")
    assert "5 rules found" in run("promtool", "check", "rules", "rules.yaml")


@pytest.mark.slow
def test_alerts_fire_as_their_examples_say() -> None:
    assert "SUCCESS" in run("promtool", "test", "rules", "rules_test.yaml")


@pytest.mark.slow
def test_panels_have_valid_expressions(tmp_path: Path) -> None:
    lines = ["groups:", "  - name: panels", "    rules:"]
    for number, expression in enumerate(expressions()):
        filled = expression.replace("$__rate_interval", "5m")
        lines += [f"      - record: panel:{number}", f"        expr: {json.dumps(filled)}"]
    file = tmp_path / "panels.yaml"
    file.write_text("\n".join(lines) + "\n")
    assert f"{len(expressions())} rules found" in run("promtool", "check", "rules", str(file))


@pytest.mark.slow
def test_dashboard_passes_the_linter_of_grafana() -> None:
    run("dashboard-linter", "lint", "--strict", "dashboard.json")
