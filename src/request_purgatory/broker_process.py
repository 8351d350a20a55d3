"""Where the process of a `ClusterProcess` begins: `python -m request_purgatory.broker_process`.

Outside the package `broker`, whose import is what this is about: `kafka/__init__.py` imports all of
kafka-python's clients, which takes about half of the time that the process needs to start, and of
which the broker uses none. So `kafka` is put in place here without running that file; in this
process nobody else imports it.
"""

from __future__ import annotations

import importlib.util
import sys
import types


def leave_out_clients() -> None:
    """Have `import kafka.protocol` and `import kafka.record` not import the clients."""
    spec = importlib.util.find_spec("kafka")
    if spec is None or spec.submodule_search_locations is None or "kafka" in sys.modules:
        return  # The import of the broker will say what is missing.
    package = types.ModuleType("kafka")
    package.__path__ = list(spec.submodule_search_locations)
    package.__spec__ = spec
    sys.modules["kafka"] = package


def main() -> int:
    """Serve; the exit code."""
    leave_out_clients()
    from request_purgatory.broker.cluster.process_main import main as serve

    return serve()


if __name__ == "__main__":
    sys.exit(main())
