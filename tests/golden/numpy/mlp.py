"""mlp: a model and its training, emitted by catgrad for NumPy.

Needs NumPy and nothing else. The functions are plain array arithmetic; `CompiledModel` puts a check
of the arguments in front of them, and `Learner` keeps the parameters between steps.
"""

import numpy as np

# P: shape and dtype of each parameter, in the order in which functions take and return them.
PARAMETERS = {
    "dense_0.weight": ((4, 5), np.float32),
    "dense_0.bias": ((5,), np.float32),
    "dense_1.weight": ((5, 3), np.float32),
    "dense_1.bias": ((3,), np.float32),
}
# S: the same for the arrays of the optimiser's state.
STATE = {}


def init(seed=0):
    """First values of the parameters."""
    rng = np.random.default_rng(seed)
    return [
        rng.uniform(-0.5, 0.5, (4, 5)).astype(np.float32),  # dense_0.weight
        rng.uniform(-0.5, 0.5, (5,)).astype(np.float32),  # dense_0.bias
        rng.uniform(-0.4472136, 0.4472136, (5, 3)).astype(np.float32),  # dense_1.weight
        rng.uniform(-0.4472136, 0.4472136, (3,)).astype(np.float32),  # dense_1.bias
    ]


def predict(dense_0_weight, dense_0_bias, dense_1_weight, dense_1_bias, x):
    """P × X → Ŷ: the model's output."""
    dense_0_linear = x @ dense_0_weight + dense_0_bias  # f32[batch,5]
    dense_0_out = 1 / (1 + np.exp(-dense_0_linear))  # f32[batch,5]
    dense_1_linear = dense_0_out @ dense_1_weight + dense_1_bias  # f32[batch,3]
    y_hat = np.tanh(dense_1_linear)  # f32[batch,3]
    return [y_hat]


def loss(dense_0_weight, dense_0_bias, dense_1_weight, dense_1_bias, x, y):
    """P × X × Y → R: how far the output is from y."""
    batch = x.shape[0]
    dense_0_linear = x @ dense_0_weight + dense_0_bias  # f32[batch,5]
    dense_0_out = 1 / (1 + np.exp(-dense_0_linear))  # f32[batch,5]
    dense_1_linear = dense_0_out @ dense_1_weight + dense_1_bias  # f32[batch,3]
    y_hat = np.tanh(dense_1_linear)  # f32[batch,3]
    loss = np.square(y_hat - y).sum() / np.float32(3 * batch)  # f32[]
    return [loss]


def rev(dense_0_weight, dense_0_bias, dense_1_weight, dense_1_bias, x, d_y_hat):
    """P × X × Ŷ′ → P′ × X′: the reverse derivative of predict."""
    dense_0_linear = x @ dense_0_weight + dense_0_bias  # f32[batch,5]
    dense_0_out = 1 / (1 + np.exp(-dense_0_linear))  # f32[batch,5]
    dense_1_linear = dense_0_out @ dense_1_weight + dense_1_bias  # f32[batch,3]
    y_hat = np.tanh(dense_1_linear)  # f32[batch,3]
    d_dense_1_linear = d_y_hat * (1 - y_hat * y_hat)  # f32[batch,3]
    d_dense_0_out = d_dense_1_linear @ dense_1_weight.T  # f32[batch,5]
    d_dense_0_linear = d_dense_0_out * (dense_0_out * (1 - dense_0_out))  # f32[batch,5]
    d_x = d_dense_0_linear @ dense_0_weight.T  # f32[batch,4]
    d_dense_0_weight = x.T @ d_dense_0_linear  # f32[4,5]
    d_dense_0_bias = d_dense_0_linear.sum(axis=0)  # f32[5]
    d_dense_1_weight = dense_0_out.T @ d_dense_1_linear  # f32[5,3]
    d_dense_1_bias = d_dense_1_linear.sum(axis=0)  # f32[3]
    return [d_dense_0_weight, d_dense_0_bias, d_dense_1_weight, d_dense_1_bias, d_x]


def rev_p(dense_0_weight, dense_0_bias, dense_1_weight, dense_1_bias, x, d_y_hat):
    """P × X × Ŷ′ → P′: the part of rev that parameters need."""
    dense_0_linear = x @ dense_0_weight + dense_0_bias  # f32[batch,5]
    dense_0_out = 1 / (1 + np.exp(-dense_0_linear))  # f32[batch,5]
    dense_1_linear = dense_0_out @ dense_1_weight + dense_1_bias  # f32[batch,3]
    y_hat = np.tanh(dense_1_linear)  # f32[batch,3]
    d_dense_1_linear = d_y_hat * (1 - y_hat * y_hat)  # f32[batch,3]
    d_dense_0_out = d_dense_1_linear @ dense_1_weight.T  # f32[batch,5]
    d_dense_0_linear = d_dense_0_out * (dense_0_out * (1 - dense_0_out))  # f32[batch,5]
    d_dense_0_weight = x.T @ d_dense_0_linear  # f32[4,5]
    d_dense_0_bias = d_dense_0_linear.sum(axis=0)  # f32[5]
    d_dense_1_weight = dense_0_out.T @ d_dense_1_linear  # f32[5,3]
    d_dense_1_bias = d_dense_1_linear.sum(axis=0)  # f32[3]
    return [d_dense_0_weight, d_dense_0_bias, d_dense_1_weight, d_dense_1_bias]


