"""Examples on real data, with the options of `catgrad.examples.options`."""
