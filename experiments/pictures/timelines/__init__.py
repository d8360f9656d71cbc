"""Pictures and traces of training runs: who does what when, who waits, and for what."""
