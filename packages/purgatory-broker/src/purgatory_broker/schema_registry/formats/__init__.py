"""The formats of schemas: each parses, and says what a reader can't read."""
