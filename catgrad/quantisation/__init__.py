"""Post-training quantisation: a functor from a trained model to one that computes in integers of 8 bits.

Source: Jacob et al. 2018, Quantization and training of neural networks for efficient
integer-arithmetic-only inference (arXiv:1712.05877)
"""

from catgrad.quantisation.affine import Affine
from catgrad.quantisation.calibrate import Extrema
from catgrad.quantisation.quantise import quantise
from catgrad.quantisation.quantised import Quantised

__all__ = ["Affine", "Extrema", "Quantised", "quantise"]
