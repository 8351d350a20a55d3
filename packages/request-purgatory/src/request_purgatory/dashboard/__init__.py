"""A live page of what waits in the purgatories of this process: `serve_dashboard`."""

from request_purgatory.dashboard.dashboard import Dashboard, serve_dashboard
from request_purgatory.dashboard.panel import Panel

__all__ = ["Dashboard", "Panel", "serve_dashboard"]
