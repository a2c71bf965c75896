"""Virtual machines that run Scratch projects, and learners in them."""
