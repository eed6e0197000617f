"""The errors that end a command with status 2 and one line on stderr."""


class BadInput(Exception):
    """Input that cannot be read or understood; the message names the file, the line and the remedy."""
