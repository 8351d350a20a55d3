"""The transaction coordinator of a node."""
