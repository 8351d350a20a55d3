"""Internals: locks, clock reading, states, forks, and integration with the cyclic collector."""
