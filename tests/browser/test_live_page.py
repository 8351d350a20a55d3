"""The live page in a real browser."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from request_purgatory import DelayedOperation, ManualClock, SystemTimer
from request_purgatory.dashboard import Dashboard, serve_dashboard
from request_purgatory.testing import ManualPurgatory
from tests.browser.conftest import PHONE, OpenPage
from tests.support.live_page import port_of

if TYPE_CHECKING:
    from playwright.sync_api import Page

# One browser is enough.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]

TIME_LIMIT = 60.0
NEVER = 3_600.0
#: A key that would be HTML if the page did not treat it as text.
HOSTILE = "<img src=x onerror=document.title='owned'>"


def never() -> bool:
    """Return False: a condition."""
    return False


class Waiting(DelayedOperation):
    """Waits for nothing."""

    def try_complete(self) -> bool:
        """Return False."""
        return False


@pytest.fixture
def clock() -> ManualClock:
    """Return a clock that stands at 0 until the test moves it."""
    return ManualClock()


@pytest.fixture
def purgatory() -> ManualPurgatory:
    """Return a purgatory in which requests wait."""
    purgatory = ManualPurgatory("orders")
    purgatory.hold([HOSTILE], until=never, timeout=60)
    purgatory.advance(12)
    purgatory.hold(["orders-1"], until=never, timeout=None)
    return purgatory


@pytest.fixture
def dashboard(purgatory: ManualPurgatory, clock: ManualClock) -> Iterator[Dashboard]:
    """Serve it; readings are taken when the test asks for one."""
    others = [ManualPurgatory(f"other-{index}") for index in range(3)]
    others[0].hold(["k"], until=never, timeout=3_600)
    with serve_dashboard(
        purgatory, *others, clock=clock, interval=NEVER, title="shop"
    ) as dashboard:
        yield dashboard


def expect(page: Page, selector: str) -> Any:
    """Return Playwright's assertions on an element; they wait until they hold."""
    from playwright.sync_api import expect

    return expect(page.locator(selector))


def test_page_follows_the_purgatory(
    dashboard: Dashboard, purgatory: ManualPurgatory, clock: ManualClock, open_page: OpenPage
) -> None:
    """Tiles, pictures, wheels and tables, without a reload."""
    page = open_page(dashboard.url)
    expect(page, "#status").to_have_text("live")
    expect(page, "#t-pending").to_have_text("3")
    expect(page, "#t-longest").to_have_text("12 s")
    clock.advance(1_000)
    dashboard.refresh()
    purgatory.advance(0.5)
    for _ in range(5):
        purgatory.hold(["k"], until=lambda: True, timeout=1)
    purgatory.advance(50)  # The request of 60 s expires.
    clock.advance(500)
    dashboard.refresh()
    expect(page, "#t-pending").to_have_text("2")
    expect(page, "#t-completed").to_have_text("10")
    expect(page, "#t-expired").to_have_text("2")
    expect(page, "#tile-expired").to_have_class("tile bad")
    expect(page, "#c-pending svg").to_have_attribute(
        "aria-label", "Pending operations: orders 1, other-0 1"
    )
    expect(page, "#quantiles").to_contain_text("median< 1 ms")
    expect(page, "#longest tbody tr:first-child").to_contain_text("no timeout")
    expect(page, "#wheels .wheel").to_have_count(2)
    assert page.locator("#wheels .wheel .bucket").count() >= 1
    page.select_option("#filter", "other-0")
    expect(page, "#t-pending").to_have_text("1")
    expect(page, "#longest tbody tr").to_have_count(1)
    expect(page, "#wheels .wheel").to_have_count(1)


def test_texts_of_the_program_are_never_read_as_html(
    dashboard: Dashboard, open_page: OpenPage
) -> None:
    """A key with a script in it is shown as it is."""
    page = open_page(dashboard.url)
    expect(page, "#longest").to_contain_text(HOSTILE)
    assert page.locator("img").count() == 0
    assert page.title() == "shop · request-purgatory"


