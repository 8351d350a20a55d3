"""Private parts: locks, clock reading, states, forks, and what the cyclic collector sees."""