def step(dense_0_weight, dense_0_bias, dense_1_weight, dense_1_bias, x, y):
    """P × X × Y → P: one step of training."""
    batch = x.shape[0]
    dense_0_linear = x @ dense_0_weight + dense_0_bias  # f32[batch,5]
    dense_0_out = 1 / (1 + np.exp(-dense_0_linear))  # f32[batch,5]
    dense_1_linear = dense_0_out @ dense_1_weight + dense_1_bias  # f32[batch,3]
    y_hat = np.tanh(dense_1_linear)  # f32[batch,3]
    d_y_hat = np.float32(2) / np.float32(3 * batch) * (y_hat - y)  # f32[batch,3]
    d_dense_1_linear = d_y_hat * (1 - y_hat * y_hat)  # f32[batch,3]
    d_dense_0_out = d_dense_1_linear @ dense_1_weight.T  # f32[batch,5]
    d_dense_0_linear = d_dense_0_out * (dense_0_out * (1 - dense_0_out))  # f32[batch,5]
    d_dense_0_weight = x.T @ d_dense_0_linear  # f32[4,5]
    d_dense_0_bias = d_dense_0_linear.sum(axis=0)  # f32[5]
    d_dense_1_weight = dense_0_out.T @ d_dense_1_linear  # f32[5,3]
    d_dense_1_bias = d_dense_1_linear.sum(axis=0)  # f32[3]
    new_dense_0_weight = dense_0_weight - 0.1 * d_dense_0_weight  # f32[4,5]
    new_dense_0_bias = dense_0_bias - 0.1 * d_dense_0_bias  # f32[5]
    new_dense_1_weight = dense_1_weight - 0.1 * d_dense_1_weight  # f32[5,3]
    new_dense_1_bias = dense_1_bias - 0.1 * d_dense_1_bias  # f32[3]
    return [new_dense_0_weight, new_dense_0_bias, new_dense_1_weight, new_dense_1_bias]


def train_step(dense_0_weight, dense_0_bias, dense_1_weight, dense_1_bias, x, y):
    """P × X × Y → R × P: one step, and the loss before it."""
    batch = x.shape[0]
    dense_0_linear = x @ dense_0_weight + dense_0_bias  # f32[batch,5]
    dense_0_out = 1 / (1 + np.exp(-dense_0_linear))  # f32[batch,5]
    dense_1_linear = dense_0_out @ dense_1_weight + dense_1_bias  # f32[batch,3]
    y_hat = np.tanh(dense_1_linear)  # f32[batch,3]
    difference = y_hat - y  # f32[batch,3]
    count = np.float32(3 * batch)  # f32[]
    loss = np.square(difference).sum() / count  # f32[]
    d_y_hat = np.float32(2) / count * difference  # f32[batch,3]
    d_dense_1_linear = d_y_hat * (1 - y_hat * y_hat)  # f32[batch,3]
    d_dense_0_out = d_dense_1_linear @ dense_1_weight.T  # f32[batch,5]
    d_dense_0_linear = d_dense_0_out * (dense_0_out * (1 - dense_0_out))  # f32[batch,5]
    d_dense_0_weight = x.T @ d_dense_0_linear  # f32[4,5]
    d_dense_0_bias = d_dense_0_linear.sum(axis=0)  # f32[5]
    d_dense_1_weight = dense_0_out.T @ d_dense_1_linear  # f32[5,3]
    d_dense_1_bias = d_dense_1_linear.sum(axis=0)  # f32[3]
    new_dense_0_weight = dense_0_weight - 0.1 * d_dense_0_weight  # f32[4,5]
    new_dense_0_bias = dense_0_bias - 0.1 * d_dense_0_bias  # f32[5]
    new_dense_1_weight = dense_1_weight - 0.1 * d_dense_1_weight  # f32[5,3]
    new_dense_1_bias = dense_1_bias - 0.1 * d_dense_1_bias  # f32[3]
    return [loss, new_dense_0_weight, new_dense_0_bias, new_dense_1_weight, new_dense_1_bias]


def converted(array, dtype, what):
    """The array in another dtype. Floats may lose digits, but nothing else may change."""
    if not np.can_cast(array.dtype, dtype, "same_kind"):
        raise TypeError(f"{what} must be {np.dtype(dtype)}, but it is {array.dtype}; use astype")
    with np.errstate(all="ignore"):
        cast = array.astype(dtype)
    kept = np.isfinite(cast) == np.isfinite(array) if cast.dtype.kind == "f" else cast == array
    if not np.all(kept):
        raise TypeError(f"{what} must fit {np.dtype(dtype)}, but it has values outside; rescale it")
    return cast


