# SHA-256 of the terms: df8545aa01cd696c55c8cfd5153790534b4d24ace8b15d29124d8c29123eaff4
"""model: a model and its training, emitted by catgrad for NumPy.

Needs NumPy and nothing else. The functions are plain array arithmetic; `CompiledModel` puts a check
of the arguments in front of them, and `Learner` keeps the parameters between steps.
"""

import math

import numpy as np

# P: shape and dtype of each parameter, in the order in which functions take and return them.
PARAMETERS = {
    "linear.weight": ((4, 3), np.float32),
}


def random_bits(seed, counter, stream, shape):
    """Draw 32 random bits for each element: Philox 4×32 in 10 rounds (Salmon et al. 2011, section 4.2)."""
    count = math.prod(shape)
    low, wide = np.uint64(0xFFFFFFFF), np.uint64(32)
    block = np.arange(-(-count // 4), dtype=np.uint64)
    step, key = np.asarray(counter).astype(np.uint64), np.asarray(seed).astype(np.uint64)
    a, b, c, d = np.broadcast_arrays(block & low, np.uint64(stream), step & low, step >> wide)
    k, m = key & low, key >> wide
    for _ in range(10):
        x, y = a * np.uint64(0xD2511F53), c * np.uint64(0xCD9E8D57)
        a, b, c, d = (y >> wide) ^ b ^ k, y & low, (x >> wide) ^ d ^ m, x & low
        k, m = (k + np.uint64(0x9E3779B9)) & low, (m + np.uint64(0xBB67AE85)) & low
    return np.stack([a, b, c, d], axis=-1).reshape(-1)[:count].reshape(shape).astype(np.uint32)


def uniform(seed, counter, stream, shape, dtype):
    """Draw uniform random numbers in [0, 1), with as many bits as the dtype holds."""
    digits = min(np.finfo(dtype).nmant + 1, 32)
    bits = random_bits(seed, counter, stream, shape) >> np.uint32(32 - digits)
    return (bits * 2.0**-digits).astype(dtype)


def init(seed):
    """Initial values of the parameters."""
    noise = uniform(seed, 0, 2538255517, (4, 3), np.float32)  # f32[4,3]
    linear_weight = -0.5 + noise  # f32[4,3]
    return [linear_weight]


def predict(linear_weight, x):
    """P × X → Ŷ: the model's output."""
    y_hat = x @ linear_weight  # f32[150,3]
    return [y_hat]


def loss(linear_weight, x, y):
    """P × X × Y → R: the loss between the output and y."""
    y_hat = x @ linear_weight  # f32[150,3]
    loss = np.square(y_hat - y).sum() / np.float32(450)  # f32[]
    return [loss]


def rev(linear_weight, x, d_y_hat):
    """P × X × Ŷ′ → P′ × X′: the reverse derivative of predict."""
    d_x = d_y_hat @ linear_weight.T  # f32[150,4]
    d_linear_weight = x.T @ d_y_hat  # f32[4,3]
    return [d_linear_weight, d_x]


def rev_p(linear_weight, x, d_y_hat):
    """P × X × Ŷ′ → P′: the part of rev for the parameters."""
    d_linear_weight = x.T @ d_y_hat  # f32[4,3]
    return [d_linear_weight]


def grads(linear_weight, x, y):
    """P × X × Y → R × P′: the loss in training and its gradient."""
    y_hat = x @ linear_weight  # f32[150,3]
    difference = y_hat - y  # f32[150,3]
    loss = np.square(difference).sum() / np.float32(450)  # f32[]
    d_y_hat = 0.0044444446 * difference  # f32[150,3]
    d_linear_weight = x.T @ d_y_hat  # f32[4,3]
    return [loss, d_linear_weight]


def update(linear_weight, d_linear_weight):
    """P × P′ → P: the optimiser's part of a step."""
    new_linear_weight = linear_weight - 0.0001 * d_linear_weight  # f32[4,3]
    return [new_linear_weight]


def step(linear_weight, x, y):
    """P × X × Y → R × P: one step of training, and the loss before it."""
    y_hat = x @ linear_weight  # f32[150,3]
    difference = y_hat - y  # f32[150,3]
    loss = np.square(difference).sum() / np.float32(450)  # f32[]
    d_y_hat = 0.0044444446 * difference  # f32[150,3]
    d_linear_weight = x.T @ d_y_hat  # f32[4,3]
    new_linear_weight = linear_weight - 0.0001 * d_linear_weight  # f32[4,3]
    return [loss, new_linear_weight]


def converted(array, dtype, what):
    """Convert an array to another dtype. Floats may be rounded; other changes are errors."""
    if not np.can_cast(array.dtype, dtype, "same_kind"):
        raise TypeError(f"{what} must be {np.dtype(dtype)}, but it is {array.dtype}; use astype")
    with np.errstate(all="ignore"):
        cast = array.astype(dtype)
    preserved = np.isfinite(cast) == np.isfinite(array) if cast.dtype.kind == "f" else cast == array
    if not np.all(preserved):
        raise TypeError(f"{what} must fit {np.dtype(dtype)}, but it has values outside; rescale it")
    return cast


class Checked:
    """A function of this module with validated arguments; it returns a list of arrays.

    `symbols` are the symbolic sizes, each with an argument and an axis of that size; `types`
    returns the name, shape and dtype of every argument at these sizes.
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
        """Validate the arrays, and convert them to the dtypes of the arguments."""
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
        for array, (name, (shape, dtype)) in zip(values, types):
            if array.shape != shape:
                advice = "reshape it"
                if array.shape[:-1] == shape and "int" in str(dtype):
                    advice = "take argmax(-1) of one-hot labels"
                elif array.shape == shape[:-1] and "int" in str(array.dtype):
                    advice = "make labels one-hot"
                raise ValueError(
                    f"{self.__name__}: {name} must have shape {shape}{where}, "
                    f"but it is {tuple(array.shape)}; {advice}"
                )
        return [
            array if array.dtype == dtype else converted(array, dtype, f"{self.__name__}: {name}")
            for array, (name, (_, dtype)) in zip(values, types)
        ]


class CompiledModel:
    """The functions of this module with validated arguments, in the order S, M, P, X, Y."""

    def init(self, seed=0):
        """Initial values of the parameters."""
        return Checked(init, [], lambda: [("seed", ((), np.int64))])(seed)

    def learner(self, seed=0):
        """Return a learner with initial values drawn from `seed`."""
        return Learner(seed)

    predict = Checked(
        predict,
        symbols=[],
        types=lambda: [
            *PARAMETERS.items(),
            ("x", ((150, 4), np.float32)),
        ],
    )

    loss = Checked(
        loss,
        symbols=[],
        types=lambda: [
            *PARAMETERS.items(),
            ("x", ((150, 4), np.float32)),
            ("y", ((150, 3), np.float32)),
        ],
    )

    rev = Checked(
        rev,
        symbols=[],
        types=lambda: [
            *PARAMETERS.items(),
            ("x", ((150, 4), np.float32)),
            ("d_y_hat", ((150, 3), np.float32)),
        ],
    )

    rev_p = Checked(
        rev_p,
        symbols=[],
        types=lambda: [
            *PARAMETERS.items(),
            ("x", ((150, 4), np.float32)),
            ("d_y_hat", ((150, 3), np.float32)),
        ],
    )

    grads = Checked(
        grads,
        symbols=[],
        types=lambda: [
            *PARAMETERS.items(),
            ("x", ((150, 4), np.float32)),
            ("y", ((150, 3), np.float32)),
        ],
    )

    update = Checked(
        update,
        symbols=[],
        types=lambda: [
            *PARAMETERS.items(),
            ("d_linear.weight", ((4, 3), np.float32)),
        ],
    )

    step = Checked(
        step,
        symbols=[],
        types=lambda: [
            *PARAMETERS.items(),
            ("x", ((150, 4), np.float32)),
            ("y", ((150, 3), np.float32)),
        ],
    )


class Learner:
    """Parameters and optimiser state by name, and the functions that use and change them."""

    model = CompiledModel()

    def __init__(self, seed=0):
        self.parameters = dict(zip(PARAMETERS, self.model.init(seed)))
        self.buffers = {}
        self.state = {}

    def predict(self, *inputs):
        """Compute the model's output; a list if there are several."""
        outputs = self.model.predict(*in_order(self.parameters, PARAMETERS), *inputs)
        return outputs[0] if len(outputs) == 1 else outputs

    def loss(self, *inputs_and_targets):
        """Compute the loss between the outputs and the targets."""
        [loss] = self.model.loss(*in_order(self.parameters, PARAMETERS), *inputs_and_targets)
        return loss

    def grads(self, *inputs_and_targets):
        """Compute the loss on one batch and its gradient by name, for accumulation and `update`."""
        loss, *new = self.model.grads(*in_order(self.parameters, PARAMETERS), *inputs_and_targets)
        return loss, dict(zip(PARAMETERS, new))

    def update(self, gradients):
        """Update the parameters by the optimiser, with a gradient for each."""
        new = iter(self.model.update(*in_order(self.parameters, PARAMETERS), *in_order(gradients, PARAMETERS)))
        self.parameters = dict(zip(PARAMETERS, new))

    def step(self, *inputs_and_targets):
        """Train on one batch; returns the loss before the step."""
        loss, *new = self.model.step(*in_order(self.parameters, PARAMETERS), *inputs_and_targets)
        new = iter(new)
        self.parameters = dict(zip(PARAMETERS, new))
        return loss


def in_order(arrays, table):
    """List the arrays of these names, in the order of the table."""
    return [arrays[name] for name in table]
