"""The training loop: epochs of batches, what it records, and what it keeps."""
