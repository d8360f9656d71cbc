"""The commands of `simctl`, one thin file each, imported when it runs."""
