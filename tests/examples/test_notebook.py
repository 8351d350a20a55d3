"""The example notebook, run by a Jupyter kernel with a JVM of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from purgatory_spark._analysis.units import format_ms
from tests.spark.job import TIME_LIMIT, clean_environment, quick_spark

NOTEBOOK = Path(__file__).parents[2] / "examples" / "which_timeout.ipynb"

#: What the notebook shows, computed with pandas from its table of calls.
PLAIN_COUNTS = """
import json

usable = frame[frame.start.notna()].copy()
usable["minute"] = usable.start.dt.strftime("%H:%M")
usable["expired"] = ~(usable.took_ms <= 500)
counted = usable.groupby(["service", "minute"]).expired.agg(["size", "sum"]).reset_index()
shares = {
    timeout: float((~(usable.took_ms <= timeout)).mean())
    for timeout in (500, 1_000, 2_000, 5_000, 10_000)
}
print(json.dumps([counted.astype(str).values.tolist(), shares, len(usable)]))
"""


def outputs_of(cell: Any) -> dict[str, str]:
    """Return a cell's result by MIME type, and what it printed as "printed"."""
    found: dict[str, str] = {}
    for output in cell["outputs"]:
        if output["output_type"] == "execute_result":
            found |= output["data"]
        elif output["output_type"] == "stream" and output["name"] == "stdout":
            found["printed"] = output["text"]
    return found


def table_in(page: str) -> list[list[str]]:
    """Return the rows of the last table in HTML, without its headings."""
    table = ElementTree.fromstring(page[page.rindex("<table") : page.rindex("</table>") + 8])
    rows = [["".join(cell.itertext()) for cell in row.iter("td")] for row in table.iter("tr")]
    return [row for row in rows if row]


@pytest.mark.jvm
@pytest.mark.slow
@pytest.mark.timeout(2 * TIME_LIMIT)
def test_notebook_shows_what_pandas_computes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import nbformat
    from nbclient import NotebookClient

    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    stored = {cell["id"]: outputs_of(cell) for cell in notebook.cells if cell.get("outputs")}
    assert "iframe" not in stored["what-if"]["text/html"], "with the chart's script"
    notebook.cells.append(nbformat.v4.new_code_cell(PLAIN_COUNTS, id="plain-counts"))
    folder = tmp_path / "notebooks"
    folder.mkdir()
    client = NotebookClient(
        notebook, timeout=int(TIME_LIMIT), resources={"metadata": {"path": str(folder)}}
    )
    environment = clean_environment(**quick_spark(tmp_path), IPYTHONDIR=str(tmp_path / "ipython"))
    client.execute(env=environment)

    cells = {cell["id"]: outputs_of(cell) for cell in notebook.cells if cell["cell_type"] == "code"}
    pages = {name: shown["text/html"] for name, shown in cells.items() if "text/html" in shown}
    for name in ("outcomes", "compare", "enough", "quorum"):
        message = f"{name} is stored with other outputs: run python -m tools.notebook_outputs"
        assert table_in(stored[name]["text/html"]) == table_in(pages[name]), message
    by_minute, shares, size = json.loads(cells["plain-counts"]["printed"])
    assert len(by_minute) == 6
    assert table_in(pages["outcomes"]) == by_minute
    assert "not counted" in pages["trace"]
    (reject,) = table_in(pages["rejects"])
    assert reject[:2] == ["null start", "requests"]
    assert table_in(pages["compare"])[0][:3] == ["wheel", str(size), "0"]
    peaks = {host: int(peak) for host, _, peak, *_ in table_in(pages["hosts"])}
    assert sorted(peaks) == ["checkout", "search", "stock"]
    assert min(peaks.values()) > 0

    assert "<iframe srcdoc=" in pages["what-if"]
    expired = sum(int(row[3]) for row in by_minute)
    (in_use,) = [row for row in table_in(pages["what-if"]) if "in use" in row[0]]
    assert in_use[:2] == ["500 ms (in use)", f"{expired:,}"]
    answered = {int(timeout): 1 - share for timeout, share in shares.items()}
    best = next(timeout for timeout in answered if answered[timeout] >= 0.999 * answered[10_000])
    assert pages["what-if"].startswith(f"<p><b>Choose {format_ms(best)}: it answers ")
    (enough,) = table_in(pages["enough"])
    shortest = next(int(timeout) for timeout, share in shares.items() if share <= 0.03)
    assert int(enough[0]) == shortest
    assert float(enough[2]) == pytest.approx(shares[str(shortest)])
    assert [row[1:] for row in table_in(pages["quorum"])] == [
        ["completed", "20.0"],
        ["expired", "250.0"],
    ]

    assert [path.name for path in folder.iterdir()] == ["calls-report"]
    assert 'href="calls-report/report.html"' in pages["report"]
    assert (
        "stock becomes slow (2026-03-02 09:01:00): the expired share rose from" in pages["report"]
    )
    assert "Host stock accounts for " in pages["report"]
    assert ["wheel replay", f"0 of {size:,} rows differ"] in table_in(pages["report"])
    page = (folder / "calls-report" / "report.html").read_text()
    assert f"In the replay “wheel” all {size:,} requests ended as computed." in page
