# SHA-256 of the terms: 0b1edd800b6dc863b0f037a66ce55fc9095e995061469b5d3871e67cb7eae906
"""mlp: a model and its training, emitted by catgrad for JAX.

Needs JAX and nothing else. The functions are plain array arithmetic; `CompiledModel` puts a check
of the arguments in front of them, and `Learner` keeps the parameters between steps.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np

# Some numbers here have 64 bits, such as seeds; JAX would truncate them to 32. This affects the whole process.
jax.config.update("jax_enable_x64", True)

# P: shape and dtype of each parameter, in the order in which functions take and return them.
PARAMETERS = {
    "dense_0.weight": ((4, 5), jnp.float32),
    "dense_0.bias": ((5,), jnp.float32),
    "dense_1.weight": ((5, 3), jnp.float32),
    "dense_1.bias": ((3,), jnp.float32),
}


def random_bits(seed, counter, stream, shape):
    """Draw 32 random bits for each element: Philox 4×32 in 10 rounds (Salmon et al. 2011, section 4.2)."""
    count = math.prod(shape)
    seed, counter = jnp.asarray(seed), jnp.asarray(counter)
    block = jnp.arange(-(-count // 4), dtype=jnp.uint32)
    words = [word.astype(jnp.uint32) for word in (counter, counter >> 32, seed, seed >> 32)]
    a, b, c, d = jnp.broadcast_arrays(block, jnp.uint32(stream), *words[:2])
    k, m = words[2:]
    for _ in range(10):
        (above, x), (over, y) = wide_product(a, 0xD2511F53), wide_product(c, 0xCD9E8D57)
        a, b, c, d = over ^ b ^ k, y, above ^ d ^ m, x
        k, m = k + jnp.uint32(0x9E3779B9), m + jnp.uint32(0xBB67AE85)
    return jnp.stack([a, b, c, d], axis=-1).reshape(-1)[:count].reshape(shape)


def wide_product(x, y):
    """Return the upper and the lower 32 bits of x · y, by 16-bit halves, whose products fit 32 bits."""
    (high, low), (upper, lower) = (x >> 16, x & 0xFFFF), divmod(y, 1 << 16)
    inner = high * lower + (low * lower >> 16)
    outer = low * upper + (inner & 0xFFFF)
    return high * upper + (inner >> 16) + (outer >> 16), x * jnp.uint32(y)


def uniform(seed, counter, stream, shape, dtype):
    """Draw uniform random numbers in [0, 1), with as many bits as the dtype holds."""
    digits = min(jnp.finfo(dtype).nmant + 1, 32)
    bits = random_bits(seed, counter, stream, shape) >> (32 - digits)
    return bits.astype(dtype) * 2.0**-digits


def init(seed):
    """Initial values of the parameters."""
    noise = uniform(seed, 0, 3352313745, (4, 5), jnp.float32)  # f32[4,5]
    dense_0_weight = -0.5 + noise  # f32[4,5]
    noise_1 = uniform(seed, 0, 601650367, (5,), jnp.float32)  # f32[5]
    dense_0_bias = -0.5 + noise_1  # f32[5]
    noise_2 = uniform(seed, 0, 192560911, (5, 3), jnp.float32)  # f32[5,3]
    dense_1_weight = -0.4472136 + 0.8944272 * noise_2  # f32[5,3]
    noise_3 = uniform(seed, 0, 3900745498, (3,), jnp.float32)  # f32[3]
    dense_1_bias = -0.4472136 + 0.8944272 * noise_3  # f32[3]
    return [dense_0_weight, dense_0_bias, dense_1_weight, dense_1_bias]


def predict(dense_0_weight, dense_0_bias, dense_1_weight, dense_1_bias, x):
    """P × X → Ŷ: the model's output."""
    dense_0_linear = x @ dense_0_weight + dense_0_bias  # f32[batch,5]
    dense_0_out = jax.nn.sigmoid(dense_0_linear)  # f32[batch,5]
    dense_1_linear = dense_0_out @ dense_1_weight + dense_1_bias  # f32[batch,3]
    y_hat = jnp.tanh(dense_1_linear)  # f32[batch,3]
    return [y_hat]


