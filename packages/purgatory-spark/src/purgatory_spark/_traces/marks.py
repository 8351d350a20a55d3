"""Marks: moments that reports compare before and after."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from request_purgatory.errors import InvalidArgumentError

if TYPE_CHECKING:
    from purgatory_spark._importers.imported_trace import ImportedTrace


@dataclass(frozen=True)
class Mark:
    """A moment that reports compare before and after: a deployment, an injected fault.

    Attributes:
        at: The moment, with a time zone.
        label: What happened.
    """

    at: datetime
    label: str

    def __post_init__(self) -> None:
        if self.at.tzinfo is None:
            raise InvalidArgumentError("at", "a time with a zone", self.at)

    @classmethod
    def parse(cls, text: str) -> Mark:
        """Parse `TIME` or `TIME=LABEL`.

        Args:
            text: An ISO 8601 time, in UTC unless it names a zone, and a label.

        Returns:
            The mark; without a label, the label is "mark".

        Raises:
            InvalidArgumentError: The time is not in ISO 8601.
        """
        time, _, label = text.partition("=")
        try:
            at = datetime.fromisoformat(time.strip())
        except ValueError:
            raise InvalidArgumentError(
                "mark", "TIME or TIME=LABEL with an ISO 8601 time", text
            ) from None
        return cls(at if at.tzinfo else at.replace(tzinfo=UTC), label.strip() or "mark")


#: Incidents in published traces, from their documentation: a part of the folder's name, and the
#: incident.
_KNOWN_INCIDENTS = {
    "nezha": Mark(
        datetime(2022, 8, 22, 5, 27, 6, tzinfo=UTC), "network delay injected (Nezha, 2022-08-22)"
    ),
}


def known_incidents(source: Path | str, trace: ImportedTrace) -> list[Mark]:
    """Return the documented incidents of a published trace, known by the name of its source.

    They are those between its first and last arrival: a trace may be of another day.
    """
    if trace.format != "spans":
        return []
    name = Path(source).resolve().name.lower()
    marks = [mark for part, mark in _KNOWN_INCIDENTS.items() if part in name]
    if not marks:
        return []
    span = trace.requests.selectExpr(
        "MIN(UNIX_MICROS(arrived_at))", "MAX(UNIX_MICROS(arrived_at))"
    ).first()
    if span is None or span[0] is None:
        return []
    return [mark for mark in marks if span[0] <= mark.at.timestamp() * 1_000_000 <= span[1]]
