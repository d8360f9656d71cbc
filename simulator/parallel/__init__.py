"""Plans of parallel training: groups, pipelines, blocks of a model, and the step that they make."""
