"""How `--help` lays out options: no option is broken inside a word, however long it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cyclopts.help import DefaultFormatter, HelpEntry, HelpPanel
from cyclopts.help.specs import ColumnSpec, DescriptionRenderer, NameRenderer

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType

#: The part of the terminal's width that cyclopts leaves to names.
_NAMES = 0.35

_name = NameRenderer()
_description = DescriptionRenderer()


class HelpFormatter(DefaultFormatter):
    """Puts the descriptions of a panel below the names if a name has no room beside.

    cyclopts alone breaks such a name inside a word.
    """

    def __call__(self, console: Console, options: ConsoleOptions, panel: HelpPanel) -> None:
        room = console.width * _NAMES
        is_narrow = panel.format == "parameter" and any(
            len(str(_name(entry))) > room for entry in panel.entries
        )
        self.column_specs = (ColumnSpec(_stacked, overflow="fold"),) if is_narrow else None
        super().__call__(console, options, panel)


def _stacked(entry: HelpEntry) -> RenderableType:
    from rich.console import Group
    from rich.padding import Padding
    from rich.text import Text

    name = Text(str(_name(entry)), style="cyclopts.name")
    return Group(name, Padding(_description(entry), (0, 0, 0, 4)))
