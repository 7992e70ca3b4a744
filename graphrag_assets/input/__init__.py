"""Reading the input: formats, encodings, languages, and the inventory of what is there."""
