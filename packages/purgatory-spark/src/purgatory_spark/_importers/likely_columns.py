"""Which columns of a table are likely to be which fields, by their values and names.

What is found is only proposed: it is the user who says what a column means.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime

_TIME_TEXT = re.compile(r"\d{4}-\d\d-\d\d([T ].*)?|\d\d/[A-Z][a-z]{2}/\d{4}:.*")
#: The smallest number since the epoch, by unit, that is a time of the last fifty years.
_UNITS = (("ns", 1e17), ("us", 1e14), ("ms", 1e11), ("s", 1e8))
_SECONDS = re.compile(r"request_time|.*(_s|_secs?|_seconds|\(s\))", re.IGNORECASE)
#: Parts of names by field, the likeliest first.
_NAMES = {
    "arrived_at": ("arriv", "start", "begin", "received", "created"),
    "ended_at": ("end", "finish", "complet", "answered", "msec", "time_local", "time_iso8601"),
    "logged_at": ("timestamp", "time", "date", "at", "ts", "when"),
    "service_ms": ("request_time", "duration", "took", "elapsed", "latency", "time", "service"),
    "host": ("pod", "upstream", "host", "instance", "server", "node"),
    "status": ("status", "code"),
}


def likely_options(values: Mapping[str, object]) -> str:
    """Return a mapping that a table is likely to have, as options of the command.

    `values`: a value of each column, None where none is known. A required field for which no column
    is likely has the column `...`.
    """
    units = {name: _time_unit(value) for name, value in values.items()}
    times = [name for name, unit in units.items() if unit or values[name] is None]
    numbers = [
        name
        for name, value in values.items()
        if value is None or (_number(value) is not None and not units[name])
    ]
    texts = [name for name, unit in units.items() if not unit]
    found: dict[str, str] = {}

    def find(field: str, among: Sequence[str], parts: str | None = None) -> None:
        free = [name for name in among if name not in found.values()]
        ranked = sorted(
            (rank, position, name)
            for position, name in enumerate(free)
            for rank, part in enumerate(_NAMES[parts or field])
            if _has(name, part)
        )
        if ranked:
            found[field] = ranked[0][-1]

    find("arrived_at", times)
    find("ended_at", times)
    find("service_ms", numbers)
    if not {"arrived_at", "ended_at"} & set(found):
        find("arrived_at", times, "logged_at")
    if "arrived_at" in found and "service_ms" in found:
        found.pop("ended_at", None)
    if not {"arrived_at", "ended_at"} & set(found):
        found["arrived_at"] = "..."
    if "service_ms" not in found and not {"arrived_at", "ended_at"} <= set(found):
        found["service_ms"] = "..."
    find("host", texts)
    find("status", texts)
    unit = units.get(found.get("arrived_at", "")) or units.get(found.get("ended_at", ""))
    status = found.pop("status", None)
    options = [
        f"--map {_quoted(f'{_in_unit(field, found[field])}={found[field]}')}"
        for field in _NAMES
        if field in found
    ]
    options += [] if unit in (None, "iso") else [f"--time-unit {unit}"]
    options += [] if status is None else [f"--status {_quoted(status)} --unanswered 504,499"]
    return " ".join(options)


def _has(name: str, part: str) -> bool:
    """Return whether a name has a part: a word of it, if the part is short."""
    if len(part) > 3:
        return part in name.lower()
    words = re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)
    return part in [word.lower() for word in words]


def _in_unit(field: str, name: str) -> str:
    return "service_s" if field == "service_ms" and _SECONDS.fullmatch(name) else field


def _time_unit(value: object) -> str | None:
    """Return the unit of a value that may be a time; "iso" for text and timestamps."""
    if isinstance(value, datetime) or (isinstance(value, str) and _TIME_TEXT.fullmatch(value)):
        return "iso"
    number = _number(value)
    if number is None:
        return None
    return next((unit for unit, least in _UNITS if least <= number < least * 1000), None)


def _number(value: object) -> float | None:
    try:
        return float(str(value))
    except ValueError:
        return None


def _quoted(text: str) -> str:
    return text if re.fullmatch(r"[\w=.:/-]+", text) else "'" + text.replace("'", "'\\''") + "'"
