"""Pure values and rules of PM: no files, no processes, no clock."""
