"""The options of commands: declared once, for several commands, and read from text."""
