"""The virtual machines that run Scratch projects, and learners in them."""
