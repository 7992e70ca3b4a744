"""The DAG: thin declarations of assets and checks, one module for each of its parts."""
