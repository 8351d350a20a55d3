"""Draws docs/images/timing_wheels.svg: three timeouts on two timing wheels, as an animation.

    python tools/timing_wheel_figure.py            write it
    python tools/timing_wheel_figure.py --check    exit code 1 if it is out of date

A test runs the check. Where the tasks are at each moment is asked of the real wheels. The animation
is CSS, without a script. Readers who prefer reduced motion see a still picture with the way of one
task. The page's own colors are used where the page has Furo's variables, else dark or light ones.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from math import cos, pi, sin
from pathlib import Path

from request_purgatory import TimerTask
from request_purgatory.timer._bucket import PendingTasks
from request_purgatory.timer._delay_queue import DelayQueue
from request_purgatory.timer.task import remove_from
from request_purgatory.timer.wheel import TimingWheel

PAGE = Path(__file__).parents[1] / "docs" / "images" / "timing_wheels.svg"
SIZE = 8  # buckets in a wheel
DUE_MS = {"A": 19, "B": 5, "C": 13}
#: When C's event comes.
COMPLETED_MS = {"C": 11}
END_MS = 20

Point = tuple[float, float]
Place = tuple[int, int]  # the wheel's level, and the bucket in it

CENTERS: tuple[Point, Point] = ((190, 178), (530, 178))
INNER, OUTER = 62.0, 146.0
START = {"A": (325.0, 40.0), "B": (360.0, 40.0), "C": (395.0, 40.0)}
ENDED = {"A": (395.0, 330.0), "B": (325.0, 330.0), "C": (360.0, 330.0)}
SECONDS_OF_TICK, SECONDS_OF_STEP, SECONDS_OF_MOVE = 0.45, 4.0, 0.6


@dataclass(frozen=True)
class Phase:
    """A moment of the animation, until the next one.

    Attributes:
        now_ms: The wheels' clock.
        places: The bucket of each task that is in a wheel.
        ended: The tasks that have ended.
        caption: Two lines below the wheels; none keeps those of the phase before.
    """

    now_ms: int
    places: dict[str, Place]
    ended: frozenset[str]
    caption: tuple[str, str] | None


def phases() -> list[Phase]:
    """Drive the real wheels.

    Returns:
        What they do, moment by moment.
    """
    queue = DelayQueue()
    wheel = TimingWheel(1, SIZE, 0, PendingTasks(), queue)
    tasks = {name: TimerTask(due_ms) for name, due_ms in DUE_MS.items()}
    ended: set[str] = set()
    found = [
        Phase(
            0,
            {},
            frozenset(),
            ("Three timeouts are set at 0 ms:", "A for 19 ms, B for 5 ms, C for 13 ms."),
        )
    ]

    def note(now_ms: int, caption: tuple[str, str] | None) -> None:
        found.append(Phase(now_ms, dict(_places(wheel, tasks)), frozenset(ended), caption))

    captions = {
        "A": (
            "A is due at 19 ms, and the fine wheel reaches 8 ms:",
            "A goes to the overflow wheel, into the bucket of 16 to 24.",
        ),
        "B": ("B is due at 5 ms:", "it goes to the fine wheel, into bucket 5."),
        "C": ("C is due at 13 ms:", "it goes to the overflow wheel, into the bucket of 8 to 16."),
    }
    for name, task in tasks.items():
        task._timer_expiration_ms = wheel.round_up(DUE_MS[name])
        assert wheel.add(task)
        note(0, captions[name])
    for now_ms in range(1, END_MS + 1):
        caption = ("The clock moves on.", "Empty buckets cost nothing: the thread sleeps.")
        moved: list[str] = []
        while (bucket := queue.poll(now_ms)) is not None:
            due = bucket.tasks()
            span = f"{bucket.expiration_ms} to {bucket.expiration_ms + SIZE}"
            wheel.advance(bucket.expiration_ms)
            bucket.expiration_ms = -1
            for task in due:
                remove_from(bucket, task)
                (name,) = (key for key, each in tasks.items() if each is task)
                if wheel.add(task):
                    moved.append(name)
                    caption = (
                        f"{now_ms} ms: the overflow wheel's bucket of {span} is due.",
                        f"{name} moves down, into bucket {DUE_MS[name]} of the fine wheel.",
                    )
                else:
                    ended.add(name)
                    caption = (
                        f"{now_ms} ms: bucket {now_ms} of the fine wheel is due.",
                        f"{name} expires.",
                    )
        wheel.advance(now_ms)
        for name, completed_ms in COMPLETED_MS.items():
            if completed_ms == now_ms:
                bucket_of_task = tasks[name]._timer_list
                assert bucket_of_task is not None
                remove_from(bucket_of_task, tasks[name])
                ended.add(name)
                caption = (
                    f"{now_ms} ms: the event comes that {name} waits for.",
                    f"{name} leaves its bucket at once, in constant time.",
                )
        note(now_ms, caption)
    return found


def _places(wheel: TimingWheel, tasks: dict[str, TimerTask]) -> Iterator[tuple[str, Place]]:
    """Yield the level and the bucket of each task that is in a wheel."""
    for level, each in enumerate(wheel):
        for slot, bucket in enumerate(each.buckets):
            for task in bucket.tasks():
                for name, known in tasks.items():
                    if known is task:
                        yield name, (level, slot)


def times(found: list[Phase]) -> list[float]:
    """Return when each phase begins, in seconds, and the whole duration at the end."""
    begins = [0.0]
    before: Phase | None = None
    for phase in found:
        is_step = before is None or (phase.places, phase.ended) != (before.places, before.ended)
        begins.append(begins[-1] + (SECONDS_OF_STEP if is_step else SECONDS_OF_TICK))
        before = phase
    begins[-1] += SECONDS_OF_STEP
    return begins


def on_ring(level: int, slot: float, radius: float) -> Point:
    """Return a point of a wheel; bucket 0 is at the top, and time goes clockwise."""
    x, y = CENTERS[level]
    angle = 2 * pi * slot / SIZE - pi / 2
    return x + radius * cos(angle), y + radius * sin(angle)


def sector(level: int, slot: int) -> str:
    """Return the outline of a bucket as a path."""
    (ax, ay), (bx, by) = on_ring(level, slot - 0.5, OUTER), on_ring(level, slot + 0.5, OUTER)
    (cx, cy), (dx, dy) = on_ring(level, slot + 0.5, INNER), on_ring(level, slot - 0.5, INNER)
    return (
        f"M{ax:.1f} {ay:.1f}A{OUTER:g} {OUTER:g} 0 0 1 {bx:.1f} {by:.1f}"
        f"L{cx:.1f} {cy:.1f}A{INNER:g} {INNER:g} 0 0 0 {dx:.1f} {dy:.1f}Z"
    )


class Drawing:
    """Collects shapes, and the key frames by which they appear and move.

    Attributes:
        shapes: SVG elements.
        rules: CSS rules.
    """

    def __init__(self, begins: list[float], resting: int) -> None:
        """Start an empty drawing.

        Args:
            begins: When each phase begins, in seconds, and the whole duration at the end.
            resting: The phase that the still picture shows.
        """
        self.shapes: list[str] = []
        self.rules: list[str] = []
        self._begins = begins
        self._total = begins[-1]
        self._resting = resting

    def percent(self, seconds: float) -> str:
        """Return a time as a share of the animation."""
        return f"{100 * seconds / self._total:.2f}%"

    def show_while(self, shown: list[bool], shape: str) -> None:
        """Add a shape that is there in some phases alone; `CLASS` in it becomes its classes."""
        name = f"tw-{len(self.rules)}"
        frames = []
        for index, is_shown in enumerate(shown):
            if index == 0 or is_shown != shown[index - 1]:
                at = self._begins[index]
                if index > 0:
                    frames.append(f"{self.percent(at - 0.01)}{{opacity:{int(not is_shown)}}}")
                frames.append(f"{self.percent(at)}{{opacity:{int(is_shown)}}}")
        frames.append(f"100%{{opacity:{int(shown[-1])}}}")
        self.rules.append(f"@keyframes {name}{{{''.join(frames)}}}")
        self.rules.append(f".{name}{{animation-name:{name}}}")
        self.shapes.append(
            shape.replace("CLASS", f"{name} moving{' at-rest' * shown[self._resting]}")
        )

    def move(self, points: list[Point], shape: str) -> None:
        """Add a shape that is at a point in each phase."""
        name = f"tw-{len(self.rules)}"
        frames = []
        before = points[0]
        for point, at in zip(points, self._begins, strict=False):
            if point != before:
                frames.append(self._frame(at, before))
                frames.append(self._frame(at + SECONDS_OF_MOVE, point))
                before = point
        first = f"0%{{transform:translate({points[0][0]:.1f}px,{points[0][1]:.1f}px)}}"
        last = f"100%{{transform:translate({before[0]:.1f}px,{before[1]:.1f}px)}}"
        self.rules.append(f"@keyframes {name}{{{first}{''.join(frames)}{last}}}")
        self.rules.append(f".{name}{{animation-name:{name}}}")
        self.shapes.append(shape.replace("CLASS", f"{name} moving"))

    def _frame(self, at: float, point: Point) -> str:
        return f"{self.percent(at)}{{transform:translate({point[0]:.1f}px,{point[1]:.1f}px)}}"


STYLE = """
.timing-wheels{--tw-ink:#1f2328;--tw-soft:#59636e;--tw-line:#8c959f;--tw-paper:#ffffff;
--tw-now:#cfe3ff;font-family:system-ui,sans-serif;color:var(--color-foreground-primary,var(--tw-ink))}
@media (prefers-color-scheme:dark){.timing-wheels{--tw-ink:#e6edf3;--tw-soft:#9da7b3;
--tw-line:#6e7681;--tw-paper:#0d1117;--tw-now:#1c3d66}}
body[data-theme="light"] .timing-wheels{--tw-now:#cfe3ff}
body[data-theme="dark"] .timing-wheels{--tw-now:#1c3d66}
.timing-wheels text{fill:currentColor;text-anchor:middle;dominant-baseline:central;font-size:13px}
.timing-wheels .title{font-size:15px;font-weight:600}
.timing-wheels .soft{fill:var(--color-foreground-secondary,var(--tw-soft))}
.timing-wheels .caption{font-size:16px}
.timing-wheels .clock{font-size:22px;font-weight:600}
.timing-wheels .bucket{fill:none;stroke:var(--color-foreground-muted,var(--tw-line))}
.timing-wheels .now{fill:var(--tw-now)}
.timing-wheels .task circle{stroke:var(--color-background-primary,var(--tw-paper));stroke-width:2}
.timing-wheels .task text{fill:#ffffff;font-weight:700;font-size:14px}
.timing-wheels .a circle{fill:#0b62d6}
.timing-wheels .b circle{fill:#b35900}
.timing-wheels .c circle{fill:#7a3db8}
.timing-wheels .way{fill:none;stroke:#0b62d6;stroke-width:2;stroke-dasharray:5 4}
.timing-wheels .still{display:none}
.timing-wheels .moving{opacity:0;animation-duration:TOTALs;animation-iteration-count:infinite}
.timing-wheels .task.moving{opacity:1}
.timing-wheels:hover .moving{animation-play-state:paused}
@media (prefers-reduced-motion:reduce){.timing-wheels .moving{animation:none}
.timing-wheels .at-rest{opacity:1}.timing-wheels .still{display:inline}
.timing-wheels .task.moving,.timing-wheels .caption.moving{opacity:0}}
"""


def page(_: str = "") -> str:
    """Return the figure."""
    found = phases()
    begins = times(found)
    resting = next(
        index for index, phase in enumerate(found) if phase.places.get("A", (1, 0))[0] == 0
    )
    drawing = Drawing(begins, resting)
    _draw_wheels(drawing, found)
    _draw_captions(drawing, found)
    for name in DUE_MS:
        points = [_point_of(name, phase) for phase in found]
        drawing.move(points, _task(name, "CLASS"))
    style = STYLE.replace("TOTAL", f"{begins[-1]:.2f}") + "\n".join(drawing.rules)
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" class="timing-wheels" viewBox="0 0 720 420" '
        'role="img" aria-labelledby="tw-title tw-text">\n'
        '<title id="tw-title">Three timeouts on two timing wheels</title>\n'
        f'<desc id="tw-text">{_description(found)}</desc>\n'
        f"<style>{style}</style>\n" + "\n".join([*drawing.shapes, *_still()]) + "\n</svg>\n"
    )


def _task(name: str, classes: str) -> str:
    return f'<g class="task {name.lower()} {classes}"><circle r="13"/><text>{name}</text></g>'


def _point_of(name: str, phase: Phase) -> Point:
    if name in phase.ended:
        return ENDED[name]
    if name in phase.places:
        level, slot = phase.places[name]
        return on_ring(level, slot, INNER + 18)
    return START[name]


def _draw_wheels(drawing: Drawing, found: list[Phase]) -> None:
    for level, title in enumerate(("fine wheel, ticks of 1 ms", "overflow wheel, ticks of 8 ms")):
        tick_ms = SIZE**level
        x, y = CENTERS[level]
        drawing.shapes.append(f'<text class="title" x="{x:g}" y="16">{title}</text>')
        for slot in range(SIZE):
            shown = [phase.now_ms // tick_ms % SIZE == slot for phase in found]
            if any(shown):
                drawing.show_while(shown, f'<path class="now CLASS" d="{sector(level, slot)}"/>')
            drawing.shapes.append(f'<path class="bucket" d="{sector(level, slot)}"/>')
            _draw_labels(drawing, found, level, slot)
    x, y = CENTERS[0]
    for now_ms in range(END_MS + 1):
        shown = [phase.now_ms == now_ms for phase in found]
        drawing.show_while(
            shown, f'<text class="clock CLASS" x="{x:g}" y="{y - 8:g}">{now_ms} ms</text>'
        )
    drawing.shapes.append(f'<text class="soft" x="{x:g}" y="{y + 18:g}">the clock</text>')
    drawing.shapes.append('<text class="soft" x="360" y="362">ended</text>')


def _draw_labels(drawing: Drawing, found: list[Phase], level: int, slot: int) -> None:
    """Write into a bucket which time it stands for, which changes when the clock has passed it."""
    tick_ms = SIZE**level
    stands_for = []
    for phase in found:
        first = phase.now_ms // tick_ms
        stands_for.append((first + (slot - first) % SIZE) * tick_ms)
    x, y = on_ring(level, slot, OUTER - 24)
    for start_ms in dict.fromkeys(stands_for):
        text = f"{start_ms}" if level == 0 else f"{start_ms}–{start_ms + tick_ms}"
        shown = [each == start_ms for each in stands_for]
        drawing.show_while(shown, f'<text class="CLASS" x="{x:.1f}" y="{y:.1f}">{text}</text>')


def _draw_captions(drawing: Drawing, found: list[Phase]) -> None:
    captions = dict.fromkeys(phase.caption for phase in found if phase.caption is not None)
    for caption in captions:
        shown = [phase.caption == caption for phase in found]
        for line, y in zip(caption, (386, 408), strict=True):
            drawing.show_while(shown, f'<text class="caption CLASS" x="360" y="{y}">{line}</text>')


def _still() -> list[str]:
    """Return what stands in for the animation: the way of A, in four numbered places."""
    start, ended = START["A"], ENDED["A"]
    coarse = on_ring(1, DUE_MS["A"] // SIZE, INNER + 18)
    fine = on_ring(0, DUE_MS["A"] % SIZE, INNER + 18)
    way = [start, coarse, fine, ended]
    path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in way)
    shapes = [f'<path class="way still" d="{path}"/>']
    for number, (x, y) in enumerate(way, 1):
        shapes.append(
            f'<g class="task a still" transform="translate({x:.1f} {y:.1f})">'
            f'<circle r="13"/><text>{number}</text></g>'
        )
    lines = (
        "A timeout of 19 ms: 1 it is set at 0 ms, 2 into the bucket of 16 to 24,",
        "3 at 16 ms it moves down, into bucket 19, 4 at 19 ms it expires.",
    )
    for line, y in zip(lines, (386, 408), strict=True):
        shapes.append(f'<text class="caption still" x="360" y="{y}">{line}</text>')
    return shapes


def _description(found: list[Phase]) -> str:
    captions = dict.fromkeys(phase.caption for phase in found if phase.caption is not None)
    return " ".join(" ".join(caption) for caption in captions)


def main(arguments: list[str]) -> int:
    """Write the figure, or check it.

    Returns:
        The exit code.
    """
    text = page()
    if "--check" in arguments:
        return int(not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text)
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
