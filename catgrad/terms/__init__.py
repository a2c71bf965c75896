"""Terms: open hypergraphs of operations, their construction, and analyses of their structure."""
