"""One verb per file: what PM does, on ports and the store."""
