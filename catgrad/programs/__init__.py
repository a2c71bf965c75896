"""Programs: named functions in A-normal form, and the passes that rewrite them."""
