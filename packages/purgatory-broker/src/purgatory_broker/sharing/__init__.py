"""Share groups (KIP-932): records that several consumers take from one partition."""
