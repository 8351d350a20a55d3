"""What the commands of the other packages share; needs cyclopts, docstring-parser and rich."""
