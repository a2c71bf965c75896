"""The operations. Every module declares some, and lists them; importing the package registers them all."""

# The names are those of the literature and of NumPy, some of which shadow builtins.
import types
import typing

from catgrad import errors
from catgrad.ops.activations import *
from catgrad.ops.arithmetic import *
from catgrad.ops.attention import *
from catgrad.ops.batch_norm import *
from catgrad.ops.bessel import *
from catgrad.ops.bits import *
from catgrad.ops.bounds import *
from catgrad.ops.cast import *
from catgrad.ops.compare import *
from catgrad.ops.contract import *
from catgrad.ops.control import *
from catgrad.ops.conv import *
from catgrad.ops.cumulative import *
from catgrad.ops.derivatives import *
from catgrad.ops.diagonal import *
from catgrad.ops.entropy import *
from catgrad.ops.error_function import *
from catgrad.ops.extrema import *
from catgrad.ops.fake_quantisation import *
from catgrad.ops.gamma import *
from catgrad.ops.gather import *
from catgrad.ops.hyperbolic import *
from catgrad.ops.linalg import *
from catgrad.ops.literal import *
from catgrad.ops.logic import *
from catgrad.ops.norms import *
from catgrad.ops.pool import *
from catgrad.ops.power import *
from catgrad.ops.prefix import *
from catgrad.ops.quantised import *
from catgrad.ops.random import *
from catgrad.ops.reduce import *
from catgrad.ops.resize import *
from catgrad.ops.rotary import *
from catgrad.ops.scatter import *
from catgrad.ops.sequences import *
from catgrad.ops.shape import *
from catgrad.ops.slices import *
from catgrad.ops.softmax import *
from catgrad.ops.sort import *
from catgrad.ops.take import *
from catgrad.ops.transcendental import *
from catgrad.ops.trigonometric import *
from catgrad.ops.whole import *
from catgrad.ops.window import *
from catgrad.terms import op
from catgrad.terms.structural import stop_gradient as stop_gradient
from catgrad.terms.structural import zeros_like as zeros_like

_values = dict(vars())
__all__ = sorted(n for n, value in _values.items() if n[0] != "_" and not isinstance(value, types.ModuleType))

for _name in __all__:
    globals()[_name] = op.refuses_arrays(globals()[_name])


def __dir__() -> list[str]:
    return __all__


if not typing.TYPE_CHECKING:  # or it would take every name for one of the module
    __getattr__ = errors.no_attribute("catgrad.ops", __all__)
