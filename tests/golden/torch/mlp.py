"""mlp: a model and its training, emitted by catgrad for PyTorch.

Needs PyTorch and nothing else. The functions are plain array arithmetic; `CompiledModel` puts a check
of the arguments in front of them, and `Learner` keeps the parameters between steps.
"""

import torch

# P: shape and dtype of each parameter, in the order in which functions take and return them.
PARAMETERS = {
    "dense_0.weight": ((4, 5), torch.float32),
    "dense_0.bias": ((5,), torch.float32),
    "dense_1.weight": ((5, 3), torch.float32),
    "dense_1.bias": ((3,), torch.float32),
}
# S: the same for the arrays of the optimiser's state.
STATE = {}


def init(seed=0):
    """First values of the parameters."""
    rng = torch.Generator().manual_seed(seed)
    return [
        torch.empty((4, 5), dtype=torch.float32).uniform_(-0.5, 0.5, generator=rng),  # dense_0.weight
        torch.empty((5,), dtype=torch.float32).uniform_(-0.5, 0.5, generator=rng),  # dense_0.bias
        torch.empty((5, 3), dtype=torch.float32).uniform_(-0.4472136, 0.4472136, generator=rng),  # dense_1.weight
        torch.empty((3,), dtype=torch.float32).uniform_(-0.4472136, 0.4472136, generator=rng),  # dense_1.bias
    ]


def predict(dense_0_weight, dense_0_bias, dense_1_weight, dense_1_bias, x):
    """P × X → Ŷ: the model's output."""
    dense_0_linear = x @ dense_0_weight + dense_0_bias  # f32[batch,5]
    dense_0_out = torch.sigmoid(dense_0_linear)  # f32[batch,5]
    dense_1_linear = dense_0_out @ dense_1_weight + dense_1_bias  # f32[batch,3]
    y_hat = torch.tanh(dense_1_linear)  # f32[batch,3]
    return [y_hat]


def loss(dense_0_weight, dense_0_bias, dense_1_weight, dense_1_bias, x, y):
    """P × X × Y → R: how far the output is from y."""
    batch = x.shape[0]
    dense_0_linear = x @ dense_0_weight + dense_0_bias  # f32[batch,5]
    dense_0_out = torch.sigmoid(dense_0_linear)  # f32[batch,5]
    dense_1_linear = dense_0_out @ dense_1_weight + dense_1_bias  # f32[batch,3]
    y_hat = torch.tanh(dense_1_linear)  # f32[batch,3]
    count = torch.tensor(3 * batch, dtype=torch.float32, device=dense_0_weight.device)  # f32[]
    loss = torch.square(y_hat - y).sum(dim=(0, 1)) / count  # f32[]
    return [loss]


def rev(dense_0_weight, dense_0_bias, dense_1_weight, dense_1_bias, x, d_y_hat):
    """P × X × Ŷ′ → P′ × X′: the reverse derivative of predict."""
    dense_0_linear = x @ dense_0_weight + dense_0_bias  # f32[batch,5]
    dense_0_out = torch.sigmoid(dense_0_linear)  # f32[batch,5]
    dense_1_linear = dense_0_out @ dense_1_weight + dense_1_bias  # f32[batch,3]
    y_hat = torch.tanh(dense_1_linear)  # f32[batch,3]
    d_dense_1_linear = d_y_hat * (1 - y_hat * y_hat)  # f32[batch,3]
    d_dense_0_out = d_dense_1_linear @ dense_1_weight.T  # f32[batch,5]
    d_dense_0_linear = d_dense_0_out * (dense_0_out * (1 - dense_0_out))  # f32[batch,5]
    d_x = d_dense_0_linear @ dense_0_weight.T  # f32[batch,4]
    d_dense_0_weight = x.T @ d_dense_0_linear  # f32[4,5]
    d_dense_0_bias = d_dense_0_linear.sum(dim=0)  # f32[5]
    d_dense_1_weight = dense_0_out.T @ d_dense_1_linear  # f32[5,3]
    d_dense_1_bias = d_dense_1_linear.sum(dim=0)  # f32[3]
    return [d_dense_0_weight, d_dense_0_bias, d_dense_1_weight, d_dense_1_bias, d_x]


