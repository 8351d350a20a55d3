"""The programs of regular expressions, and how those of parts make that of a whole."""

from __future__ import annotations

from typing import NamedTuple

from purgatory_broker.patterns.characters import CharacterSet


class Instruction(NamedTuple):
    """A step: to consume a character, to hold at a place, or to go on elsewhere, for nothing."""

    #: Where the match goes on; two places for a choice.
    targets: tuple[int, ...]
    characters: CharacterSet | None = None
    #: One of `^`, `$`, `A`, `z`, `b` and `B`.
    assertion: str = ""


class Fragment(NamedTuple):
    """A part of a program whose targets count from its first instruction; its end is behind it."""

    instructions: tuple[Instruction, ...]

    def shifted(self, by: int) -> list[Instruction]:
        return [
            step._replace(targets=tuple(target + by for target in step.targets))
            for step in self.instructions
        ]


def sequence(fragments: list[Fragment]) -> Fragment:
    steps: list[Instruction] = []
    for fragment in fragments:
        steps += fragment.shifted(len(steps))
    return Fragment(tuple(steps))


def choice(fragments: list[Fragment]) -> Fragment:
    result = fragments[-1]
    for fragment in reversed(fragments[:-1]):
        first = fragment.shifted(1)
        second = result.shifted(len(first) + 2)
        end = len(first) + len(second) + 2
        steps = [Instruction((1, len(first) + 2)), *first, Instruction((end,)), *second]
        result = Fragment(tuple(steps))
    return result


def up_to(count: int, fragment: Fragment) -> Fragment:
    steps: list[Instruction] = []
    end = count * (len(fragment.instructions) + 1)
    for _ in range(count):
        steps.append(Instruction((len(steps) + 1, end)))
        steps += fragment.shifted(len(steps))
    return Fragment(tuple(steps))


def any_number(fragment: Fragment) -> Fragment:
    steps = fragment.shifted(1)
    end = len(steps) + 2
    return Fragment((Instruction((1, end)), *steps, Instruction((0,))))
