"""Help texts of the options that are made of settings dataclasses."""

from __future__ import annotations

from dataclasses import fields

import pytest
from cyclopts import Parameter

from purgatory_command_line.settings_options import FieldsOf
from purgatory_spark._outcomes.replay import ReplaySettings
from purgatory_spark._stream.endpoints.address import AddressOptions
from purgatory_spark._stream.job import StreamSettings
from purgatory_spark._stream.run import StreamPlan
from purgatory_spark._traces.trace_reader import ImportSettings
from purgatory_spark._traces.workload import Workload


@pytest.mark.parametrize(
    "settings",
    [
        AddressOptions,
        ImportSettings,
        ReplaySettings,
        StreamPlan,
        StreamSettings,
        Workload,
    ],
)
def test_every_field_of_the_settings_has_a_help_text(settings: type) -> None:
    parameters = FieldsOf(settings).parameters(0)
    helps = {
        each.name: Parameter.combine(*each.annotation.__metadata__).help for each in parameters
    }
    assert [name for name, text in helps.items() if not text] == []
    assert set(helps) == {each.name for each in fields(settings)}
