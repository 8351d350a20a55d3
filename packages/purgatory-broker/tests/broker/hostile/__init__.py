"""Requests and connections that no regular client has.

The broker closes the connection or responds with an error, within limits, and serves other clients.
"""
