"""Answers and vectors that were paid for once: on this host, shared between hosts, and what people do with them."""
