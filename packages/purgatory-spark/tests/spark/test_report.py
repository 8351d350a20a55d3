"""The HTML report of traces with extreme outcomes and names."""

from __future__ import annotations

import csv
import io
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from purgatory_spark._analysis.analysis_folder import Analysis
from purgatory_spark._analysis.report import write_report
from purgatory_spark._outcomes.replay import DESIGNS, LEGACY, WHEEL
from tests.browser.browser import open_browser
from tests.spark.naive_trace import TraceEvent, TraceRequest
from tests.spark.small_analyses import replay_and_analyze, write_trace

# Five traces take half a minute; `purgatory run` writes a report in the fast tier.
pytestmark = pytest.mark.slow

#: A request of 1999, in a trace of 1970.
FAR = TraceRequest("far", 920_000_000_000_000, 3, ["k"], "count", 1.0, "all")
HOSTILE = "<script>alert('x')</script>&\"'"


class Page(HTMLParser):
    """The tags, references and text of an HTML page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.references: list[str] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.references += [
            value
            for name, value in attrs
            if value and name in ("src", "href", "xlink:href", "data")
        ]

    def handle_data(self, data: str) -> None:
        self.text += data


def waiting(
    count: int, service_us: int, keys: str = "k"
) -> tuple[list[TraceRequest], list[TraceEvent]]:
    """Make requests a millisecond apart that are satisfied after `service_us`."""
    kinds = ("count", "sum", "max")
    requests = [
        TraceRequest(
            f"{number}", number * 1000, 3, [f"{keys}{number}"], kinds[number % 3], 1.0, "all"
        )
        for number in range(count)
    ]
    return requests, [
        TraceEvent(f"{keys}{number}", number * 1000 + service_us, 1.0) for number in range(count)
    ]


@pytest.fixture(scope="module")
def analyses(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> list[Analysis]:
    """Analyze traces in which some, all, or no requests expire.

    The first one has names that are markup and replays in both designs; the second has no replay.
    """
    late = TraceRequest("late", 500, 3, ["nothing"], "count", 1.0, "all")
    requests, events = waiting(20, 1500)
    extremes = {
        HOSTILE: ([*requests, late], events, DESIGNS),
        "slow": (*waiting(6, 4000), ()),
        "never": (waiting(6, 1)[0], [], (WHEEL,)),
        "instant": (*waiting(6, 0), (LEGACY,)),
        "far": ([*waiting(40, 1500)[0], FAR], waiting(40, 1500)[1], ()),
    }
    found = []
    for number, (name, (requests, events, designs)) in enumerate(extremes.items()):
        folder = tmp_path_factory.mktemp(f"extreme-{number}")
        trace = write_trace(folder / "trace", requests, events, host=name, name=name)
        timeouts = (1, 3, 1000) if designs else None
        found.append(replay_and_analyze(spark, trace, folder, designs, timeouts))
    return found


@pytest.fixture(scope="module")
def report_file(analyses: list[Analysis], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the report of all analyses."""
    return write_report(analyses, tmp_path_factory.mktemp("report") / "report.html")


@pytest.fixture(scope="module")
def report(report_file: Path) -> str:
    """Return the text of the report of all analyses."""
    return report_file.read_text(encoding="utf-8")


def test_report_is_self_contained(report: str) -> None:
    page = Page(report)
    assert page.references
    assert all(reference.startswith("#") for reference in page.references)
    assert "@import" not in report
    assert not re.search(r"url\((?!['\"]?#)", report)


def test_report_has_the_charts_of_each_trace(report: str) -> None:
    page = Page(report)
    assert page.tags.count("figure") == 6 * 5
    for title in (
        "Arrivals over time",
        "Waiting times over time",
        "Pending requests over time",
        "Waiting times on a log scale",
        "Effect of other timeouts",
    ):
        assert report.count(f'aria-label="{title}"') == 5


def test_report_begins_with_its_findings(report: str) -> None:
    top = re.sub(r"\s+", " ", Page(report[: report.index("<figure")]).text)
    assert top.count("Which timeout") == 5
    assert "3 ms answers 20 requests, and at least 300 are needed" in top
    assert top.index("Which timeout") < top.index("expired (")


def test_far_timestamp_does_not_flatten_the_pictures(analyses: list[Analysis], report: str) -> None:
    analysis = analyses[-1]
    bins = analysis.rows("timeline")
    assert analysis.manifest["bin_ms"] == 1
    assert [row["arrived"] for row in bins][:41] == [1] * 40 + [0]
    assert bins[-1]["pending"] == 0
    assert analysis.rows("summary", dimension="all")[0]["requests"] == 41
    assert "1 request arrived so much earlier or later than the others" in report


def test_names_from_the_trace_are_text_and_not_markup(report: str) -> None:
    page = Page(report)
    assert page.tags.count("script") == 1
    assert page.tags[-1] == "script"
    assert "alert('x')" in page.text


def test_report_has_the_numbers(report: str) -> None:
    text = re.sub(r"\s+", " ", Page(report).text)
    for design in ("wheel", "legacy"):
        assert f"In the replay “{design}” all 21 requests ended as computed." in text
    assert "4.76 %" in text
    assert "two milliseconds" in text
    assert re.search("requests out ?21", text)
    assert "tick_ms 1, wheel_size 256, purge_interval 1000, shards 512" in text
    assert "100.0 %" in text


def test_report_closes_its_elements(report: str) -> None:
    for tag in ("div", "table", "section", "figure", "tr", "td"):
        assert len(re.findall(rf"<{tag}[ >]", report)) == report.count(f"</{tag}>")


