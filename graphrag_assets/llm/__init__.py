"""Language and embedding models: one gateway, its cache and accounts, token counting, embedded models."""
