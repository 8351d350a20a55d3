"""Write a run's figures into docs/explanation/benchmarks.md: `python -m benchmarks.page DIR`.

The text between the two marks of the page is replaced by the machine, the main figures, a table
for each question, and the skipped cases. `--pictures` also redraws the published figures as
docs/images/published_*.svg.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

from benchmarks import question
from benchmarks.measurement import Measurement
from benchmarks.summary import Medians, medians, number, ratio
from benchmarks.targets import compare

_DOCS = Path(__file__).resolve().parent.parent / "docs"
_BEGIN, _END = "<!-- results: begin -->", "<!-- results: end -->"
_PICTURES = {
    "enqueue_rate": ("enqueued a second", "Enqueue rate against target rate"),
    "cpu_seconds_per_million": ("CPU seconds per million", "CPU time per million requests"),
    "gc_seconds": ("seconds per million", "Collector's time per million requests"),
}


def main(arguments: list[str] | None = None) -> int:
    """Rewrite the page.

    Returns:
        The exit code: 0, or 2 if the folder has no run.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks.page", description=__doc__)
    parser.add_argument("folder", type=Path, help="the output directory of `python -m benchmarks`")
    parser.add_argument(
        "--pictures", action="store_true", help="also redraw docs/images/published_*.svg"
    )
    options = parser.parse_args(arguments)
    try:
        text = results(options.folder)
    except FileNotFoundError as missing:
        print(f"{options.folder} is not the folder of a run: {missing}", file=sys.stderr)
        return 2
    page = _DOCS / "explanation" / "benchmarks.md"
    before, _, rest = page.read_text().partition(_BEGIN)
    page.write_text(f"{before}{_BEGIN}\n\n{text}\n{_END}{rest.partition(_END)[2]}")
    if options.pictures:
        draw(options.folder)
    return 0


def results(folder: Path) -> str:
    """Return the Markdown of a run."""
    measured = [
        Measurement(**json.loads(line))
        for line in (folder / "measurements.jsonl").read_text().splitlines()
    ]
    machine = json.loads((folder / "machine.json").read_text())
    found = medians(measured)
    parts = [_machine(machine), _findings(found)]
    measured_names = {key[0] for key in found}
    parts += [
        _question(name, found, machine["rounds"])
        for name in question.NAMES
        if name in measured_names
    ]
    parts.append(_left_out(folder / "not_measured.jsonl"))
    return "\n".join(parts)


def _machine(machine: dict[str, Any]) -> str:
    versions = ", ".join(
        f"{name} {version}" for name, version in machine["versions"].items() if version
    )
    core = "compiled" if machine["request_purgatory_compiled"] else "interpreted"
    loads = ", ".join(f"{load:.2f}" for load in machine["load_average"] or [])
    rows = {
        "measured on": machine["date"][:10],
        "machine": f"{machine['cpu']}, {machine['usable_cores']} cores, {machine['kernel']}",
        "interpreter": f"{machine['python_implementation']} {machine['python']}; a plain object "
        f"with three method calls takes {machine['python_reference_ns']:.0f} ns",
        "core": core,
        "versions": versions,
        "load average at the start": loads,
        "rounds": machine["rounds"],
    }
    lines = [f"| {name} | {value} |" for name, value in rows.items()]
    return "\n".join(["| | |", "|---|---|", *lines, ""])


def _findings(found: Medians) -> str:
    """Return the figures that have a target, without it: readers want to know who wins where."""
    lines = [
        "### At a glance",
        "",
        "| what | metric | ours | best peer | its figure |",
        "|---|---|--:|---|--:|",
    ]
    for row in compare(found):
        if row["measured"] is not None:
            cells = (
                row["name"],
                row["metric"],
                _figure(row["measured"]),
                row["best_peer"] or "-",
                _figure(row["best_peer_value"]),
            )
            lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join([*lines, ""])


def _figure(value: object) -> str:
    return number(value) if isinstance(value, int | float) else "-"


def _question(name: str, found: Medians, rounds: int) -> str:
    keys = [key for key in found if key[0] == name]
    sides = list(dict.fromkeys(key[1] for key in keys))
    sides = [side for side in question.load(name).SIDES if side in sides]
    lines = [
        f"### {name}",
        "",
        f"{question.title(question.load(name))} Medians of up to {rounds} rounds; x is times ours.",
        "",
    ]
    lines += ["| case | metric | " + " | ".join(sides) + " |", "|---|---|" + "--:|" * len(sides)]
    rows = dict.fromkeys((metric, case) for _, _, case, metric in keys)
    known = list(question.load(name).METRICS)
    for metric, case in sorted(rows, key=lambda row: known.index(row[0])):
        ours = found.get((name, sides[0], case, metric))
        cells = [
            _cell(found.get((name, side, case, metric)), ours if side != sides[0] else None)
            for side in sides
        ]
        lines.append(f"| {case} | {metric} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, ""])


def _cell(value: float | None, ours: float | None) -> str:
    if value is None:
        return "-"
    times = ratio(value, ours)
    return number(value) if times is None else f"{number(value)} (x{times:.2g})"


def _left_out(path: Path) -> str:
    reasons: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for line in path.read_text().splitlines():
        one = json.loads(line)
        reason = one["reason"].splitlines()[-1] if one["reason"] else ""
        reasons[
            one["question"], one["side"], ("FAILED: " if one["failed"] else "") + reason
        ].append(one["case"])
    lines = ["### Left out", "", "| question | side | cases | why |", "|---|---|---|---|"]
    lines += [
        f"| {asked} | {side} | {len(cases)} | {why} |"
        for (asked, side, why), cases in reasons.items()
    ]
    return "\n".join([*lines, ""])


def draw(folder: Path) -> None:
    """Draw the published figures of a run, from Spark's summary of it."""
    from benchmarks.report import results
    from benchmarks.report.charts import published_figure
    from purgatory_spark._spark.session import create_session

    spark = create_session()
    try:
        rows = [
            row.asDict()
            for row in results.summarize(spark, folder).where("question = 'published'").collect()
        ]
    finally:
        spark.stop()
    for metric, (label, title) in _PICTURES.items():
        # A white background, because the text is invisible on dark pages.
        svg = published_figure(rows, metric, label, title)
        opening = svg.index(">", svg.index("<svg")) + 1
        white = '<rect width="100%" height="100%" fill="white"/>'
        (_DOCS / "images" / f"published_{metric}.svg").write_text(
            svg[:opening] + white + svg[opening:]
        )


if __name__ == "__main__":
    sys.exit(main())
