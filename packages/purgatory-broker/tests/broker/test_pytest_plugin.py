"""The pytest fixtures of the package, in pytest processes of their own."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

#: Plugins that those tests have no use for; importing Hypothesis takes longer than any of them.
_WITHOUT = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-p", "no:xdist")
#: Warnings are errors, except for kafka-python's own when a test imports it on Python 3.11 or 3.12.
_ERRORS = (
    "-Werror",
    "-Wignore:read_text is deprecated:DeprecationWarning",
    "-Wignore:open_text is deprecated:DeprecationWarning",
)

_TESTS = """
    from kafka import KafkaProducer

    def test_of_a_cluster(kafka_cluster):
        assert kafka_cluster.bootstrap_servers.count(":") == {nodes}
        producer = KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers, acks="all")
        assert producer.send("made-by-itself", b"x").get(10).offset == 0
        producer.close()

    def test_of_another_cluster(kafka_cluster):
        producer = KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers, acks="all")
        assert producer.send("made-by-itself", b"x").get(10).offset == 0
        producer.close()

    def test_of_a_topic(kafka_topic, kafka_cluster_of_session):
        assert kafka_topic.startswith("test_of_a_topic-")
        assert len(kafka_cluster_of_session.describe_topic(kafka_topic)) == 1

    def test_of_the_same_cluster(kafka_topic, kafka_cluster_of_session, make_kafka_cluster):
        assert kafka_cluster_of_session.describe_topic(kafka_topic)[0]["leader"] >= 0
        own = make_kafka_cluster(nodes=3, min_insync_replicas=2)
        assert own.bootstrap_servers.count(":") == 3
        assert type(own).__name__ == "{kind}"
"""


@pytest.mark.parametrize(
    ("subprocess", "kind"),
    [("false", "Cluster"), pytest.param("true", "ClusterProcess", marks=pytest.mark.slow)],
)
def test_fixtures_provide_clusters_and_topics(
    pytester: pytest.Pytester, subprocess: str, kind: str
) -> None:
    pytester.makeini(f"[pytest]\nkafka_nodes = 2\nkafka_subprocess = {subprocess}\n")
    pytester.makepyfile(_TESTS.format(nodes=2, kind=kind))
    pytester.runpytest_subprocess(*_WITHOUT).assert_outcomes(passed=4)


@pytest.mark.slow
def test_fixture_provides_a_schema_registry(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        from urllib.request import urlopen

        def test_of_a_registry(kafka_schema_registry, kafka_cluster):
            assert urlopen(kafka_schema_registry + "/subjects", timeout=30).read() == b"[]"
            assert kafka_cluster.describe_topic("_schemas")
        """
    )
    pytester.runpytest_subprocess(*_WITHOUT).assert_outcomes(passed=1)


@pytest.mark.slow
@pytest.mark.parametrize("subprocess", ["false", "true"])
def test_fixtures_cause_no_warnings(pytester: pytest.Pytester, subprocess: str) -> None:
    pytester.makeini(f"[pytest]\nkafka_subprocess = {subprocess}\n")
    pytester.makepyfile(
        """
        def test_of_a_cluster(kafka_cluster, kafka_topic):
            from kafka import KafkaProducer

            producer = KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers)
            assert producer.send("made-by-itself", b"x").get(10).offset == 0
            producer.close()

        def test_of_an_import():
            from purgatory_broker import ClusterProcess
        """
    )
    pytester.runpytest_subprocess(*_WITHOUT, *_ERRORS).assert_outcomes(passed=2)


