"""What Dagster's command dg loads in this workspace; see dg.toml."""

from graphrag_assets.definitions import defs

__all__ = ["defs"]
