"""Examples, each on real data, each with the options of `examples.options`."""
