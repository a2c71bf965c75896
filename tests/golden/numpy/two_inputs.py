# SHA-256 of the terms: 81697d092628c2d01682f88c6a680ed1e143a38f0126b633a2a328e7dba69e89
"""two_inputs: a model and its training, emitted by catgrad for NumPy.

Needs NumPy and nothing else. The functions are plain array arithmetic; `CompiledModel` puts a check
of the arguments in front of them, and `Learner` keeps the parameters between steps.
"""

import numpy as np

# P: shape and dtype of each parameter, in the order in which functions take and return them.
PARAMETERS = {
    "weight": ((4, 3), np.float32),
}


def init(seed):
    """Initial values of the parameters."""
    weight = np.full((4, 3), 0.0, np.float32)  # f32[4,3]
    return [weight]


def predict(weight, x_0, x_1):
    """P × X → Ŷ: the model's output."""
    y_hat_0 = np.tanh(x_0 @ weight)  # f32[batch,3]
    y_hat_1 = np.exp(np.square(x_1) @ weight)  # f32[batch,3]
    return [y_hat_0, y_hat_1]


def loss(weight, x_0, x_1, y_0, y_1):
    """P × X × Y → R: the loss between the output and y."""
    batch = x_0.shape[0]
    y_hat_0 = np.tanh(x_0 @ weight)  # f32[batch,3]
    y_hat_1 = np.exp(np.square(x_1) @ weight)  # f32[batch,3]
    count = np.float32(3 * batch)  # f32[]
    loss = np.square(y_hat_0 - y_0).sum() / count + np.square(y_hat_1 - y_1).sum() / count  # f32[]
    return [loss]


def rev(weight, x_0, x_1, d_y_hat_0, d_y_hat_1):
    """P × X × Ŷ′ → P′ × X′: the reverse derivative of predict."""
    y_hat_0 = np.tanh(x_0 @ weight)  # f32[batch,3]
    square = np.square(x_1)  # f32[batch,4]
    y_hat_1 = np.exp(square @ weight)  # f32[batch,3]
    product = d_y_hat_0 * (1 - y_hat_0 * y_hat_0)  # f32[batch,3]
    transpose = weight.T  # f32[3,4]
    d_x_0 = product @ transpose  # f32[batch,4]
    product_1 = d_y_hat_1 * y_hat_1  # f32[batch,3]
    d_x_1 = 2 * (product_1 @ transpose) * x_1  # f32[batch,4]
    d_weight = x_0.T @ product + square.T @ product_1  # f32[4,3]
    return [d_weight, d_x_0, d_x_1]


def rev_p(weight, x_0, x_1, d_y_hat_0, d_y_hat_1):
    """P × X × Ŷ′ → P′: the part of rev for the parameters."""
    y_hat_0 = np.tanh(x_0 @ weight)  # f32[batch,3]
    square = np.square(x_1)  # f32[batch,4]
    y_hat_1 = np.exp(square @ weight)  # f32[batch,3]
    product = x_0.T @ (d_y_hat_0 * (1 - y_hat_0 * y_hat_0))  # f32[4,3]
    d_weight = product + square.T @ (d_y_hat_1 * y_hat_1)  # f32[4,3]
    return [d_weight]


def grads(weight, x_0, x_1, y_0, y_1):
    """P × X × Y → R × P′: the loss in training and its gradient."""
    batch = x_0.shape[0]
    y_hat_0 = np.tanh(x_0 @ weight)  # f32[batch,3]
    square = np.square(x_1)  # f32[batch,4]
    y_hat_1 = np.exp(square @ weight)  # f32[batch,3]
    difference = y_hat_0 - y_0  # f32[batch,3]
    count = np.float32(3 * batch)  # f32[]
    difference_1 = y_hat_1 - y_1  # f32[batch,3]
    loss = np.square(difference).sum() / count + np.square(difference_1).sum() / count  # f32[]
    quotient = np.float32(2) / count  # f32[]
    d_y_hat_0 = quotient * difference  # f32[batch,3]
    product = x_0.T @ (d_y_hat_0 * (1 - y_hat_0 * y_hat_0))  # f32[4,3]
    d_y_hat_1 = quotient * difference_1  # f32[batch,3]
    d_weight = product + square.T @ (d_y_hat_1 * y_hat_1)  # f32[4,3]
    return [loss, d_weight]


