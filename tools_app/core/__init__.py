"""Tool basics: definition, arguments, results, cleaning."""
