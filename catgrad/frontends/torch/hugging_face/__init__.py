"""Models of Hugging Face from a folder on disk."""