def test_report_without_replays(tmp_path: Path, analyses: list[Analysis]) -> None:
    text = Page(
        write_report([analyses[1]], tmp_path / "report.html").read_text(encoding="utf-8")
    ).text
    assert "What if the timeout were different?" in text
    assert "The purgatory at work" not in text


def csv_rows(text: str) -> list[list[str]]:
    """Parse CSV as other programs do."""
    return list(csv.reader(io.StringIO(text)))


def test_tables_are_sorted_and_copied_in_a_browser(report_file: Path) -> None:
    with open_browser() as browser:
        context = browser.new_context(accept_downloads=True)
        requested: list[str] = []
        failures: list[str] = []
        page = context.new_page()
        page.on("request", lambda request: requested.append(request.url))
        page.on("console", lambda message: failures.append(message.text))
        page.on("pageerror", lambda error: failures.append(str(error)))
        page.goto(report_file.as_uri())

        table = page.locator("#trace-1-what-if .table")
        timeouts = table.locator("tbody td:first-child")
        expired = table.get_by_role("columnheader", name="expired", exact=True)
        before = timeouts.all_inner_texts()
        assert before == ["1", "3 (in use)", "1,000"]
        assert expired.get_attribute("aria-sort") == "none"
        expired.get_by_role("button").click()
        assert expired.get_attribute("aria-sort") == "ascending"
        counts = table.locator("tbody td:nth-child(2)").all_inner_texts()
        assert counts == sorted(counts, key=int)
        heading = table.get_by_role("columnheader", name="timeout").get_by_role("button")
        heading.focus()
        page.keyboard.press("Enter")
        page.keyboard.press("Space")
        assert timeouts.all_inner_texts() == before[::-1]
        assert expired.get_attribute("aria-sort") == "none"

        with page.expect_download() as downloading:
            table.get_by_role("button", name="Download CSV").click()
        assert downloading.value.suggested_filename.endswith("what_if.csv")
        headings, *rows = csv_rows(downloading.value.path().read_text())
        assert headings[:3] == ["timeout (ms)", "expired", "expired share (0 to 1)"]
        assert [row[0] for row in rows] == ["1000", "3", "1"]
        assert float(rows[0][2]) == 1 / 21

        context.grant_permissions(["clipboard-read", "clipboard-write"])
        hosts = page.locator("#trace-1-hosts .table")
        hosts.get_by_role("button", name="Copy as CSV").click()
        hosts.get_by_role("status").filter(has_text="copied").wait_for()
        copied = csv_rows(page.evaluate("navigator.clipboard.readText()"))
        assert copied[1][:2] == [HOSTILE, "21"]
        assert copied[1][-1] == "", "the 99th percentile is never"
        # As in a page without a clipboard.
        page.evaluate("delete Navigator.prototype.clipboard; document.execCommand = () => false")
        with page.expect_download():
            hosts.get_by_role("button", name="Copy as CSV").click()

        assert requested == [report_file.as_uri()]
        assert failures == []


@pytest.mark.parametrize("width", [375, 1280])
def test_report_fits_its_window(report_file: Path, width: int) -> None:
    with open_browser() as browser:
        page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme="dark")
        page.goto(report_file.as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert page.locator("canvas").count() == 30
        assert page.evaluate("Math.min(...drawn.map((plot) => plot.bbox.width))") > 180
        ground, *inks = page.evaluate(
            "[getComputedStyle(document.body).backgroundColor, ...drawn.flatMap("
            "(plot) => plot.axes.map((axis) => axis.stroke(plot)))]"
        )
        assert brightness(ground) < 40
        assert min(map(brightness, inks)) > 120
        page.emulate_media(media="print", color_scheme="dark")
        printed = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert brightness(printed) == 255


def test_charts_show_values_and_are_zoomed_together(report_file: Path) -> None:
    with open_browser() as browser:
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(report_file.as_uri())
        # The trace of 21 requests in 23 bins of a millisecond, which expire after three.
        arrivals, pending = (
            page.locator(f"#trace-1 figure[aria-label='{title} over time']")
            for title in ("Arrivals", "Pending requests")
        )
        plot = pending.locator(".u-over")
        plot.scroll_into_view_if_needed()
        box = plot.bounding_box()
        assert box is not None
        at = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        page.mouse.move(*at)
        shown = pending.locator(".u-value").all_inner_texts()
        assert shown[0].startswith("1970-01-01 00:00:00.01")
        assert int(shown[1]) >= 1
        # Those of the same time, where nobody points.
        assert arrivals.locator(".u-value").first.inner_text() == shown[0]

        ranges = "drawn.slice(1, 5).map(({ scales }) => [scales.x.min, scales.x.max])"
        whole = page.evaluate(ranges)
        assert len({tuple(each) for each in whole}) == 1
        page.mouse.down()
        page.mouse.move(at[0] + box["width"] / 4, at[1], steps=4)
        page.mouse.up()
        page.wait_for_function(f"{ranges}.every(([from, to]) => from > {whole[0][0]})")
        zoomed = page.evaluate(ranges)
        assert len({tuple(each) for each in zoomed}) == 1
        assert zoomed[0][1] - zoomed[0][0] == pytest.approx(
            (whole[0][1] - whole[0][0]) / 4, rel=0.02
        )
        arrivals.get_by_role("button", name="Zoom out").click()
        page.wait_for_function(f"{ranges}.every(([from, to]) => from === {whole[0][0]})")
        assert page.evaluate(ranges) == whole
        assert page.get_by_role("button", name="Zoom out").count() == 0


def brightness(color: str) -> float:
    """Return the mean of the channels of `rgb(...)` or `#rrggbb`."""
    if color.startswith("#"):
        return sum(bytes.fromhex(color[1:])) / 3
    channels = [int(channel) for channel in re.findall(r"\d+", color)][:3]
    return sum(channels) / 3
