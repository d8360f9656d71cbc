"""Reports: pages of what the commands answer. A module for each kind of answer."""
