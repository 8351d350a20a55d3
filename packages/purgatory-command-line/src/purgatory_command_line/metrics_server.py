"""Serves metrics for Prometheus over HTTP: the option `--metrics-listen` of commands."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.registry import Collector

from request_purgatory.errors import InvalidArgumentError


def parse_listen_address(text: str) -> tuple[str, int]:
    """Return host and port of `PORT`, on loopback, or `HOST:PORT`; InvalidArgumentError."""
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65_535:
        raise InvalidArgumentError(
            "metrics_listen", "PORT or HOST:PORT, the port at most 65535", text
        )
    return host.strip("[]") or "127.0.0.1", int(port)


def metrics_url(host: str, port: int) -> str:
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/metrics"


@contextmanager
def serve_metrics(collector: Collector, host: str, port: int) -> Iterator[int]:
    """Serve metrics while the context is open; InvalidArgumentError if the port is taken."""
    # Not the library's global registry, to which the process may have added other metrics.
    registry = CollectorRegistry()
    registry.register(collector)
    try:
        server, thread = start_http_server(port, addr=host, registry=registry)
    except OSError as error:
        raise InvalidArgumentError(
            "metrics_listen", f"an address to listen on ({error})", f"{host}:{port}"
        ) from error
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
