"""What real Kafka was seen to do: kept in a file, so that it can be compared with where Kafka itself can't be had."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("observed.json")


def load() -> tuple[str, dict[str, Any]]:
    """Kafka's version, and what was seen by case."""
    kept = json.loads(FILE.read_text())
    return kept["kafka"], kept["cases"]


def save(version: str, cases: Mapping[str, Any]) -> None:
    """Keep what was seen; a line for each part of a case, so that a difference can be read."""
    written = ",\n".join(f" {json.dumps(name)}: {_lines(cases[name])}" for name in sorted(cases))
    FILE.write_text(f'{{"kafka": {json.dumps(version)}, "cases": {{\n{written}\n}}}}\n')


def comparable(seen: Any) -> Any:
    """As it is after a way through the file: keys are text, tuples are lists."""
    return json.loads(json.dumps(seen))


def _lines(seen: Any) -> str:
    if isinstance(seen, dict) and seen:
        return "{\n" + ",\n".join(f"  {json.dumps(str(key))}: {json.dumps(value)}" for key, value in seen.items()) + "\n }"
    if isinstance(seen, list) and seen:
        return "[\n" + ",\n".join(f"  {json.dumps(each)}" for each in seen) + "\n ]"
    return json.dumps(seen)
