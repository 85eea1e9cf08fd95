"""Templates of the launchers, and the entry file that PM's own launcher starts. Nothing is imported from here."""
