"""Examples on real data, with the options of `examples.options`."""