def test_page_says_that_the_server_is_gone_and_comes_back(
    dashboard: Dashboard, open_page: OpenPage
) -> None:
    """The browser connects again by itself."""
    page = open_page(dashboard.url)
    expect(page, "#status").to_have_text("live")
    dashboard.close()
    expect(page, "#status").to_have_class("lost")
    with serve_dashboard(ManualPurgatory("new"), port=port_of(dashboard.url), title="again"):
        expect(page, "#title").to_have_text("again")
        expect(page, "#status").to_have_text("live")
    open_page.errors.clear()  # type: ignore[attr-defined]  # Of connections that were refused.


def test_page_is_dark_or_light_and_keeps_the_choice(
    dashboard: Dashboard, open_page: OpenPage
) -> None:
    """By the system's setting, and by a button that the keyboard reaches."""
    page = open_page(dashboard.url, color_scheme="dark")

    def ground() -> str:
        found: str = page.evaluate("getComputedStyle(document.body).backgroundColor")
        return found

    dark = ground()
    page.emulate_media(color_scheme="light")
    light = ground()
    assert dark != light
    page.locator("#theme").focus()
    for theme, expected in (("light", light), ("dark", dark)):
        page.keyboard.press("Enter")
        expect(page, "#theme").to_have_text(f"Theme: {theme}")
        assert ground() == expected
    page.reload()
    expect(page, "#theme").to_have_text("Theme: dark")
    assert ground() == dark


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_have_enough_contrast(dashboard: Dashboard, open_page: OpenPage, scheme: str) -> None:
    """Of 4.5 to 1 on a card, as WCAG asks for."""
    page = open_page(dashboard.url, color_scheme=scheme)
    ratios = page.evaluate("""() => {
      const style = getComputedStyle(document.documentElement);
      const light = name => {
        const probe = document.body.appendChild(document.createElement("i"));
        probe.style.color = style.getPropertyValue(name);
        const parts = getComputedStyle(probe).color.match(/[\\d.]+/g).slice(0, 3).map(each => {
          const share = each / 255;
          return share <= 0.03928 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
        });
        probe.remove();
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
      };
      const ratio = (one, other) => {
        const [low, high] = [light(one), light(other)].sort((a, b) => a - b);
        return (high + 0.05) / (low + 0.05);
      };
      const found = {};
      for (const text of ["--ink", "--soft", "--good", "--bad", "--warn", "--accent"])
        found[text] = ratio(text, "--card");
      for (const kind of ["good", "warn", "bad"])
        found[kind + " badge"] = ratio(`--${kind}`, `--${kind}-ground`);
      return found;
    }""")
    assert {name: ratio for name, ratio in ratios.items() if ratio < 4.5} == {}


def test_page_fits_a_phone(dashboard: Dashboard, open_page: OpenPage) -> None:
    """Nothing is wider than the screen, and buttons are large enough for a finger."""
    page = open_page(dashboard.url, viewport=PHONE, has_touch=True, is_mobile=True)
    expect(page, "#t-pending").to_have_text("3")
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    for button in page.locator("button:visible, select:visible").all():
        box = button.bounding_box()
        assert box is not None
        assert box["height"] >= 40
        if button.locator("xpath=ancestor::th").count():
            continue  # A table's headings are one line, which scrolls.
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= PHONE["width"]


@pytest.mark.parametrize("width", [PHONE["width"], 1280])
def test_long_names_do_not_widen_the_page(open_page: OpenPage, width: int) -> None:
    """One without a space stays in its line; the table scrolls in its card."""
    purgatory = ManualPurgatory("shop.example.orders.v2." * 12)
    operation = type("Produce" * 30, (Waiting,), {})(60_000)
    purgatory.try_complete_else_watch(operation, ["k" * 70])
    with serve_dashboard(purgatory, interval=NEVER) as dashboard:
        page = open_page(dashboard.url, viewport={"width": width, "height": 800})
        expect(page, "#t-pending").to_have_text("1")
        dashboard.refresh()
        expect(page, "#c-pending .legend span").to_have_count(1)
        assert page.evaluate("document.documentElement.scrollWidth") == width
        page.locator("#c-pending").scroll_into_view_if_needed()
        picture = page.locator("#c-pending svg").bounding_box()
        assert picture is not None
        page.mouse.move(picture["x"] + picture["width"] / 2, picture["y"] + 50)
        expect(page, "#c-pending .tip").to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") == width
        expect(page, "#longest td.code").to_have_attribute("title", repr("k" * 70))
        # Without a scroll bar that it may have.
        assert page.locator("#longest td.code").evaluate("cell => cell.clientHeight") < 36


