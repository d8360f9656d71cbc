"""Floor 1: schedules, engines, timelines, cost models. Knows nothing of files, terminals or
plots."""
