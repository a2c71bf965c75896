"""Learning: layers, losses, optimisers, and the terms that training is made of."""
