"""Parts of emitted C, beside the libraries that processors have."""
