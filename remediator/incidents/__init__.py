"""Signal -> Incident: the same machine, the same incident, until it is closed."""
