# SHA-256 of the terms: a4778d8eab73eeac71f44392d3f0aa04f7edcde873cadd175a58c8214b6c7414
"""rectified: a model and its training, emitted by catgrad for NumPy.

Needs NumPy and nothing else. The functions are plain array arithmetic; `CompiledModel` puts a check
of the arguments in front of them, and `Learner` keeps the parameters between steps.
"""

import math
from collections.abc import Mapping, MutableMapping
from difflib import get_close_matches
from threading import RLock

import numpy as np

# P: shape and dtype of each parameter, in the order in which functions take and return them.
PARAMETERS = {
    "0.weight": ((4, 5), np.float32),
    "1.bias": ((5,), np.float32),
    "3.weight": ((5, 3), np.float32),
}
# S: shape and dtype of each array of the optimiser's state, in the order in which functions take and return them.
STATE = {
    **{f"momentum.{name}": slot for name, slot in PARAMETERS.items()},
}


def masked(x, condition):
    """Return x where the condition holds, 0 elsewhere: bits times 1 or 0, without branches."""
    return (x.view(f"u{x.itemsize}") * condition).view(x.dtype)


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


def init_state(seed):
    """Initial values of the optimiser's state."""
    momentum_0_weight = np.full((4, 5), 0.0, np.float32)  # f32[4,5]
    momentum_1_bias = np.full((5,), 0.0, np.float32)  # f32[5]
    momentum_3_weight = np.full((5, 3), 0.0, np.float32)  # f32[5,3]
    return [momentum_0_weight, momentum_1_bias, momentum_3_weight]


def init(seed):
    """Initial values of the parameters."""
    layer_0_weight = -0.5 + uniform(seed, 0, 3378657847, (4, 5), np.float32)  # f32[4,5]
    layer_1_bias = np.full((5,), 0.0, np.float32)  # f32[5]
    layer_3_weight = -0.4472136 + 0.8944272 * uniform(seed, 0, 1206730196, (5, 3), np.float32)  # f32[5,3]
    return [layer_0_weight, layer_1_bias, layer_3_weight]


def predict(layer_0_weight, layer_1_bias, layer_3_weight, x):
    """P × X → Ŷ: the model's output."""
    layer_0_out = x @ layer_0_weight  # f32[batch,5]
    y_hat = np.maximum(layer_0_out + layer_1_bias, 0) @ layer_3_weight  # f32[batch,3]
    return [y_hat]


def loss(layer_0_weight, layer_1_bias, layer_3_weight, x, y):
    """P × X × Y → R: the loss between the output and y."""
    batch = x.shape[0]
    layer_0_out = x @ layer_0_weight  # f32[batch,5]
    y_hat = np.maximum(layer_0_out + layer_1_bias, 0) @ layer_3_weight  # f32[batch,3]
    loss = np.square(y_hat - y).sum() / np.float32(3 * batch)  # f32[]
    return [loss]


def rev(layer_0_weight, layer_1_bias, layer_3_weight, x, d_y_hat):
    """P × X × Ŷ′ → P′ × X′: the reverse derivative of predict."""
    layer_0_out = x @ layer_0_weight  # f32[batch,5]
    total = layer_0_out + layer_1_bias  # f32[batch,5]
    d_0_out = masked(d_y_hat @ layer_3_weight.T, ~(total <= 0))  # f32[batch,5]
    d_x = d_0_out @ layer_0_weight.T  # f32[batch,4]
    d_0_weight = x.T @ d_0_out  # f32[4,5]
    d_1_bias = d_0_out.sum(axis=0)  # f32[5]
    d_3_weight = np.maximum(total, 0).T @ d_y_hat  # f32[5,3]
    return [d_0_weight, d_1_bias, d_3_weight, d_x]


def rev_p(layer_0_weight, layer_1_bias, layer_3_weight, x, d_y_hat):
    """P × X × Ŷ′ → P′: the part of rev for the parameters."""
    layer_0_out = x @ layer_0_weight  # f32[batch,5]
    total = layer_0_out + layer_1_bias  # f32[batch,5]
    d_0_out = masked(d_y_hat @ layer_3_weight.T, ~(total <= 0))  # f32[batch,5]
    d_0_weight = x.T @ d_0_out  # f32[4,5]
    d_1_bias = d_0_out.sum(axis=0)  # f32[5]
    d_3_weight = np.maximum(total, 0).T @ d_y_hat  # f32[5,3]
    return [d_0_weight, d_1_bias, d_3_weight]


