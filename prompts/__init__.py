"""The prompts, one text file each; shipped as package data of graphrag_assets.prompts."""
