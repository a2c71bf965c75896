"""Front ends: terms made of what other libraries write."""