def update(weight, d_weight):
    """P × P′ → P: the optimiser's part of a step."""
    new_weight = weight - 0.1 * d_weight  # f32[4,3]
    return [new_weight]


def step(weight, x_0, x_1, y_0, y_1):
    """P × X × Y → R × P: one step of training, and the loss before it."""
    batch = x_0.shape[0]
    y_hat_0 = np.tanh(x_0 @ weight)  # f32[batch,3]
    square = np.square(x_1)  # f32[batch,4]
    y_hat_1 = np.exp(square @ weight)  # f32[batch,3]
    difference = y_hat_0 - y_0  # f32[batch,3]
    count = np.float32(3 * batch)  # f32[]
    difference_1 = y_hat_1 - y_1  # f32[batch,3]
    loss = np.square(difference).sum() / count + np.square(difference_1).sum() / count  # f32[]
    quotient = np.float32(2) / count  # f32[]
    d_y_hat_0 = quotient * difference  # f32[batch,3]
    product = x_0.T @ (d_y_hat_0 * (1 - y_hat_0 * y_hat_0))  # f32[4,3]
    d_y_hat_1 = quotient * difference_1  # f32[batch,3]
    d_weight = product + square.T @ (d_y_hat_1 * y_hat_1)  # f32[4,3]
    new_weight = weight - 0.1 * d_weight  # f32[4,3]
    return [loss, new_weight]


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
        symbols=[("batch", 1, 0)],
        types=lambda batch: [
            *PARAMETERS.items(),
            ("x_0", ((batch, 4), np.float32)),
            ("x_1", ((batch, 4), np.float32)),
        ],
    )

    loss = Checked(
        loss,
        symbols=[("batch", 1, 0)],
        types=lambda batch: [
            *PARAMETERS.items(),
            ("x_0", ((batch, 4), np.float32)),
            ("x_1", ((batch, 4), np.float32)),
            ("y_0", ((batch, 3), np.float32)),
            ("y_1", ((batch, 3), np.float32)),
        ],
    )

    rev = Checked(
        rev,
        symbols=[("batch", 1, 0)],
        types=lambda batch: [
            *PARAMETERS.items(),
            ("x_0", ((batch, 4), np.float32)),
            ("x_1", ((batch, 4), np.float32)),
            ("d_y_hat_0", ((batch, 3), np.float32)),
            ("d_y_hat_1", ((batch, 3), np.float32)),
        ],
    )

    rev_p = Checked(
        rev_p,
        symbols=[("batch", 1, 0)],
        types=lambda batch: [
            *PARAMETERS.items(),
            ("x_0", ((batch, 4), np.float32)),
            ("x_1", ((batch, 4), np.float32)),
            ("d_y_hat_0", ((batch, 3), np.float32)),
            ("d_y_hat_1", ((batch, 3), np.float32)),
        ],
    )

    grads = Checked(
        grads,
        symbols=[("batch", 1, 0)],
        types=lambda batch: [
            *PARAMETERS.items(),
            ("x_0", ((batch, 4), np.float32)),
            ("x_1", ((batch, 4), np.float32)),
            ("y_0", ((batch, 3), np.float32)),
            ("y_1", ((batch, 3), np.float32)),
        ],
    )

    update = Checked(
        update,
        symbols=[],
        types=lambda: [
            *PARAMETERS.items(),
            ("d_weight", ((4, 3), np.float32)),
        ],
    )

    step = Checked(
        step,
        symbols=[("batch", 1, 0)],
        types=lambda batch: [
            *PARAMETERS.items(),
            ("x_0", ((batch, 4), np.float32)),
            ("x_1", ((batch, 4), np.float32)),
            ("y_0", ((batch, 3), np.float32)),
            ("y_1", ((batch, 3), np.float32)),
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
