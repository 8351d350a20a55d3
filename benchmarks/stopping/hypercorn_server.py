"""hypercorn's server in a program of one's own."""

from __future__ import annotations

import asyncio
import sys
from typing import Any, cast

from hypercorn.asyncio import serve
from hypercorn.config import Config

from benchmarks.stopping.asgi import app

config = Config()
config.bind = [f"127.0.0.1:{sys.argv[1]}"]
asyncio.run(serve(cast(Any, app), config))