def loss(dense_0_weight, dense_0_bias, dense_1_weight, dense_1_bias, x, y):
    """P × X × Y → R: the loss between the output and y."""
    batch = x.shape[0]
    dense_0_linear = x @ dense_0_weight + dense_0_bias  # f32[batch,5]
    dense_0_out = jax.nn.sigmoid(dense_0_linear)  # f32[batch,5]
    dense_1_linear = dense_0_out @ dense_1_weight + dense_1_bias  # f32[batch,3]
    y_hat = jnp.tanh(dense_1_linear)  # f32[batch,3]
    loss = jnp.square(y_hat - y).sum() / jnp.float32(3 * batch)  # f32[]
    return [loss]


def rev(dense_0_weight, dense_0_bias, dense_1_weight, dense_1_bias, x, d_y_hat):
    """P × X × Ŷ′ → P′ × X′: the reverse derivative of predict."""
    dense_0_linear = x @ dense_0_weight + dense_0_bias  # f32[batch,5]
    dense_0_out = jax.nn.sigmoid(dense_0_linear)  # f32[batch,5]
    dense_1_linear = dense_0_out @ dense_1_weight + dense_1_bias  # f32[batch,3]
    y_hat = jnp.tanh(dense_1_linear)  # f32[batch,3]
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
    """P × X × Ŷ′ → P′: the part of rev for the parameters."""
    dense_0_linear = x @ dense_0_weight + dense_0_bias  # f32[batch,5]
    dense_0_out = jax.nn.sigmoid(dense_0_linear)  # f32[batch,5]
    dense_1_linear = dense_0_out @ dense_1_weight + dense_1_bias  # f32[batch,3]
    y_hat = jnp.tanh(dense_1_linear)  # f32[batch,3]
    d_dense_1_linear = d_y_hat * (1 - y_hat * y_hat)  # f32[batch,3]
    d_dense_0_out = d_dense_1_linear @ dense_1_weight.T  # f32[batch,5]
    d_dense_0_linear = d_dense_0_out * (dense_0_out * (1 - dense_0_out))  # f32[batch,5]
    d_dense_0_weight = x.T @ d_dense_0_linear  # f32[4,5]
    d_dense_0_bias = d_dense_0_linear.sum(axis=0)  # f32[5]
    d_dense_1_weight = dense_0_out.T @ d_dense_1_linear  # f32[5,3]
    d_dense_1_bias = d_dense_1_linear.sum(axis=0)  # f32[3]
    return [d_dense_0_weight, d_dense_0_bias, d_dense_1_weight, d_dense_1_bias]


def grads(dense_0_weight, dense_0_bias, dense_1_weight, dense_1_bias, x, y):
    """P × X × Y → R × P′: the loss in training and its gradient."""
    batch = x.shape[0]
    dense_0_linear = x @ dense_0_weight + dense_0_bias  # f32[batch,5]
    dense_0_out = jax.nn.sigmoid(dense_0_linear)  # f32[batch,5]
    dense_1_linear = dense_0_out @ dense_1_weight + dense_1_bias  # f32[batch,3]
    y_hat = jnp.tanh(dense_1_linear)  # f32[batch,3]
    difference = y_hat - y  # f32[batch,3]
    count = jnp.float32(3 * batch)  # f32[]
    loss = jnp.square(difference).sum() / count  # f32[]
    d_y_hat = 2 / count * difference  # f32[batch,3]
    d_dense_1_linear = d_y_hat * (1 - y_hat * y_hat)  # f32[batch,3]
    d_dense_0_out = d_dense_1_linear @ dense_1_weight.T  # f32[batch,5]
    d_dense_0_linear = d_dense_0_out * (dense_0_out * (1 - dense_0_out))  # f32[batch,5]
    d_dense_0_weight = x.T @ d_dense_0_linear  # f32[4,5]
    d_dense_0_bias = d_dense_0_linear.sum(axis=0)  # f32[5]
    d_dense_1_weight = dense_0_out.T @ d_dense_1_linear  # f32[5,3]
    d_dense_1_bias = d_dense_1_linear.sum(axis=0)  # f32[3]
    return [loss, d_dense_0_weight, d_dense_0_bias, d_dense_1_weight, d_dense_1_bias]


