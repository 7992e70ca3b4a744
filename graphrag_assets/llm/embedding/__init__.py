"""From texts to vectors: configured models, and embedded ones that need no key and no network."""
