"""Speed, measured: each module prints a table of ratios against named peers and keeps it as JSON."""
