"""What the groups have in common whose assignments the coordinator makes: epochs and records."""
