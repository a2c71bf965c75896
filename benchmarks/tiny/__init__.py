"""Programs that train small networks on microcontrollers, and what they need there."""
