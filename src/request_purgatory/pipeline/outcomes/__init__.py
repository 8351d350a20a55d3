"""How every request of a trace ends: by vectors, or by a replay through a real purgatory."""
