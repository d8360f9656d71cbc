"""The one error that is a user's mistake and not a bug."""


class InputError(ValueError):
    """Bad input: one line that names the value and what would be right. The command line exits with
    2."""
