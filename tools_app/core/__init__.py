"""What a tool is: definition, arguments, results, cleaning."""