def grads(layer_0_weight, layer_1_bias, layer_3_weight, x, y):
    """P × X × Y → R × P′: the loss in training and its gradient."""
    batch = x.shape[0]
    layer_0_out = x @ layer_0_weight  # f32[batch,5]
    total = layer_0_out + layer_1_bias  # f32[batch,5]
    maximum = np.maximum(total, 0)  # f32[batch,5]
    y_hat = maximum @ layer_3_weight  # f32[batch,3]
    difference = y_hat - y  # f32[batch,3]
    count = np.float32(3 * batch)  # f32[]
    loss = np.square(difference).sum() / count  # f32[]
    d_y_hat = np.float32(2) / count * difference  # f32[batch,3]
    d_0_out = masked(d_y_hat @ layer_3_weight.T, ~(total <= 0))  # f32[batch,5]
    d_0_weight = x.T @ d_0_out  # f32[4,5]
    d_1_bias = d_0_out.sum(axis=0)  # f32[5]
    d_3_weight = maximum.T @ d_y_hat  # f32[5,3]
    return [loss, d_0_weight, d_1_bias, d_3_weight]


def update(
    momentum_0_weight, momentum_1_bias, momentum_3_weight, layer_0_weight, layer_1_bias,
    layer_3_weight, d_0_weight, d_1_bias, d_3_weight
):
    """S × P × P′ → S × P: the optimiser's part of a step."""
    new_momentum_0_weight = 0.9 * momentum_0_weight + d_0_weight  # f32[4,5]
    new_0_weight = layer_0_weight - 0.05 * new_momentum_0_weight  # f32[4,5]
    new_momentum_1_bias = 0.9 * momentum_1_bias + d_1_bias  # f32[5]
    new_1_bias = layer_1_bias - 0.05 * new_momentum_1_bias  # f32[5]
    new_momentum_3_weight = 0.9 * momentum_3_weight + d_3_weight  # f32[5,3]
    new_3_weight = layer_3_weight - 0.05 * new_momentum_3_weight  # f32[5,3]
    return [
        new_momentum_0_weight, new_momentum_1_bias, new_momentum_3_weight, new_0_weight, new_1_bias,
        new_3_weight
    ]


def step(
    momentum_0_weight, momentum_1_bias, momentum_3_weight, layer_0_weight, layer_1_bias,
    layer_3_weight, x, y
):
    """S × P × X × Y → R × S × P: one step of training, and the loss before it."""
    batch = x.shape[0]
    layer_0_out = x @ layer_0_weight  # f32[batch,5]
    total = layer_0_out + layer_1_bias  # f32[batch,5]
    maximum = np.maximum(total, 0)  # f32[batch,5]
    y_hat = maximum @ layer_3_weight  # f32[batch,3]
    difference = y_hat - y  # f32[batch,3]
    count = np.float32(3 * batch)  # f32[]
    loss = np.square(difference).sum() / count  # f32[]
    d_y_hat = np.float32(2) / count * difference  # f32[batch,3]
    d_0_out = masked(d_y_hat @ layer_3_weight.T, ~(total <= 0))  # f32[batch,5]
    d_0_weight = x.T @ d_0_out  # f32[4,5]
    d_1_bias = d_0_out.sum(axis=0)  # f32[5]
    d_3_weight = maximum.T @ d_y_hat  # f32[5,3]
    new_momentum_0_weight = 0.9 * momentum_0_weight + d_0_weight  # f32[4,5]
    new_0_weight = layer_0_weight - 0.05 * new_momentum_0_weight  # f32[4,5]
    new_momentum_1_bias = 0.9 * momentum_1_bias + d_1_bias  # f32[5]
    new_1_bias = layer_1_bias - 0.05 * new_momentum_1_bias  # f32[5]
    new_momentum_3_weight = 0.9 * momentum_3_weight + d_3_weight  # f32[5,3]
    new_3_weight = layer_3_weight - 0.05 * new_momentum_3_weight  # f32[5,3]
    return [
        loss, new_momentum_0_weight, new_momentum_1_bias, new_momentum_3_weight, new_0_weight,
        new_1_bias, new_3_weight
    ]


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
        return self.on((), values)

    def on(self, tables, own):
        """Call the function on arrays of tables, then on its own."""
        values = (*tables, *own)
        signature = tuple([type(v) is np.ndarray and (v.shape, v.dtype) for v in values])
        if signature not in self.accepted:
            values = self.arrays(values, len(tables))
            if len(self.accepted) > 100:
                self.accepted.clear()
            self.accepted.add(tuple([(v.shape, v.dtype) for v in values]))
        with np.errstate(all="ignore"):
            return self.function(*values)

    def arrays(self, given, bound):
        """Validate arrays, the first of which are `bound`, and convert them to the dtypes of the arguments."""
        names = [name for name, _ in self.types(*[0 for _ in self.symbols])][bound:]
        star = ", with a star before a list of arrays" if any(map(is_list, given)) else ""
        told = f"pass {', '.join(names)}{star}"
        if len(given) != bound + len(names):
            raise TypeError(
                f"{self.__name__} must get {len(names)} arrays, but it got {len(given) - bound}; {told}"
            )
        try:
            values = [np.asarray(value) for value in given]
        except (TypeError, ValueError, RuntimeError) as error:
            raise TypeError(f"{self.__name__} must get arrays, but one is none: {error}; {told}") from None
        sizes = {
            name: values[i].shape[axis] if axis < values[i].ndim else 0 for name, i, axis in self.symbols
        }
        types = self.types(*sizes.values())
        where = f" where {', '.join(f'{n} = {size}' for n, size in sizes.items())}" if sizes else ""
        for array, value, (name, (shape, dtype)) in zip(values, given, types):
            if array.shape != shape:
                advice = "put a star before the list of arrays" if is_list(value) else "reshape it"
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