def update(
    dense_0_weight, dense_0_bias, dense_1_weight, dense_1_bias, d_dense_0_weight, d_dense_0_bias,
    d_dense_1_weight, d_dense_1_bias
):
    """P × P′ → P: the optimiser's part of a step."""
    new_dense_0_weight = dense_0_weight - 0.1 * d_dense_0_weight  # f32[4,5]
    new_dense_0_bias = dense_0_bias - 0.1 * d_dense_0_bias  # f32[5]
    new_dense_1_weight = dense_1_weight - 0.1 * d_dense_1_weight  # f32[5,3]
    new_dense_1_bias = dense_1_bias - 0.1 * d_dense_1_bias  # f32[3]
    return [new_dense_0_weight, new_dense_0_bias, new_dense_1_weight, new_dense_1_bias]


def step(dense_0_weight, dense_0_bias, dense_1_weight, dense_1_bias, x, y):
    """P × X × Y → R × P: one step of training, and the loss before it."""
    batch = x.shape[0]
    dense_0_linear = x @ dense_0_weight + dense_0_bias  # f32[batch,5]
    dense_0_out = jax.nn.sigmoid(dense_0_linear)  # f32[batch,5]
    dense_1_linear = dense_0_out @ dense_1_weight + dense_1_bias  # f32[batch,3]
    y_hat = jnp.tanh(dense_1_linear)  # f32[batch,3]
    difference = y_hat - y  # f32[batch,3]
    count = jnp.float32(3 * batch)  # f32[]
    loss = jnp.square(difference).sum() / count  # f32[]
    d_y_hat = 2 / count * difference  # f32[batch,3]
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
    JAX compiles it once for each set of shapes. Products keep all digits, on accelerators too.
    """

    def __init__(self, function, symbols, types):
        self.function, self.symbols, self.types = jax.jit(function), symbols, types
        self.__name__, self.__doc__ = function.__name__, function.__doc__
        self.accepted = set()

    def __call__(self, *values):
        signature = tuple([isinstance(v, (jax.Array, np.ndarray)) and (v.shape, v.dtype) for v in values])
        if signature not in self.accepted:
            values = self.arrays([value if isinstance(value, jax.Array) else np.asarray(value) for value in values])
            if len(self.accepted) > 100:
                self.accepted.clear()
            self.accepted.add(tuple([(v.shape, v.dtype) for v in values]))
        with jax.default_matmul_precision("highest"):
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
        return Checked(init, [], lambda: [("seed", ((), jnp.int64))])(seed)

    def learner(self, seed=0):
        """Return a learner with initial values drawn from `seed`."""
        return Learner(seed)

    predict = Checked(
        predict,
        symbols=[("batch", 4, 0)],
        types=lambda batch: [
            *PARAMETERS.items(),
            ("x", ((batch, 4), jnp.float32)),
        ],
    )

    loss = Checked(
        loss,
        symbols=[("batch", 4, 0)],
        types=lambda batch: [
            *PARAMETERS.items(),
            ("x", ((batch, 4), jnp.float32)),
            ("y", ((batch, 3), jnp.float32)),
        ],
    )

    rev = Checked(
        rev,
        symbols=[("batch", 4, 0)],
        types=lambda batch: [
            *PARAMETERS.items(),
            ("x", ((batch, 4), jnp.float32)),
            ("d_y_hat", ((batch, 3), jnp.float32)),
        ],
    )

    rev_p = Checked(
        rev_p,
        symbols=[("batch", 4, 0)],
        types=lambda batch: [
            *PARAMETERS.items(),
            ("x", ((batch, 4), jnp.float32)),
            ("d_y_hat", ((batch, 3), jnp.float32)),
        ],
    )

    grads = Checked(
        grads,
        symbols=[("batch", 4, 0)],
        types=lambda batch: [
            *PARAMETERS.items(),
            ("x", ((batch, 4), jnp.float32)),
            ("y", ((batch, 3), jnp.float32)),
        ],
    )

    update = Checked(
        update,
        symbols=[],
        types=lambda: [
            *PARAMETERS.items(),
            ("d_dense_0.weight", ((4, 5), jnp.float32)),
            ("d_dense_0.bias", ((5,), jnp.float32)),
            ("d_dense_1.weight", ((5, 3), jnp.float32)),
            ("d_dense_1.bias", ((3,), jnp.float32)),
        ],
    )

    step = Checked(
        step,
        symbols=[("batch", 4, 0)],
        types=lambda batch: [
            *PARAMETERS.items(),
            ("x", ((batch, 4), jnp.float32)),
            ("y", ((batch, 3), jnp.float32)),
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