@pytest.mark.slow
@pytest.mark.parametrize(("subprocess", "kind"), [("false", "Cluster"), ("true", "ClusterProcess")])
def test_reused_cluster_is_empty_for_each_test(
    pytester: pytest.Pytester, subprocess: str, kind: str
) -> None:
    pytester.makeini(f"[pytest]\nkafka_nodes = 2\nkafka_subprocess = {subprocess}\n")
    pytester.makepyfile(
        f"""
        import pytest

        addresses = set()

        @pytest.mark.parametrize("name", ["größe", "/" * 300, "c"])
        def test_of_an_empty_cluster(name, empty_kafka_cluster):
            from kafka import KafkaProducer

            assert type(empty_kafka_cluster).__name__ == "{kind}"
            addresses.add(empty_kafka_cluster.bootstrap_servers)
            assert len(addresses) == 1
            assert empty_kafka_cluster.requests() == empty_kafka_cluster.faults() == []
            empty_kafka_cluster.create_topic("orders", replication_factor=2)
            producer = KafkaProducer(bootstrap_servers=addresses.pop().split(","), acks="all")
            assert producer.send("orders", b"x").get(10).offset == 0
            producer.close()
            addresses.add(empty_kafka_cluster.bootstrap_servers)
            empty_kafka_cluster.inject_request_error("Metadata", "BROKER_NOT_AVAILABLE", times=None)
            empty_kafka_cluster.kill(1)

        def test_of_a_topic_beside(kafka_topic, empty_kafka_cluster, kafka_cluster_of_session):
            assert kafka_cluster_of_session is not empty_kafka_cluster
            assert len(kafka_cluster_of_session.describe_topic(kafka_topic)) == 1
        """
    )
    pytester.runpytest_subprocess(*_WITHOUT, *_ERRORS).assert_outcomes(passed=4)


@pytest.mark.slow
def test_reused_cluster_has_the_settings_of_the_conftest(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
        import pytest

        @pytest.fixture(scope="session")
        def reused_kafka_cluster(make_kafka_cluster):
            return make_kafka_cluster(nodes=3, num_partitions=5)
        """
    )
    pytester.makepyfile(
        """
        def test_of_settings(empty_kafka_cluster):
            empty_kafka_cluster.create_topic("orders")
            assert len(empty_kafka_cluster.describe_topic("orders")) == 5
            assert empty_kafka_cluster.bootstrap_servers.count(":") == 3
        """
    )
    pytester.runpytest_subprocess(*_WITHOUT).assert_outcomes(passed=1)


def test_made_cluster_takes_the_arguments_of_a_cluster(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        from request_purgatory.errors import InvalidArgumentError

        def test_nodes_may_come_first(make_kafka_cluster):
            assert make_kafka_cluster(2).bootstrap_servers.count(":") == 2

        @pytest.mark.parametrize(
            ("settings", "message"),
            [
                ({"nodes": None}, "nodes must be a whole number .* got None"),
                ({"nodes": 1.5}, "nodes must be a whole number .* got 1.5"),
                ({"num_partitions": "2"}, "num_partitions must be a whole number .* got '2'"),
                ({"producer_byte_rate": float("nan")}, "must be a finite number or None, got nan"),
                ({"record": 5}, "record must be a Path, a str or None, got 5"),
            ],
        )
        def test_value_is_named(make_kafka_cluster, settings, message):
            with pytest.raises(InvalidArgumentError, match=message):
                make_kafka_cluster(**settings)
        """
    )
    pytester.runpytest_subprocess(*_WITHOUT).assert_outcomes(passed=6)


@pytest.mark.slow
@pytest.mark.parametrize("nodes", ["three", "0", "-1", "1.5"])
def test_option_that_is_no_number_is_named(pytester: pytest.Pytester, nodes: str) -> None:
    pytester.makeini(f"[pytest]\nkafka_nodes = {nodes}\n")
    pytester.makepyfile("def test_with(kafka_cluster):\n    pass\n")
    ran = pytester.runpytest_subprocess(*_WITHOUT)
    ran.assert_outcomes(errors=1)
    ran.stdout.fnmatch_lines([f"*kafka_nodes must be a whole number from 1 on, got '{nodes}'*"])


