"""Groups of the consumer protocol (KIP-848): the coordinator makes the assignments."""
