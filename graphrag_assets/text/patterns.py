"""Regular expressions that are searched in all of a corpus."""

from __future__ import annotations


def beginning_with(first: str, pattern: str) -> str:
    """A pattern that is tried only where its first character stands.

    Python tries a pattern of several alternatives, or with an optional beginning, in full at each position of a text;
    one look at the character before that makes a search two to five times as fast, and finds the same.

    Args:
        first: Characters that a match can begin with, as in a set; their case counts as it does for the pattern.
        pattern: The pattern, which matches no empty text.
    """
    return rf"(?=[{first}])(?:{pattern})"
