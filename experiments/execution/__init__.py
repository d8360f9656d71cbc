"""Who runs the points of a sweep, and what is kept of an interrupted one."""
