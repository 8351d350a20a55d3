"""What a cluster knows: topics, their settings, and which nodes lead them."""
