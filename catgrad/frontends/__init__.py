"""Front ends: models of other libraries, imported as terms."""
