"""How each request of a trace ends, computed with vectors or by a replay through a purgatory."""
