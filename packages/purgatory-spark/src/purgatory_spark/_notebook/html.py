"""HTML for Jupyter, whose own style the tables have."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from markupsafe import Markup


def html_table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> Markup:
    """Return a table; texts are escaped, and `Markup` is kept."""
    head = Markup("").join(Markup("<th>{}</th>").format(heading) for heading in headings)
    body = Markup("").join(
        Markup("<tr>{}</tr>").format(
            Markup("").join(Markup("<td>{}</td>").format(cell) for cell in row)
        )
        for row in rows
    )
    return Markup("<table><thead><tr>{}</tr></thead><tbody>{}</tbody></table>").format(head, body)
