"""Tests against a real llama.cpp server with a small model: see the Makefile's target local-model."""