def test_plugin_imports_nothing_of_the_package(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import sys

        def test_without():
            assert "pytest_purgatory_broker" in sys.modules
            assert not {"kafka", "request_purgatory"} & set(sys.modules)
        """
    )
    pytester.runpytest_subprocess(*_WITHOUT).assert_outcomes(passed=1)


@pytest.mark.slow
def test_topics_are_named_after_any_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        f"""
        import pytest
        import unittest

        def test_größe(kafka_topic):
            assert kafka_topic == "test_gr__e-0"

        @pytest.mark.parametrize("value", ["ß/?"])
        def test_of_a_parameter(kafka_topic, value):
            assert kafka_topic == "test_of_a_parameter-1"

        def test_{"long" * 70}(kafka_topic):
            assert kafka_topic.startswith("test_longlong")
            assert len(kafka_topic) <= 249

        class TestOfUnittest(unittest.TestCase):
            @pytest.fixture(autouse=True)
            def _keep_topic(self, kafka_topic):
                self.topic = kafka_topic

            def test_method(self):
                assert self.topic == "test_method-3"
        """
    )
    pytester.runpytest_subprocess(*_WITHOUT).assert_outcomes(passed=4)


_ASK = """
        import asyncio
        import pytest
        import socket
        import struct
        import threading

        def ask(cluster):
            host, port = cluster.bootstrap_servers.split(",")[0].split(":")
            request = struct.pack(">hhihi", 3, 0, 1, -1, 0)  # Metadata, version 0, of all topics
            client = socket.create_connection((host, int(port)), 10)
            client.sendall(struct.pack(">i", len(request)) + request)
            return client
"""


@pytest.mark.slow
def test_skip_of_a_test_hides_no_error_of_a_function(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        _ASK
        + """
        import unittest

        def fail(cluster):
            def must_not_happen(request):
                raise AssertionError("must not happen")

            cluster.intercept("Metadata", must_not_happen)
            ask(cluster).recv(1)

        def test_function(kafka_cluster):
            fail(kafka_cluster)
            pytest.skip("the rest needs a network")

        class TestOfUnittest(unittest.TestCase):
            @pytest.fixture(autouse=True)
            def _keep_cluster(self, kafka_cluster):
                self.cluster = kafka_cluster

            def test_method(self):
                fail(self.cluster)
                self.skipTest("the rest needs a network")

            def test_other(self):
                self.skipTest("no reason to fail")
        """
    )
    pytester.runpytest_subprocess(*_WITHOUT).assert_outcomes(failed=2, skipped=1)


@pytest.mark.slow
def test_function_that_waits_at_the_end_of_a_test_fails_this_test(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(
        _ASK
        + """
        async def wait(request):
            began.set()
            await asyncio.Event().wait()
            assert False, "never reached"

        began = threading.Event()
        clients = []

        def test_that_does_not_wait_for_the_function(empty_kafka_cluster):
            empty_kafka_cluster.intercept("Metadata", wait)
            clients.append(ask(empty_kafka_cluster))
            assert began.wait(10)

        def test_that_is_innocent(empty_kafka_cluster):
            assert empty_kafka_cluster.bootstrap_servers
            clients.pop().close()
        """
    )
    ran = pytester.runpytest_subprocess(*_WITHOUT, "-W", "error")
    ran.assert_outcomes(passed=2, errors=1)
    ran.stdout.re_match_lines(
        [
            "E .*ClusterError: the function that intercepts Metadata was cancelled half way.*",
            "ERROR .*::test_that_does_not_wait_for_the_function.*",
        ]
    )


@pytest.mark.slow
def test_cluster_that_a_test_never_closes_fails_it_too(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        _ASK
        + """
        def test_of_its_own_cluster():
            from purgatory_broker import Cluster

            cluster = Cluster().start()
            cluster.intercept("Metadata", lambda request: pytest.fail("must not happen"))
            with ask(cluster) as client:
                assert client.recv(4)

        def test_that_is_innocent():
            pass
        """
    )
    ran = pytester.runpytest_subprocess(*_WITHOUT, "-W", "error")
    ran.assert_outcomes(passed=1, failed=1)
    ran.stdout.re_match_lines(["FAILED .*::test_of_its_own_cluster.*"])


@pytest.mark.slow
@pytest.mark.parametrize(
    "fixture", ["kafka_cluster", "empty_kafka_cluster", "kafka_cluster_of_session"]
)
def test_what_a_function_raises_fails_the_test_that_does_not_see_it(
    pytester: pytest.Pytester, fixture: str
) -> None:
    pytester.makepyfile(
        f"""
        import pytest
        import socket
        import struct

        def ask(cluster):
            host, port = cluster.bootstrap_servers.split(":")
            request = struct.pack(">hhihi", 3, 0, 1, -1, 0)  # Metadata, version 0, of all topics
            with socket.create_connection((host, int(port)), 10) as client:
                client.sendall(struct.pack(">i", len(request)) + request)
                assert client.recv(4)

        def must_not_happen(request):
            pytest.fail("a client has asked for " + request.api)

        def test_that_never_ends_the_interception({fixture}):
            {fixture}.intercept("Metadata", must_not_happen)
            ask({fixture})
            {fixture}.clear_faults()

        def test_that_is_innocent({fixture}):
            assert {fixture}.bootstrap_servers

        def test_that_has_seen_it({fixture}):
            interception = {fixture}.intercept("Metadata", must_not_happen)
            ask({fixture})
            assert isinstance(interception.errors[0], pytest.fail.Exception)
            {fixture}.clear_faults()

        def test_whose_block_is_in_pytest_raises({fixture}):
            with pytest.raises(OSError), {fixture}.intercept("Metadata", must_not_happen):
                ask({fixture})
                raise OSError("the client has failed")

        @pytest.fixture
        def client_that_leaves({fixture}):
            yield
            {fixture}.intercept("Metadata", must_not_happen)
            ask({fixture})
            {fixture}.clear_faults()

        def test_whose_teardown_lets_it_happen(client_that_leaves):
            pass
        """
    )
    ran = pytester.runpytest_subprocess(*_WITHOUT, "-W", "error")
    ran.assert_outcomes(passed=3, failed=2, errors=1)
    ran.stdout.re_match_lines(
        [
            "E .*Failed: a client has asked for Metadata",
            "FAILED .*::test_that_never_ends_the_interception.*",
            "FAILED .*::test_whose_block_is_in_pytest_raises.*",
            "ERROR .*::test_whose_teardown_lets_it_happen.*",
        ]
    )


@pytest.mark.slow
@pytest.mark.parametrize("subprocess", ["false", "true"])
def test_fixtures_keep_no_clusters_that_are_closed(
    pytester: pytest.Pytester, subprocess: str
) -> None:
    """Whoever has closed them; one that runs is kept, though nobody else refers to it."""
    pytester.makeini(f"[pytest]\nkafka_subprocess = {subprocess}\n")
    pytester.makepyfile(
        """
        import gc
        import weakref
        import pytest

        made = []

        @pytest.mark.parametrize("number", range(4))
        def test_of_a_cluster(kafka_cluster, make_kafka_cluster, number):
            own = make_kafka_cluster()
            own.close()
            running = make_kafka_cluster() if number == 0 else None
            made.append([weakref.ref(each) for each in (kafka_cluster, own, running) if each])
            del own, running

        def test_that_they_are_gone(make_kafka_cluster):
            make_kafka_cluster()
            gc.collect()
            assert [[each() is not None for each in some] for some in made] == [
                [False, False, True], *[[False, False]] * 3
            ]
            assert made[0][2]().faults() == []
        """
    )
    pytester.runpytest_subprocess(*_WITHOUT).assert_outcomes(passed=5)


@pytest.mark.slow
def test_skip_of_a_function_does_not_replace_a_failure(pytester: pytest.Pytester) -> None:
    """Neither that of the test nor that of a function of another cluster."""
    pytester.makepyfile(
        """
        import socket
        import struct
        import pytest

        def ask(cluster):
            host, port = cluster.bootstrap_servers.split(":")
            request = struct.pack(">hhihi", 3, 0, 1, -1, 0)  # Metadata, version 0, of all topics
            with socket.create_connection((host, int(port)), 10) as client:
                client.sendall(struct.pack(">i", len(request)) + request)
                assert client.recv(4)

        def test_that_fails(kafka_cluster):
            kafka_cluster.intercept("Metadata", lambda _: pytest.skip("not for this version"))
            ask(kafka_cluster)
            assert 0, "of the test itself"

        def test_that_skips(kafka_cluster):
            kafka_cluster.intercept("Metadata", lambda _: pytest.skip("not for this version"))
            ask(kafka_cluster)

        def test_whose_functions_fail(make_kafka_cluster):
            clusters = [make_kafka_cluster() for _ in range(3)]
            for number, cluster in enumerate(clusters):
                fails = pytest.fail if number == 1 else pytest.skip
                cluster.intercept("Metadata", lambda _, fails=fails: fails("of a function"))
                ask(cluster)
        """
    )
    ran = pytester.runpytest_subprocess(*_WITHOUT)
    ran.assert_outcomes(failed=2, skipped=1)
    ran.stdout.re_match_lines(["E .*AssertionError: of the test itself"])


_FAILING = """
        def fail(cluster):
            cluster.create_topic("orders", partitions=2)
            cluster.inject_request_error("Produce", "NOT_ENOUGH_REPLICAS", topic="orders")
            cluster.inject_response_fault("Metadata", "delay", delay_ms=1)
            with ask(cluster) as client:
                assert client.recv(4)
            assert cluster == "something else"

        def test_that_passes(kafka_cluster_of_session):
            pass

        def test_with_its_cluster(kafka_cluster):
            fail(kafka_cluster)

        def test_with_the_emptied_cluster(empty_kafka_cluster):
            fail(empty_kafka_cluster)

        def test_with_a_cluster_that_it_makes(make_kafka_cluster):
            fail(make_kafka_cluster(nodes=2))
"""
_SHOWN = [
    "E *something else*",
    "*<Cluster*nodes=* at 127.0.0.1:*>*",
    "  0 at 127.0.0.1:*",
    "  orders-1: leader ?, offsets 0 to 0, high watermark 0, in sync [[]*",
    "  1: Produce error NOT_ENOUGH_REPLICAS, topic orders: never met, 1 left",
    "  2: Metadata delay: met 1 times, over",
    "  ??:??:??.??? node 0: Metadata v0 of '', answered after * ms",
]


@pytest.mark.parametrize("subprocess", ["false", "true"])
def test_report_of_a_failed_test_shows_its_cluster(
    pytester: pytest.Pytester, subprocess: str
) -> None:
    pytester.makeini(f"[pytest]\nkafka_subprocess = {subprocess}\n")
    pytester.makepyfile(_ASK + _FAILING)
    ran = pytester.runpytest_inprocess(*_WITHOUT)
    ran.assert_outcomes(passed=1, failed=3)
    ran.stdout.fnmatch_lines(_SHOWN * 3)
    # Not those of the other tests.
    assert ran.stdout.str().count("last of ") == 3


@pytest.mark.slow
def test_report_of_a_failed_test_shows_its_cluster_with_xdist(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(_ASK + _FAILING)
    ran = pytester.runpytest_subprocess(
        "-p", "no:hypothesispytest", "-n", "1", "-k", "test_with_its_cluster"
    )
    ran.assert_outcomes(failed=1)
    ran.stdout.fnmatch_lines(_SHOWN)


@pytest.mark.slow
def test_cluster_that_does_not_answer_hides_no_failure(pytester: pytest.Pytester) -> None:
    pytester.makeconftest("import pytest_purgatory_broker as it; it._SUMMARY_TIMEOUT = 0.05")
    pytester.makepyfile(
        _ASK
        + """
        gate = threading.Event()

        def test_whose_function_blocks_the_cluster(kafka_cluster, request):
            request.addfinalizer(gate.set)
            began = threading.Event()
            kafka_cluster.intercept("Metadata", lambda _: (began.set(), gate.wait()) and None)
            ask(kafka_cluster)
            assert began.wait(10)
            assert "blocked" == 1

        def test_whose_cluster_raises(kafka_cluster, monkeypatch):
            monkeypatch.setattr(type(kafka_cluster), "summary", lambda _cluster: 1 / 0)
            assert "raising" == 1

        def test_whose_cluster_is_closed(kafka_cluster):
            kafka_cluster.close()
            assert "closed" == 1

        def test_without_a_cluster():
            assert "without" == 1
        """
    )
    ran = pytester.runpytest_subprocess(*_WITHOUT)
    ran.assert_outcomes(failed=4)
    for what in ("blocked", "raising", "closed", "without"):
        ran.stdout.fnmatch_lines([f"E *{what}* == 1"])
    ran.stdout.fnmatch_lines(["no answer within 0.05 s", "no summary *: ZeroDivisionError(*"])
    assert ran.stdout.str().count("- <Cluster nodes=1 at") == 2


@pytest.mark.slow
def test_tests_that_pass_ask_for_no_summary(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        from purgatory_broker import Cluster

        Cluster.summary = lambda _cluster: asked.append(1)
        asked = []

        def test_that_passes(kafka_cluster):
            pass

        @pytest.mark.xfail
        def test_that_is_expected_to_fail(kafka_cluster):
            assert False

        def test_that_is_skipped(kafka_cluster):
            pytest.skip("it has its reason")

        def test_how_often_it_was_asked():
            assert not asked
        """
    )
    pytester.runpytest_subprocess(*_WITHOUT).assert_outcomes(passed=2, xfailed=1, skipped=1)
