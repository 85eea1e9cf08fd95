"""perdure-pm's command line: parse, run the operation, render; no decisions."""
