"""Sums, prefix sums, sorts and scatters by teams of threads, in fixed trees."""
