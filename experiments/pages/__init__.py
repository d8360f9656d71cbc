"""Pages: self-contained HTML files that open without a network."""
