"""Models that serve tokens: iterations of an engine, and operating points of a closed loop."""
