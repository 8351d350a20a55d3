"""Regular expressions in RE2's syntax, matched in linear time.

Clients send them, for topics or transactional ids. Python's `re` backtracks, so that a short
expression could stop the event loop for hours.
"""
