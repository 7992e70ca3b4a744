"""What a reconcile would do and cost, before anything is spent: see :func:`plan`."""

from graphrag_assets.plan.figures import Plan, StagePlan
from graphrag_assets.plan.planning import plan, plan_for

__all__ = ["Plan", "StagePlan", "plan", "plan_for"]
