"""What a call has to wait or stop for: limits, the pace that a provider can take, budgets of runs and of days."""
