"""Passes that leave less to compute: constants, copies and dead stores go, invariants are hoisted."""
