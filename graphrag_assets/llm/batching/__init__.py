"""Questions of an index run that travel as files through a provider's batch API, for half the price."""
