"""Pure text helpers that every other part may use: names, sentences, citations, tolerant JSON, prompt templates."""
