"""Reports of tasks and learners: costs, summaries, traces, tables."""
