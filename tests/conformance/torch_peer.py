"""Operations that cattorch 0.5.0 supports, by its documentation or by trial, for each test case."""

from __future__ import annotations

PUBLISHED = {
    "convolution": {"Conv1d": "conv1d", "Conv2d": "conv2d"},
    "pooling": {
        "MaxPool1d": "max_pool1d", "MaxPool2d": "max_pool2d", "AvgPool1d": "avg_pool1d",
        "AvgPool2d": "avg_pool2d", "AdaptiveAvgPool2d": "adaptive_avg_pool2d",
    },
    "products": {
        "Linear": "linear", "matmul": "torch: bmm", "(2,3,4)@(4,5)": "torch: matmul on one side",
    },
    "activations": {
        "ReLU": "ReLU()", "Sigmoid": "Sigmoid()", "Tanh": "Tanh()",
        "GELU('tanh')": "GELU(approximate='tanh')", "SiLU": "SiLU()",
        "LeakyReLU": "LeakyReLU(negative_slope=0.2)", "ELU": "ELU(alpha=0.7)",
    },
    "normalisation": {
        "BatchNorm1d": "batch_norm1d", "BatchNorm2d": "batch_norm2d", "LayerNorm": "layer_norm",
        "RMSNorm": "rms_norm", "rsqrt": "torch: rsqrt",
    },
    "attention": {"softmax": "torch: softmax", "Embedding": "embedding", "masked_fill": "torch: masked_fill"},
    "arithmetic": {
        "+": "torch: add", "-": "torch: sub", "*": "torch: mul", "/": "torch: div", "neg": "torch: neg",
        "x**2": "torch: pow",
    },
    "reductions": {"mean": "torch: mean"},
    "creation": {
        "arange": "torch: arange", "ones": "torch: ones", "zeros_like": "torch: ones", "full": "torch: ones",
    },
    "shapes": {
        "view": "torch: view", "reshape": "torch: view", "flatten": "torch: view", "clone": "torch: clone",
        "transpose": "torch: permute", "permute": "torch: permute",
    },
    "parts": {
        "split": "torch: split", "chunk": "torch: split", "cat": "torch: cat", "x[1:]": "torch: slice",
        "x[1]": "torch: slice", "x[:,2]": "torch: slice",
    },
    "recurrent layers": {},
}  # fmt: skip

REFUSED = {
    "convolution": {
        "groups": "conv1d", "dilation": "conv1d", "padding='same'": "conv2d same", "Conv3d": "conv3d",
        "ConvTranspose1d": "conv_transpose1d", "ConvTranspose2d": "conv_transpose2d",
    },
    "pooling": {
        "MaxPool3d": "max_pool3d", "AvgPool3d": "avg_pool3d", "AdaptiveAvgPool1d": "adaptive_avg_pool1d",
        "AdaptiveMaxPool1d": "adaptive_max_pool1d", "AdaptiveMaxPool2d": "adaptive_max_pool2d",
        "Upsample": "upsample2d",
    },
    "products": {
        "(2,1,3,4)@(5,4,2)": "torch: matmul", "einsum": "torch: einsum", "addmm": "torch: addmm",
        "outer": "torch: outer", "Bilinear": "bilinear",
    },
    "activations": {
        "GELU": "GELU(approximate='none')", "Softplus": "Softplus(beta=1.0, threshold=20.0)",
        "LogSoftmax": "LogSoftmax(dim=1)", "ReLU6": "ReLU6()", "SELU": "SELU()", "Mish": "Mish()",
        "Hardswish": "Hardswish()", "PReLU": "PReLU(num_parameters=4)", "GLU": "GLU(dim=-1)",
    },
    "normalisation": {"GroupNorm": "group_norm", "InstanceNorm2d": "instance_norm"},
    "attention": {
        "TransformerEncoder": "transformer encoder", "TransformerDecoderLayer": "transformer decoder",
        "where": "torch: where", "gather": "torch: gather", "x[indices]": "torch: index",
    },
    "arithmetic": {
        "exp": "torch: exp", "log": "torch: log", "sqrt": "torch: sqrt", "pow": "torch: pow of arrays",
        "sin": "torch: sin", "cos": "torch: cos", "abs": "torch: abs", "maximum": "torch: maximum",
        "clamp": "torch: clamp", ">": "torch: compare", "logical_and": "torch: logical",
    },
    "reductions": {
        "sum": "torch: sum", "max": "torch: max", "argmax": "torch: argmax", "topk": "torch: topk",
        "var": "torch: var",
        "cumsum": "torch: cumsum", "logsumexp": "torch: logsumexp", "norm": "torch: norm",
        "cross_entropy": "torch: cross_entropy",
    },
    "creation": {"eye": "torch: eye", "linspace": "torch: linspace", "one_hot": "torch: one_hot"},
    "shapes": {"expand": "torch: expand", "flip": "torch: flip", "squeeze": "torch: squeeze"},
    "parts": {"pad": "torch: pad", "tril": "torch: tril", "index_select": "torch: index_select"},
    "recurrent layers": {"LSTM": "lstm", "GRU": "gru", "RNN": "rnn", "LSTMCell": "lstm cell"},
}  # fmt: skip