def cells(page: Page, table: str, column: int) -> list[str]:
    """Return the texts of a table's column, from 1 on."""
    return page.locator(f"#{table} tbody tr td:nth-child({column})").all_text_contents()


def test_headings_sort_by_values_and_keep_the_choice(
    clock: ManualClock, open_page: OpenPage
) -> None:
    """By the keyboard, too; a reading takes neither the order nor the focus."""
    purgatory = ManualPurgatory("orders")
    for key, timeout in (("k-10", 9_000), ("k-2", None), ("k-1", 70)):
        purgatory.hold([key], until=never, timeout=timeout)
    with serve_dashboard(purgatory, clock=clock, interval=NEVER) as dashboard:
        page = open_page(dashboard.url)
        expect(page, "#by-key tbody tr").to_have_count(3)
        key = page.locator("#by-key th").nth(0)
        key.get_by_role("button").focus()
        page.keyboard.press("Enter")
        expect(page, "#by-key th[aria-sort=ascending]").to_have_text("Key")
        assert cells(page, "by-key", 1) == ["'k-1'", "'k-2'", "'k-10'"]
        purgatory.hold(["k-3"], until=never, timeout=100)
        dashboard.refresh()
        expect(page, "#by-key tbody tr").to_have_count(4)
        assert cells(page, "by-key", 1) == ["'k-1'", "'k-2'", "'k-3'", "'k-10'"]
        page.keyboard.press("Enter")
        expect(page, "#by-key th[aria-sort=descending]").to_have_text("Key")
        assert cells(page, "by-key", 1) == ["'k-10'", "'k-3'", "'k-2'", "'k-1'"]
        # A missing value is last in both directions.
        expires = page.locator("#by-key th button").last
        for texts in (
            ["70 s", "100 s", "2.5 h", "never"],
            ["2.5 h", "100 s", "70 s", "never"],
        ):
            expires.click()
            assert cells(page, "by-key", 6) == texts
        expect(page, "#by-key th:not([aria-sort=none])").to_have_count(1)


def test_search_keeps_the_rows_with_a_text(clock: ManualClock, open_page: OpenPage) -> None:
    """Of all columns, in any case, and in the readings that follow."""
    purgatory = ManualPurgatory("orders")
    for number in range(60):
        purgatory.hold([f"Key-{number}"], until=never, timeout=60)
    with serve_dashboard(purgatory, clock=clock, interval=NEVER) as dashboard:
        page = open_page(dashboard.url)
        expect(page, "#by-key tbody tr").to_have_count(60)
        page.fill("#by-key-search", "key-5")
        expect(page, "#by-key tbody tr").to_have_count(11)
        purgatory.hold(["key-500"], until=never, timeout=60)
        dashboard.refresh()
        expect(page, "#by-key tbody tr").to_have_count(12)
        expect(page, "#longest tbody tr").to_have_count(61)
        page.fill("#by-key-search", "nothing")
        expect(page, "#by-key tbody").to_have_text("None of 61 rows has “nothing”.")