def is_list(value):
    """Tell whether an argument is a list of arrays, or a table of them."""
    items = value.values() if isinstance(value, Mapping) else value
    return isinstance(value, (Mapping, list, tuple)) and any(hasattr(item, "shape") for item in items)


class CompiledModel:
    """The functions of this module with validated arguments, in the order S, M, P, X, Y."""

    def init_state(self, seed=0):
        """Initial values of the optimiser's state."""
        return Checked(init_state, [], lambda: [("seed", ((), np.int64))])(seed)

    def init(self, seed=0):
        """Initial values of the parameters."""
        return Checked(init, [], lambda: [("seed", ((), np.int64))])(seed)

    def learner(self, seed=0):
        """Return a learner with initial values drawn from `seed`."""
        return Learner(seed)

    predict = Checked(
        predict,
        symbols=[("batch", 3, 0)],
        types=lambda batch: [
            *PARAMETERS.items(),
            ("x", ((batch, 4), np.float32)),
        ],
    )

    loss = Checked(
        loss,
        symbols=[("batch", 3, 0)],
        types=lambda batch: [
            *PARAMETERS.items(),
            ("x", ((batch, 4), np.float32)),
            ("y", ((batch, 3), np.float32)),
        ],
    )

    rev = Checked(
        rev,
        symbols=[("batch", 3, 0)],
        types=lambda batch: [
            *PARAMETERS.items(),
            ("x", ((batch, 4), np.float32)),
            ("d_y_hat", ((batch, 3), np.float32)),
        ],
    )

    rev_p = Checked(
        rev_p,
        symbols=[("batch", 3, 0)],
        types=lambda batch: [
            *PARAMETERS.items(),
            ("x", ((batch, 4), np.float32)),
            ("d_y_hat", ((batch, 3), np.float32)),
        ],
    )

    grads = Checked(
        grads,
        symbols=[("batch", 3, 0)],
        types=lambda batch: [
            *PARAMETERS.items(),
            ("x", ((batch, 4), np.float32)),
            ("y", ((batch, 3), np.float32)),
        ],
    )

    update = Checked(
        update,
        symbols=[],
        types=lambda: [
            *STATE.items(),
            *PARAMETERS.items(),
            ("d_0.weight", ((4, 5), np.float32)),
            ("d_1.bias", ((5,), np.float32)),
            ("d_3.weight", ((5, 3), np.float32)),
        ],
    )

    step = Checked(
        step,
        symbols=[("batch", 6, 0)],
        types=lambda batch: [
            *STATE.items(),
            *PARAMETERS.items(),
            ("x", ((batch, 4), np.float32)),
            ("y", ((batch, 3), np.float32)),
        ],
    )