def rev_p(dense_0_weight, dense_0_bias, dense_1_weight, dense_1_bias, x, d_y_hat):
    """P × X × Ŷ′ → P′: the part of rev that parameters need."""
    dense_0_linear = x @ dense_0_weight + dense_0_bias  # f32[batch,5]
    dense_0_out = torch.sigmoid(dense_0_linear)  # f32[batch,5]
    dense_1_linear = dense_0_out @ dense_1_weight + dense_1_bias  # f32[batch,3]
    y_hat = torch.tanh(dense_1_linear)  # f32[batch,3]
    d_dense_1_linear = d_y_hat * (1 - y_hat * y_hat)  # f32[batch,3]
    d_dense_0_out = d_dense_1_linear @ dense_1_weight.T  # f32[batch,5]
    d_dense_0_linear = d_dense_0_out * (dense_0_out * (1 - dense_0_out))  # f32[batch,5]
    d_dense_0_weight = x.T @ d_dense_0_linear  # f32[4,5]
    d_dense_0_bias = d_dense_0_linear.sum(dim=0)  # f32[5]
    d_dense_1_weight = dense_0_out.T @ d_dense_1_linear  # f32[5,3]
    d_dense_1_bias = d_dense_1_linear.sum(dim=0)  # f32[3]
    return [d_dense_0_weight, d_dense_0_bias, d_dense_1_weight, d_dense_1_bias]


def step(dense_0_weight, dense_0_bias, dense_1_weight, dense_1_bias, x, y):
    """P × X × Y → P: one step of training."""
    batch = x.shape[0]
    dense_0_linear = x @ dense_0_weight + dense_0_bias  # f32[batch,5]
    dense_0_out = torch.sigmoid(dense_0_linear)  # f32[batch,5]
    dense_1_linear = dense_0_out @ dense_1_weight + dense_1_bias  # f32[batch,3]
    y_hat = torch.tanh(dense_1_linear)  # f32[batch,3]
    count = torch.tensor(3 * batch, dtype=torch.float32, device=dense_0_weight.device)  # f32[]
    quotient = torch.tensor(2, dtype=torch.float32, device=dense_0_weight.device) / count  # f32[]
    d_y_hat = quotient * (y_hat - y)  # f32[batch,3]
    d_dense_1_linear = d_y_hat * (1 - y_hat * y_hat)  # f32[batch,3]
    d_dense_0_out = d_dense_1_linear @ dense_1_weight.T  # f32[batch,5]
    d_dense_0_linear = d_dense_0_out * (dense_0_out * (1 - dense_0_out))  # f32[batch,5]
    d_dense_0_weight = x.T @ d_dense_0_linear  # f32[4,5]
    d_dense_0_bias = d_dense_0_linear.sum(dim=0)  # f32[5]
    d_dense_1_weight = dense_0_out.T @ d_dense_1_linear  # f32[5,3]
    d_dense_1_bias = d_dense_1_linear.sum(dim=0)  # f32[3]
    new_dense_0_weight = dense_0_weight - 0.1 * d_dense_0_weight  # f32[4,5]
    new_dense_0_bias = dense_0_bias - 0.1 * d_dense_0_bias  # f32[5]
    new_dense_1_weight = dense_1_weight - 0.1 * d_dense_1_weight  # f32[5,3]
    new_dense_1_bias = dense_1_bias - 0.1 * d_dense_1_bias  # f32[3]
    return [new_dense_0_weight, new_dense_0_bias, new_dense_1_weight, new_dense_1_bias]


