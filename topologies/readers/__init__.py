"""Machines read from files: what the vendors' tools print, and our own format."""
