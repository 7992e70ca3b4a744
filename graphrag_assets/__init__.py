"""Graph RAG as a declarative Dagster project: text in, cited answers out."""

__version__ = "0.1.0"