def train_step(dense_0_weight, dense_0_bias, dense_1_weight, dense_1_bias, x, y):
    """P × X × Y → R × P: one step, and the loss before it."""
    batch = x.shape[0]
    dense_0_linear = x @ dense_0_weight + dense_0_bias  # f32[batch,5]
    dense_0_out = torch.sigmoid(dense_0_linear)  # f32[batch,5]
    dense_1_linear = dense_0_out @ dense_1_weight + dense_1_bias  # f32[batch,3]
    y_hat = torch.tanh(dense_1_linear)  # f32[batch,3]
    difference = y_hat - y  # f32[batch,3]
    count = torch.tensor(3 * batch, dtype=torch.float32, device=dense_0_weight.device)  # f32[]
    loss = torch.square(difference).sum(dim=(0, 1)) / count  # f32[]
    quotient = torch.tensor(2, dtype=torch.float32, device=dense_0_weight.device) / count  # f32[]
    d_y_hat = quotient * difference  # f32[batch,3]
    d_dense_1_linear = d_y_hat * (1 - y_hat * y_hat)  # f32[batch,3]
    d_dense_0_out = d_dense_1_linear @ dense_1_weight.T  # f32[batch,5]
    d_dense_0_linear = d_dense_0_out * (dense_0_out * (1 - dense_0_out))  # f32[batch,5]
    d_dense_0_weight = x.T @ d_dense_0_linear  # f32[4,5]
    d_dense_0_bias = d_dense_0_linear.sum(dim=0)  # f32[5]
    d_dense_1_weight = dense_0_out.T @ d_dense_1_linear  # f32[5,3]
    d_dense_1_bias = d_dense_1_linear.sum(dim=0)  # f32[3]
    new_dense_0_weight = dense_0_weight - 0.1 * d_dense_0_weight  # f32[4,5]
    new_dense_0_bias = dense_0_bias - 0.1 * d_dense_0_bias  # f32[5]
    new_dense_1_weight = dense_1_weight - 0.1 * d_dense_1_weight  # f32[5,3]
    new_dense_1_bias = dense_1_bias - 0.1 * d_dense_1_bias  # f32[3]
    return [loss, new_dense_0_weight, new_dense_0_bias, new_dense_1_weight, new_dense_1_bias]


def converted(array, dtype, what):
    """The tensor in another dtype. Floats may lose digits, but nothing else may change."""
    if not torch.can_cast(array.dtype, dtype):
        raise TypeError(f"{what} must be {dtype}, but it is {array.dtype}; use .to")
    cast = array.to(dtype)
    kept = torch.isfinite(cast) == torch.isfinite(array) if dtype.is_floating_point else cast == array
    if not torch.all(kept):
        raise TypeError(f"{what} must fit {dtype}, but it has values outside; rescale it")
    return cast


class Checked:
    """A function of this module behind a check of its arguments: arrays in, a list of arrays out.

    `symbols` are the sizes that are free, each with an argument and an axis that have it; `types`
    gives the name, shape and dtype of every argument at these sizes.
    Autograd does not watch.
    """

    def __init__(self, function, symbols, types):
        self.function, self.symbols, self.types = function, symbols, types
        self.__name__, self.__doc__ = function.__name__, function.__doc__
        self.accepted = set()

    def __call__(self, *values):
        signature = tuple([isinstance(v, torch.Tensor) and (v.shape, v.dtype) for v in values])
        if signature not in self.accepted:
            values = self.arrays([torch.as_tensor(value) for value in values])
            if len(self.accepted) > 100:
                self.accepted.clear()
            self.accepted.add(tuple([(v.shape, v.dtype) for v in values]))
        with torch.no_grad():
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
            ("x", ((batch, 4), torch.float32)),
        ],
    )

    loss = Checked(
        loss,
        symbols=[("batch", 4, 0)],
        types=lambda batch: [
            *PARAMETERS.items(),
            ("x", ((batch, 4), torch.float32)),
            ("y", ((batch, 3), torch.float32)),
        ],
    )

    rev = Checked(
        rev,
        symbols=[("batch", 4, 0)],
        types=lambda batch: [
            *PARAMETERS.items(),
            ("x", ((batch, 4), torch.float32)),
            ("d_y_hat", ((batch, 3), torch.float32)),
        ],
    )

    rev_p = Checked(
        rev_p,
        symbols=[("batch", 4, 0)],
        types=lambda batch: [
            *PARAMETERS.items(),
            ("x", ((batch, 4), torch.float32)),
            ("d_y_hat", ((batch, 3), torch.float32)),
        ],
    )

    step = Checked(
        step,
        symbols=[("batch", 4, 0)],
        types=lambda batch: [
            *PARAMETERS.items(),
            ("x", ((batch, 4), torch.float32)),
            ("y", ((batch, 3), torch.float32)),
        ],
    )

    train_step = Checked(
        train_step,
        symbols=[("batch", 4, 0)],
        types=lambda batch: [
            *PARAMETERS.items(),
            ("x", ((batch, 4), torch.float32)),
            ("y", ((batch, 3), torch.float32)),
        ],
    )


class Learner:
    """Parameters and optimiser state by name, and the functions that use and change them."""

    model = CompiledModel()

    def __init__(self, seed=0):
        self.parameters = dict(zip(PARAMETERS, init(seed)))
        self.state = {name: torch.zeros(shape, dtype=dtype) for name, (shape, dtype) in STATE.items()}

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
