"""`python -m tests.modules [NAME…]` prints how the modules train beside PyTorch."""

import sys

from tests.modules.trial import main

main(sys.argv[1:])
