"""The published benchmark: requests at a rate, completed by a thread, through either design."""
