"""Pictures and traces of results."""