def test_stream_is_drawn_over_time(open_page: OpenPage) -> None:
    """Batches stand where the clock was at their commits, however many there are between."""
    pytest.importorskip("pyspark", reason="the extra [spark] is not installed")
    from purgatory_spark._stream.metrics import StreamPanel
    from purgatory_spark._stream.progress import BatchProgress

    panel = StreamPanel({"requests": "in/requests", "events": "in/events", "out": "out"})
    for number, started in enumerate(("11:59:58", "12:00:08", "12:01:38")):
        started_at = f"2026-01-01T{started}.000Z"
        panel.add(BatchProgress(number, 10, 2.0, "", 5, 5, 0, number, 0, started_at))
    with serve_dashboard(panels=[panel.panel()], interval=NEVER) as dashboard:
        page = open_page(dashboard.url, timezone_id="UTC")
        expect(page, "#stream-tiles").to_contain_text("number 2 at 1 Jan 12:01:40")
        line = page.locator("#batch-pending path").last.get_attribute("d")
        assert line is not None
        first, second, third = (float(x) for x in re.findall(r"[ML]([\d.]+),", line))
        assert (second - first) / (third - first) == pytest.approx(0.1, abs=0.01)
        labels = page.locator("#batch-pending svg text").all_text_contents()
        assert [label for label in labels if ":" in label] == [
            "1 Jan 12:00:00",
            "1 Jan 12:00:30",
            "1 Jan 12:01:00",
            "1 Jan 12:01:30",
        ]


def test_timers_alone_are_shown_without_purgatories(
    clock: ManualClock, open_page: OpenPage
) -> None:
    """Their wheels are all that there is."""
    timer = SystemTimer("retries", wheel_size=20, clock=clock)
    for delay_ms in (5, 70, 70, 3_000):
        timer.call_later_ms(delay_ms, never)
    with serve_dashboard(timer, clock=clock, interval=NEVER) as dashboard:
        page = open_page(dashboard.url)
        expect(page, "#purgatories-h").to_have_text("Timers")
        expect(page, "#wheels .wheel li").to_have_text(
            [
                "20 × 1 ms1 task",
                "20 × 20 ms2 tasks",
                "20 × 400 ms1 task",
            ]
        )
        expect(page, "#wheels .bucket").to_have_count(3)
        expect(page, ".tile:visible").to_have_count(0)


def test_pointer_on_a_picture_shows_the_values_there(
    dashboard: Dashboard, clock: ManualClock, open_page: OpenPage
) -> None:
    """Of each line, at the nearest reading."""
    page = open_page(dashboard.url)
    for _ in range(3):
        clock.advance(10_000)
        dashboard.refresh()
    expect(page, "#c-pending .tip").to_be_hidden()
    box = page.locator("#c-pending svg").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] - 15, box["y"] + 50)
    expect(page, "#c-pending .tip").to_have_text("noworders2other-01")
    page.mouse.move(0, 0)
    expect(page, "#c-pending .tip").to_be_hidden()


def test_paused_page_stands_still(
    dashboard: Dashboard, purgatory: ManualPurgatory, open_page: OpenPage
) -> None:
    """And shows the present once it goes on."""
    page = open_page(dashboard.url)
    expect(page, "#t-pending").to_have_text("3")
    page.click("#pause")
    expect(page, "#status").to_have_text("paused")
    purgatory.hold(["k"], until=never, timeout=60)
    with page.expect_event("console") as logged:
        # The listener comes after the page's own, so the page has handled the reading by then.
        page.evaluate("""() => {
          const source = new EventSource("events");
          source.addEventListener("reading", () => { console.log("read"); source.close(); });
          return new Promise(resolve => source.addEventListener("hello", resolve));
        }""")
        dashboard.refresh()
    assert logged.value.text == "read"
    assert page.locator("#t-pending").text_content() == "3"
    page.click("#pause")
    expect(page, "#t-pending").to_have_text("4")


# -- a broker's page


@contextmanager
def served_broker(*options: str) -> Iterator[dict[str, str]]:
    """Run `purgatory-broker serve` with a live page; return its addresses."""
    command = [sys.executable, "-m", "purgatory_broker", "serve", "--json"]
    ports = ["--port", "0", "--control", "0", "--dashboard", "0"]
    with subprocess.Popen([*command, *ports, *options], stdout=subprocess.PIPE, text=True) as ran:
        try:
            assert ran.stdout is not None
            served: dict[str, str] = json.loads(ran.stdout.readline())
            yield served
        finally:
            ran.terminate()
            ran.communicate(timeout=TIME_LIMIT)


