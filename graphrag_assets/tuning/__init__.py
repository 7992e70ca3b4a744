"""Prompts tuned to one's own documents: a sample, a description of the collection, worked examples, new prompt files."""