class Checked:
    """A function of this module behind a check of its arguments: arrays in, a list of arrays out.

    `symbols` are the sizes that are free, each with an argument and an axis that have it; `types`
    gives the name, shape and dtype of every argument at these sizes.
    Arithmetic is IEEE 754, without warnings.
    """

    def __init__(self, function, symbols, types):
        self.function, self.symbols, self.types = function, symbols, types
        self.__name__, self.__doc__ = function.__name__, function.__doc__
        self.accepted = set()

    def __call__(self, *values):
        signature = tuple([type(v) is np.ndarray and (v.shape, v.dtype) for v in values])
        if signature not in self.accepted:
            values = self.arrays([np.asarray(value) for value in values])
            if len(self.accepted) > 100:
                self.accepted.clear()
            self.accepted.add(tuple([(v.shape, v.dtype) for v in values]))
        with np.errstate(all="ignore"):
            return self.function(*values)

    def arrays(self, values):
        """The arrays in the right dtypes, or an error that says which of them does not fit."""
        sizes = {
            name: values[i].shape[axis] if i < len(values) and axis < values[i].ndim else 0
            for name, i, axis in self.symbols
        }
        types = self.types(*sizes.values())
        if len(values) != len(types):
            raise TypeError(
                f"{self.__name__} must get {len(types)} arrays, but it got {len(values)}; "
                f"pass {', '.join(name for name, _ in types)}"
            )
        where = f" where {', '.join(f'{n} = {size}' for n, size in sizes.items())}" if sizes else ""
        for array, (name, (shape, _)) in zip(values, types):
            if array.shape != shape:
                raise ValueError(
                    f"{self.__name__}: {name} must have shape {shape}{where}, "
                    f"but it is {tuple(array.shape)}; reshape it"
                )
        return [
            array if array.dtype == dtype else converted(array, dtype, f"{self.__name__}: {name}")
            for array, (name, (_, dtype)) in zip(values, types)
        ]


class CompiledModel:
    """The functions of this module with their arguments checked, in the order S, P, X, Y."""

    def init(self, seed=0):
        """First values of the parameters."""
        return init(seed)

    def learner(self, seed=0):
        """A learner with first values drawn by `seed`."""
        return Learner(seed)

    predict = Checked(
        predict,
        symbols=[("batch", 4, 0)],
        types=lambda batch: [
            *PARAMETERS.items(),
            ("x", ((batch, 4), np.float32)),
        ],
    )

    loss = Checked(
        loss,
        symbols=[("batch", 4, 0)],
        types=lambda batch: [
            *PARAMETERS.items(),
            ("x", ((batch, 4), np.float32)),
            ("y", ((batch, 3), np.float32)),
        ],
    )

    rev = Checked(
        rev,
        symbols=[("batch", 4, 0)],
        types=lambda batch: [
            *PARAMETERS.items(),
            ("x", ((batch, 4), np.float32)),
            ("d_y_hat", ((batch, 3), np.float32)),
        ],
    )

    rev_p = Checked(
        rev_p,
        symbols=[("batch", 4, 0)],
        types=lambda batch: [
            *PARAMETERS.items(),
            ("x", ((batch, 4), np.float32)),
            ("d_y_hat", ((batch, 3), np.float32)),
        ],
    )

    step = Checked(
        step,
        symbols=[("batch", 4, 0)],
        types=lambda batch: [
            *PARAMETERS.items(),
            ("x", ((batch, 4), np.float32)),
            ("y", ((batch, 3), np.float32)),
        ],
    )

    train_step = Checked(
        train_step,
        symbols=[("batch", 4, 0)],
        types=lambda batch: [
            *PARAMETERS.items(),
            ("x", ((batch, 4), np.float32)),
            ("y", ((batch, 3), np.float32)),
        ],
    )


class Learner:
    """Parameters and optimiser state by name, and the functions that use and change them."""

    model = CompiledModel()

    def __init__(self, seed=0):
        self.parameters = dict(zip(PARAMETERS, init(seed)))
        self.state = {name: np.zeros(shape, dtype) for name, (shape, dtype) in STATE.items()}

    def held(self):
        """The parameters in the order of the functions, whatever that of the dictionary is."""
        return [self.parameters[name] for name in PARAMETERS]

    def predict(self, *inputs):
        """The model's output; a list if there are several."""
        outputs = self.model.predict(*self.held(), *inputs)
        return outputs[0] if len(outputs) == 1 else outputs

    def loss(self, *inputs_and_targets):
        """How far the output is from the targets."""
        [loss] = self.model.loss(*self.held(), *inputs_and_targets)
        return loss

    def step(self, *inputs_and_targets):
        """Train on one batch; returns the loss before the step."""
        state = [self.state[name] for name in STATE]
        loss, *new = self.model.train_step(*state, *self.held(), *inputs_and_targets)
        self.state = dict(zip(STATE, new))
        self.parameters = dict(zip(PARAMETERS, new[len(STATE) :]))
        return loss
