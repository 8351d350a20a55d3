"""The registry beside a plain model, over restarts and compactions of its topic."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from purgatory_broker.schema_registry.registry import Registry
from purgatory_broker.schema_registry.registry_error import RegistryError
from tests.broker.schema_registry.naive_store import NaiveStore
from tests.support.profiles import examples

SUBJECTS = st.sampled_from(["s", "t"])
SCHEMAS = st.sampled_from(['"int"', '"long"', '"string"'])
NUMBERS = st.sampled_from(["1", "2", "3", "latest"])
MODES = st.sampled_from(["READONLY", "READWRITE"])


class Subjects(RuleBasedStateMachine):
    """The model has [id, schema, whether it is softly deleted] by subject and number."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.store = NaiveStore()
        self.registry = Registry(self.store)
        self.run(self.registry.settings.set_config(None, {"compatibility": "NONE"}))
        self.model: dict[str, dict[int, list[Any]]] = {"s": {}, "t": {}}
        self.last_id = 0
        self.read_only: set[str] = set()

    def teardown(self) -> None:
        self.runner.close()

    def run(self, call: Coroutine[Any, Any, Any]) -> Any:
        """Return what a call returns, or the code of its error."""

        async def outcome() -> Any:
            try:
                return await call
            except RegistryError as error:
                return error.code

        return self.runner.run(outcome())

    def present(self, subject: str) -> dict[int, list[Any]]:
        return {number: found for number, found in self.model[subject].items() if not found[2]}

    @rule(subject=SUBJECTS, schema=SCHEMAS)
    def register(self, subject: str, schema: str) -> None:
        found = self.run(self.registry.register(subject, {"schema": schema}, normalize=False))
        if subject in self.read_only:
            assert found == 42205
            return
        for number, (schema_id, text, _) in self.present(subject).items():
            if text == schema:
                assert (found.number, found.id) == (number, schema_id)
                return
        ids = {text: id_ for known in self.model.values() for id_, text, _ in known.values()}
        if schema not in ids:
            self.last_id += 1
        number = max(self.model[subject], default=0) + 1
        self.model[subject][number] = [ids.get(schema, self.last_id), schema, False]
        assert (found.number, found.id) == (number, self.model[subject][number][0])

    @rule(subject=SUBJECTS, permanent=st.booleans())
    def delete_subject(self, subject: str, permanent: bool) -> None:
        found = self.run(self.registry.delete_subject(subject, permanent=permanent))
        known, present = self.model[subject], self.present(subject)
        if not known:
            assert found == 40401
        elif permanent and present:
            assert found == 40405
        elif not permanent and not present:
            assert found == 40404
        elif subject in self.read_only:
            assert found == 42205
        elif permanent:
            assert found == list(known)
            self.model[subject] = {}
        else:
            assert found == list(present)
            for version in present.values():
                version[2] = True
        # The mode goes with the subject.
        if isinstance(found, list):
            self.read_only.discard(subject)

    @rule(subject=SUBJECTS, number=NUMBERS, permanent=st.booleans())
    def delete_version(self, subject: str, number: str, permanent: bool) -> None:
        found = self.run(self.registry.delete_version(subject, number, permanent=permanent))
        known = self.model[subject]
        wanted = max(self.present(subject), default=0) if number == "latest" else int(number)
        if not known:
            assert found == 40401
        elif wanted not in known:
            assert found == 40402
        elif known[wanted][2] and not permanent:
            assert found == 40406
        elif permanent and not known[wanted][2]:
            assert found == 40407
        elif subject in self.read_only:
            assert found == 42205
        else:
            assert found == wanted
            if permanent:
                del known[wanted]
            else:
                known[wanted][2] = True

    @rule(subject=SUBJECTS, mode=MODES)
    def set_mode(self, subject: str, mode: str) -> None:
        assert (
            self.run(self.registry.settings.set_mode(subject, {"mode": mode}, force=False)) == mode
        )
        if mode == "READONLY":
            self.read_only.add(subject)
        else:
            self.read_only.discard(subject)

    @rule()
    def restart(self) -> None:
        self.registry = Registry(self.store)

    @rule()
    def compact_and_restart(self) -> None:
        self.store.compact()
        self.registry = Registry(self.store)
        # A restart forgets the ids of what was deleted permanently, as Confluent's does.
        self.last_id = max(
            (version[0] for known in self.model.values() for version in known.values()), default=0
        )

    @invariant()
    def registry_is_as_the_model(self) -> None:
        found = {
            subject: {
                version.number: [version.id, version.schema.text, version.is_deleted]
                for version in self.registry.state.versions(subject, deleted=True)
            }
            for subject in self.model
        }
        assert found == self.model


TestSubjects = Subjects.TestCase
TestSubjects.settings = examples(40, stateful_step_count=30)
