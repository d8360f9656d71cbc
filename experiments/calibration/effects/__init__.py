"""What a library adds to the time of a collective: one file for each effect."""
