"""What no client sends.

The broker ends the connection or answers with an error, within bounds, and serves the others.
"""
