"""Deciding what has to be computed, and running it: plan, reconcile, jobs, the Dagster instance."""
