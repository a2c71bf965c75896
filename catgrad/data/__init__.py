"""Data for training: named columns of files, shards, labels and one-hot rows, splits, standardisation."""

from catgrad.data.columns import Columns, columns, one_hot
from catgrad.data.files import read
from catgrad.data.shards import Shards
from catgrad.data.split import split
from catgrad.data.standard import Standard, standardise

__all__ = ["Columns", "Shards", "Standard", "columns", "one_hot", "read", "split", "standardise"]
