"""Ways to a model: OpenAI's protocol, LiteLLM, servers of one's own, and what each of them can take."""
