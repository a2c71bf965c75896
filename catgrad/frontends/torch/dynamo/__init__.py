"""The backend of torch.compile: captured graphs as functions in C with their gradients."""
