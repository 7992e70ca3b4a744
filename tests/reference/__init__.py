"""Tests against Microsoft GraphRAG itself, installed in an environment of its own."""
