"""The algorithms of the index as pure functions: data in, data out; what needs a model takes a callable."""
