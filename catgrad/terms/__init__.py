"""Terms: open hypergraphs of operations, how they are built, and what is computed of their structure."""
