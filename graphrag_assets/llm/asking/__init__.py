"""From a question to a validated answer: the ladder of tries, the calls, and what is kept of those that failed."""
