"""Rows of requests and events: their columns, their rules, and the columns of users' tables."""
