"""Schedules, engines, timelines and cost models. No module here knows of files, terminals or
plots."""
