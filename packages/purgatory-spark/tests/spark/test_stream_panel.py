"""A stream's panel on the live page."""

from __future__ import annotations

from purgatory_spark._stream import metrics
from purgatory_spark._stream.metrics import StreamPanel
from purgatory_spark._stream.progress import BatchProgress
from request_purgatory.dashboard import serve_dashboard
from tests.support.live_page import LivePage, port_of, press, refreshed

NAMES = {"requests": "in/requests", "events": "in/events", "out": "out"}


def batch(number: int) -> BatchProgress:
    """Return the progress of a batch with 100 rows."""
    watermark, started_at = "2024-01-01T00:00:10.500Z", f"2026-01-01T00:{number // 60:02}:00.000Z"
    return BatchProgress(number, 100, 2.0, watermark, 60, 5, 2, 35, 1_000, started_at)


def test_page_shows_the_latest_batches_and_the_sums_of_all() -> None:
    panel = StreamPanel(NAMES)
    with (
        serve_dashboard(title="stream", panels=[panel.panel()], interval=3_600) as dashboard,
        LivePage(port_of(dashboard.url)) as page,
    ):
        assert page.hello["about"]["panels"] == {"stream": NAMES}
        assert page.hello["now"]["panels"]["stream"]["batches"] == []
        for number in range(metrics.MAX_BATCHES + 2):
            panel.add(batch(number))
        found = refreshed(dashboard, page)["now"]["panels"]["stream"]
        numbers = [each["batch"] for each in found["batches"]]
        assert numbers == list(range(2, metrics.MAX_BATCHES + 2))
        assert found["batches"][0]["rows_per_second"] == 50
        assert found["batches"][-1]["started_at"] == "2026-01-01T00:02:00.000Z"
        count = metrics.MAX_BATCHES + 2
        sums = {"rows": 100, "completed": 60, "expired": 5, "late": 2}
        assert found["sums"] == {
            "batches": count,
            **{name: value * count for name, value in sums.items()},
        }
        assert press(port_of(dashboard.url), "stream", "stop", {})[0] == 400
