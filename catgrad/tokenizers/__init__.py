"""Tokenizers: text to numbers and back, as data for all targets.

`CharTokenizer`, `BPETokenizer` and `UnigramTokenizer` are data with the functions `encode` and `decode`;
`from_hugging_face` reads those of the libraries tokenizers and transformers.
"""

from .bpe import BPETokenizer
from .char import CharTokenizer
from .hugging_face import from_hugging_face
from .stages import WHITESPACE, Decoder, PreTokenizer
from .tokenizer import Tokenizer
from .unigram import UnigramTokenizer

__all__ = [
    "WHITESPACE",
    "BPETokenizer",
    "CharTokenizer",
    "Decoder",
    "PreTokenizer",
    "Tokenizer",
    "UnigramTokenizer",
    "from_hugging_face",
]
