"""The compiler itself: its speed, what it imports, and models of memory and time."""
