"""Exchange with other systems: importing an index of Microsoft GraphRAG, exporting to it and to graph tools."""
