"""pytest fixtures for tests that need Kafka; the package's entry point makes pytest find them.

    def test_order_is_sent(kafka_cluster):
        producer = KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers, acks="all")

Two options in pytest's configuration file set them up: `kafka_nodes` is the number of nodes, and
`kafka_subprocess` gives each cluster its own process.

This module is not part of the package `purgatory_broker`. Every pytest in the environment imports
it, and would import the broker with it.
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from itertools import count
from typing import TYPE_CHECKING, Any
from unittest import SkipTest

import pytest

if TYPE_CHECKING:
    from purgatory_broker import ClusterClient, ClusterFactory

_topic_numbers = count()
#: What a topic's name must not contain, and what its 249 characters have room for beside a number.
_NOT_IN_A_NAME = re.compile(r"[^a-zA-Z0-9._-]")
_MAX_TEST_NAME = 230
#: Seconds that the report of a failed test waits for each cluster's summary.
_SUMMARY_TIMEOUT = 5.0
_cluster_numbers = count()
#: The clusters that `make_kafka_cluster` has made, by number, without those that are closed.
_MADE = pytest.StashKey[dict[int, "ClusterClient"]]()
#: The numbers of those from before a test.
_MADE_BEFORE = pytest.StashKey[frozenset[int]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options to pytest's configuration file."""
    parser.addini("kafka_nodes", "number of nodes of the fixtures' clusters", default="1")
    parser.addini(
        "kafka_subprocess", "give each cluster its own process", type="bool", default=False
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Note which clusters there are before the test's own."""
    item.stash[_MADE_BEFORE] = frozenset(item.config.stash.get(_MADE, ()))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Fail a test in which a function given to `intercept` has raised what nobody has seen."""
    try:
        return (yield from _raising_unseen_errors())
    except BaseException:
        # pytest reports a skip that a TestCase has noted there in place of what is raised here.
        noted: list[Any] | None = getattr(item, "_excinfo", None)
        if noted and issubclass(noted[0].type, (SkipTest, pytest.skip.Exception)):
            noted.clear()
        raise


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Generator[None, object, object]:
    """Raise what functions have raised since the end of the test, before the next one begins."""
    return (yield from _raising_unseen_errors())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    """Add the state of the test's clusters to the report, if it has failed."""
    report = yield
    if report.failed:
        report.sections += [_cluster_section(cluster) for cluster in _clusters_of(item)]
    return report


def _clusters_of(item: pytest.Item) -> list[ClusterClient]:
    """Return the running clusters of the test's fixtures, and those made during the test."""
    module = sys.modules.get("purgatory_broker.cluster.cluster_client")
    if module is None:
        return []
    before = item.stash.get(_MADE_BEFORE, frozenset())
    made = item.config.stash.get(_MADE, {})
    values = [
        *(getattr(item, "funcargs", None) or {}).values(),
        *(cluster for number, cluster in made.items() if number not in before),
    ]
    clusters = {id(value): value for value in values if isinstance(value, module.ClusterClient)}
    return [cluster for cluster in clusters.values() if not cluster._is_closed]  # noqa: SLF001


def _cluster_section(cluster: ClusterClient) -> tuple[str, str]:
    """Return a title and a text, whatever state the cluster is in."""
    texts: list[str] = []

    def ask() -> None:
        try:
            texts.append(cluster.summary())
        except BaseException as error:  # The test's own failure is to be seen.
            texts.append(f"no summary of the cluster: {error!r}")

    # A function given to `intercept` may have stopped the cluster.
    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(_SUMMARY_TIMEOUT)
    return repr(cluster), texts[0] if texts else f"no answer within {_SUMMARY_TIMEOUT:g} s"


def _raising_unseen_errors() -> Generator[None, object, object]:
    try:
        result = yield
    except (KeyboardInterrupt, pytest.exit.Exception):
        raise
    except BaseException as error:
        _raise_unseen_errors(error)
        raise
    _raise_unseen_errors(None)
    return result


def _raise_unseen_errors(during: BaseException | None) -> None:
    # Those of fixtures, and those that a test has started itself, and maybe never closes.
    module = sys.modules.get("purgatory_broker.cluster.cluster")
    if module is not None:
        module.raise_unseen_errors_of_all(during)


@pytest.fixture(scope="session")
def make_kafka_cluster(pytestconfig: pytest.Config) -> Iterator[ClusterFactory]:
    """Return a function that starts clusters, such as `make_kafka_cluster(nodes=3)`.

    Its arguments are those of `Cluster`; its type is `ClusterFactory`. Every cluster that is still
    running is stopped at the end of the session. A test fails if a function given to `intercept` of
    one of them, or of another `Cluster`, has raised an exception during it, unless the test has
    seen the exception.

    Yields:
        The function.
    """
    from purgatory_broker import Cluster, ClusterProcess

    in_subprocess = pytestconfig.getini("kafka_subprocess")
    made = pytestconfig.stash[_MADE] = {}

    def make(*nodes: int, **settings: Any) -> ClusterClient:
        # A closed cluster has its records in memory, as long as anybody keeps it.
        for number in [number for number, each in made.items() if each._is_closed]:  # noqa: SLF001
            del made[number]
        if not nodes:
            settings.setdefault("nodes", _default_nodes(pytestconfig))
        kind = ClusterProcess if in_subprocess else Cluster
        cluster: ClusterClient = kind(*nodes, **settings).start()
        made[next(_cluster_numbers)] = cluster
        return cluster

    yield make
    with ExitStack() as ending:
        for cluster in made.values():
            ending.push(cluster)


def _default_nodes(pytestconfig: pytest.Config) -> int:
    """Return the option `kafka_nodes`."""
    nodes = str(pytestconfig.getini("kafka_nodes")).strip()
    if not nodes.isdecimal() or int(nodes) < 1:
        raise pytest.UsageError(f"kafka_nodes must be a whole number from 1 on, got {nodes!r}")
    return int(nodes)


@pytest.fixture(scope="session")
def kafka_cluster_of_session(make_kafka_cluster: ClusterFactory) -> ClusterClient:
    """Return a cluster that all tests of the session share."""
    return make_kafka_cluster()


@pytest.fixture
def kafka_cluster(make_kafka_cluster: ClusterFactory) -> Iterator[ClusterClient]:
    """Start a cluster for one test.

    The start takes a few milliseconds on a thread, and some hundred in a process.

    Yields:
        The running cluster.
    """
    cluster = make_kafka_cluster()
    yield cluster
    cluster.close()


@pytest.fixture
def kafka_schema_registry(kafka_cluster: ClusterClient) -> str:
    """Return the URL of a schema registry on `kafka_cluster`, such as `http://127.0.0.1:8081`.

    Other clusters have the method `start_schema_registry`.
    """
    return kafka_cluster.start_schema_registry()


@pytest.fixture(scope="session")
def reused_kafka_cluster(make_kafka_cluster: ClusterFactory) -> ClusterClient:
    """Return the cluster that `empty_kafka_cluster` makes empty for each test.

    A fixture of this name in a conftest.py gives it other settings::

        @pytest.fixture(scope="session")
        def reused_kafka_cluster(make_kafka_cluster):
            return make_kafka_cluster(nodes=3, min_insync_replicas=2)
    """
    return make_kafka_cluster()


@pytest.fixture
def empty_kafka_cluster(reused_kafka_cluster: ClusterClient) -> Iterator[ClusterClient]:
    """Make the session's `reused_kafka_cluster` empty, in milliseconds.

    Yields:
        The cluster. It has the same ports in each test, and nothing of the tests before: no topics,
        groups, records, faults or remembered requests. All its nodes run.
    """
    reused_kafka_cluster.reset()
    yield reused_kafka_cluster
    # Else the next test's reset would cancel them, and that test would fail.
    reused_kafka_cluster.end_functions()


@pytest.fixture
def kafka_topic(kafka_cluster_of_session: ClusterClient, request: pytest.FixtureRequest) -> str:
    """Return the unique name of a new topic in the session's cluster."""
    test = getattr(request.node, "originalname", None) or request.node.name
    name = f"{_NOT_IN_A_NAME.sub('_', test)[:_MAX_TEST_NAME]}-{next(_topic_numbers)}"
    kafka_cluster_of_session.create_topic(name)
    return name