class Table(MutableMapping):
    """Arrays by name, of fixed shapes and dtypes; what is assigned is checked and copied."""

    def __init__(self, kind, types, arrays, lock):
        self.kind, self.expected, self.lock = kind, types, lock
        self.arrays = dict(zip(types, arrays))

    def __getitem__(self, name):
        require_name(self.kind, name, self.expected)
        return self.arrays[name]

    def __setitem__(self, name, value):
        self.update({name: value})

    def __delitem__(self, name):
        raise TypeError(f"{self.kind}: {name} must not be deleted; assign it another value")

    def __iter__(self):
        return iter(self.expected)

    def __len__(self):
        return len(self.expected)

    def __repr__(self):
        return repr(self.arrays)

    def __or__(self, other):
        return {**self.arrays, **other}

    def __ror__(self, other):
        return {**other, **self.arrays}

    def __reduce__(self):
        return dict, (self.copy(),)

    def copy(self):
        """Return copies of the arrays by name."""
        return {name: np.array(array) for name, array in self.arrays.items()}

    def update(self, *arrays, **named):
        """Assign arrays by name; nothing is changed unless all of them fit."""
        fitting = {name: self.fitting(name, value) for name, value in dict(*arrays, **named).items()}
        with self.lock:
            self.arrays = {**self.arrays, **fitting}

    def set(self, arrays):
        """Assign arrays to all names; nothing is changed unless all of them fit."""
        self.update(zip(self, in_order(self.kind, arrays, self.expected)))

    def fitting(self, name, value):
        """Return a value as a new array. Raises: KeyError, ValueError, TypeError unless it fits"""
        require_name(self.kind, name, self.expected)
        shape, dtype = self.expected[name]
        array = np.array(value)
        if array.shape != shape:
            raise ValueError(
                f"{self.kind}: {name} must have shape {shape}, but it is {tuple(array.shape)}; reshape it"
            )
        return array if array.dtype == dtype else converted(array, dtype, f"{self.kind}: {name}")


def whole(kind):
    """Return the property of a table, which is assigned as a whole."""
    return property(lambda self: self.tables[kind], lambda self, arrays: self.tables[kind].set(arrays))


def in_order(kind, arrays, names):
    """List the arrays of these names in their order. Raises: TypeError, KeyError for other names"""
    if not isinstance(arrays, Mapping):
        raise TypeError(f"{kind} must be arrays by name, but it is {type(arrays).__name__}; pass a dictionary")
    for name in arrays:
        require_name(kind, name, names)
    for name in names:
        if name not in arrays:
            raise KeyError(f"{kind}: there must be an array {name}, but it is missing; pass all of them")
    return [arrays[name] for name in names]


def require_name(kind, name, names):
    """Raise KeyError unless a name is one of these, with the nearest of them."""
    if name not in names:
        near = get_close_matches(str(name), names, n=1)
        hint = f"did you mean {near[0]!r}?" if near else "correct the name"
        raise KeyError(f"{kind}: a name must be one of {', '.join(names)}, but it is {name!r}; {hint}")


class Learner:
    """Parameters and optimiser state by name, and the functions that use and change them.

    Calls from several threads take turns.
    """

    model = CompiledModel()
    parameters, buffers, state = whole("parameters"), whole("buffers"), whole("state")

    def __init__(self, seed=0):
        self.lock = RLock()
        self.tables = {
            "parameters": Table("parameters", PARAMETERS, self.model.init(seed), self.lock),
            "buffers": Table("buffers", {}, [], self.lock),
            "state": Table("state", STATE, self.model.init_state(seed), self.lock),
        }

    def __reduce__(self):
        return restored, (type(self), {kind: table.copy() for kind, table in self.tables.items()})

    def arrays(self, *kinds):
        """List the arrays of tables."""
        return [array for kind in kinds for array in self.tables[kind].arrays.values()]

    def predict(self, *inputs):
        """Compute the model's output; a list if there are several."""
        with self.lock:
            outputs = self.model.predict.on(self.arrays("parameters"), inputs)
        return outputs[0] if len(outputs) == 1 else outputs

    def loss(self, *inputs_and_targets):
        """Compute the loss between the outputs and the targets."""
        with self.lock:
            [loss] = self.model.loss.on(self.arrays("parameters"), inputs_and_targets)
        return loss

    def grads(self, *inputs_and_targets):
        """Compute the loss on one batch and its gradient by name, for accumulation and `update`."""
        with self.lock:
            loss, *new = self.model.grads.on(self.arrays("parameters"), inputs_and_targets)
        return loss, dict(zip(PARAMETERS, new))

    def update(self, gradients):
        """Update the parameters by the optimiser, with a gradient for each."""
        gradients = in_order("gradients", gradients, PARAMETERS)
        with self.lock:
            new = iter(self.model.update.on(self.arrays("state", "parameters"), gradients))
            self.state.arrays = dict(zip(STATE, new))
            self.parameters.arrays = dict(zip(PARAMETERS, new))

    def step(self, *inputs_and_targets):
        """Train on one batch; returns the loss before the step."""
        with self.lock:
            loss, *new = self.model.step.on(self.arrays("state", "parameters"), inputs_and_targets)
            new = iter(new)
            self.state.arrays = dict(zip(STATE, new))
            self.parameters.arrays = dict(zip(PARAMETERS, new))
        return loss


def restored(kind, tables):
    """Return a learner with arrays of its own, as copies and pickles have."""
    learner = kind()
    for table, arrays in tables.items():
        learner.tables[table].set(arrays)
    return learner