def test_buttons_put_faults_in_force_in_a_broker(open_page: OpenPage) -> None:
    """The cluster's own commands report them, and a client meets them."""
    pytest.importorskip("kafka", reason="the extra [broker] is not installed")
    from purgatory_broker.cluster.admin_server import ControlClient
    from tests.broker.parity.raw import RawClient
    from tests.broker.raw_requests import produce

    options = ("--nodes", "3", "--topic", "orders:2:3", "--replica-lag-time-max-ms", "200")
    with served_broker(*options) as served:
        control = ControlClient(served["control"])
        page = open_page(served["dashboard"])
        expect(page, "#nodes .node").to_have_count(3)
        expect(page, "#partitions tbody tr").to_have_count(2)
        # A follower that stops fetching leaves the in-sync replicas.
        leader = control.call("describe_topic", {"topic": "orders"})[0]["leader"]
        follower = (leader + 1) % 3
        node = page.locator("#nodes .node").nth(follower)
        node.get_by_role("button", name="Pause replication").press("Enter")
        expect(page, "#said").to_have_text(f"Done: pause replication, node {follower}.")
        client = RawClient(served["bootstrap_servers"].split(",")[leader])
        assert produce(client, "orders", b"x").error_code == 0
        described = control.call("describe_topic", {"topic": "orders"})[0]
        assert follower not in described["isr"]
        expect(page, "#partitions tbody tr:first-child .replica.out").to_have_text(str(follower))
        node.get_by_role("button", name="Resume replication").click()
        expect(page, "#partitions tbody tr:first-child .replica.out").to_have_count(0)
        # Latency, and a partition.
        node.get_by_role("combobox").select_option("50")
        expect(page, f"#nodes .node:nth-child({follower + 1}) .badges").to_contain_text("+50 ms")
        node.get_by_role("button", name="Partition").click()
        expect(page, f"#nodes .node:nth-child({follower + 1}) .badges").to_contain_text(
            "partitioned"
        )
        node.get_by_role("button", name="Heal").click()
        expect(page, f"#nodes .node:nth-child({follower + 1}) .badges").not_to_contain_text(
            "partitioned"
        )
        # An error for the next request of a client.
        page.fill("#f-times", "2")
        page.get_by_role("button", name="Inject").click()
        expect(page, "#said").to_have_text("Fault 1 is in force.")
        (fault,) = control.call("faults", {})
        assert (fault["api"], fault["error"], fault["times"]) == (
            "Produce",
            "NOT_ENOUGH_REPLICAS",
            2,
        )
        assert produce(client, "orders", b"x").error_code == 19
        expect(page, "#faults tbody tr").to_contain_text(re.compile("NOT_ENOUGH_REPLICAS.*1.*1"))
        page.select_option("#f-kind", "delay")
        page.fill("#f-delay", "0")
        page.evaluate("document.querySelector('#inject').noValidate = true")
        page.get_by_role("button", name="Inject").click()
        expect(page, "#said").to_contain_text("delay_ms must be between 1 and 2147483647, got 0")
        open_page.errors.clear()  # type: ignore[attr-defined]  # The refusal's status.
        page.get_by_role("button", name="Clear all faults").click()
        expect(page, "#faults tbody tr").to_contain_text("No fault is in force")
        assert control.call("faults", {}) == []
        # A node that is killed, and started again.
        node.get_by_role("button", name="Kill").click()
        expect(page, f"#nodes .node:nth-child({follower + 1}) .badges").to_contain_text("stopped")
        assert control.call("describe_topic", {"topic": "orders"})[0]["offsets"].keys() == {
            str(each) for each in range(3) if each != follower
        }
        node.get_by_role("button", name="Restart").click()
        expect(page, f"#nodes .node:nth-child({follower + 1}) .badges").to_contain_text("running")
        client.close()
        control.close()


def test_broker_page_fits_a_phone(open_page: OpenPage) -> None:
    """With the form for faults, and every table."""
    pytest.importorskip("kafka", reason="the extra [broker] is not installed")
    with served_broker("--nodes", "3", "--topic", "a-topic-with-a-long-name-0123456789") as served:
        page = open_page(served["dashboard"], viewport=PHONE, has_touch=True, is_mobile=True)
        expect(page, "#nodes .node").to_have_count(3)
        assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
