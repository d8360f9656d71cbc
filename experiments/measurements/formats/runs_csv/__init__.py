"""CSV files of measured runs, as simctl writes and reads them."""
