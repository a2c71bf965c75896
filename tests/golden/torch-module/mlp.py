# SHA-256 of the terms: 0b1edd800b6dc863b0f037a66ce55fc9095e995061469b5d3871e67cb7eae906
"""mlp: a model as a torch.nn.Module, emitted by catgrad for PyTorch and its autograd.

Needs PyTorch and nothing else. Weights have the shape [inputs, outputs]: those of torch.nn.Linear are their transposes.
"""

import math

import torch


def random_bits(seed, counter, stream, shape):
    """Draw 32 random bits for each element: Philox 4×32 in 10 rounds (Salmon et al. 2011, section 4.2)."""
    count, low = math.prod(shape), 0xFFFFFFFF
    block = torch.arange(-(-count // 4), device=seed.device)
    # The operator >> does not change distributed tensors (PyTorch 2.13).
    words = block & low, stream, counter & low, counter // 2**32 & low
    a, b, c, d = torch.broadcast_tensors(*(torch.as_tensor(word, device=seed.device) for word in words))
    k, m = seed & low, seed // 2**32 & low
    for _ in range(10):
        # Products wrap modulo 2⁶⁴, which does not change their bits.
        x, y = a * 0xD2511F53, c * 0xCD9E8D57
        high, other = (torch.bitwise_right_shift(z, 32) & low for z in (y, x))
        a, b, c, d = high ^ b ^ k, y & low, other ^ d ^ m, x & low
        k, m = k + 0x9E3779B9 & low, m + 0xBB67AE85 & low
    return torch.stack([a, b, c, d], dim=-1).reshape(-1)[:count].reshape(shape)


def uniform(seed, counter, stream, shape, dtype):
    """Draw uniform random numbers in [0, 1), with as many bits as the dtype holds."""
    digits = min(round(-math.log2(torch.finfo(dtype).eps)) + 1, 32)
    bits = torch.bitwise_right_shift(random_bits(seed, counter, stream, shape), 32 - digits)
    return (bits.double() * 2.0**-digits).to(dtype)


class Mlp(torch.nn.Module):
    """X → Ŷ: the model, with its arrays by name."""

    def __init__(self, seed=0):
        """Initial values drawn from `seed`."""
        super().__init__()
        seed = torch.tensor(seed)
        dense_0_weight = -0.5 + uniform(seed, 0, 3352313745, (4, 5), torch.float32)  # f32[4,5]
        dense_0_bias = -0.5 + uniform(seed, 0, 601650367, (5,), torch.float32)  # f32[5]
        product = 0.8944272 * uniform(seed, 0, 192560911, (5, 3), torch.float32)  # f32[5,3]
        dense_1_weight = -0.4472136 + product  # f32[5,3]
        product_1 = 0.8944272 * uniform(seed, 0, 3900745498, (3,), torch.float32)  # f32[3]
        dense_1_bias = -0.4472136 + product_1  # f32[3]
        self.dense_0 = torch.nn.Module()
        self.dense_1 = torch.nn.Module()
        self.dense_0.weight = torch.nn.Parameter(dense_0_weight)
        self.dense_0.bias = torch.nn.Parameter(dense_0_bias)
        self.dense_1.weight = torch.nn.Parameter(dense_1_weight)
        self.dense_1.bias = torch.nn.Parameter(dense_1_bias)

    def forward(self, x):
        """X → Ŷ: the model's output."""
        dense_0_linear = torch.nn.functional.linear(x, self.dense_0.weight.T, self.dense_0.bias)  # f32[batch,5]
        dense_0_out = torch.sigmoid(dense_0_linear)  # f32[batch,5]
        dense_1_linear = torch.nn.functional.linear(dense_0_out, self.dense_1.weight.T, self.dense_1.bias)  # f32[batch,3]
        y_hat = torch.tanh(dense_1_linear)  # f32[batch,3]
        return y_hat


def criterion(y_hat, y):
    """Ŷ × Y → R: the loss between ŷ and y."""
    batch = y_hat.shape[0]
    count = torch.tensor(3 * batch, dtype=torch.float32, device=y_hat.device)  # f32[]
    loss = torch.square(y_hat - y).sum(dim=(0, 1)) / count  # f32[]
    return loss


def make_optimizer(module, kind="sgd", learning_rate=0.1):
    """Return an optimiser of torch.optim; that of the model is sgd."""
    parameters = module.parameters()
    if kind == "sgd":
        return torch.optim.SGD(parameters, learning_rate, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False, maximize=False)
    if kind == "adam":
        return torch.optim.Adam(parameters, learning_rate, betas=(0.9, 0.999), eps=1e-08, weight_decay=0.0, amsgrad=False, maximize=False)
    if kind == "adamw":
        return torch.optim.AdamW(parameters, learning_rate, betas=(0.9, 0.999), eps=1e-08, weight_decay=0.01, amsgrad=False, maximize=False)
    if kind == "rmsprop":
        return torch.optim.RMSprop(parameters, learning_rate, alpha=0.99, eps=1e-08, weight_decay=0.0, momentum=0.0, centered=False, maximize=False)
    if kind == "adagrad":
        return torch.optim.Adagrad(parameters, learning_rate, lr_decay=0.0, weight_decay=0.0, initial_accumulator_value=0.0, eps=1e-10, maximize=False)
    raise ValueError(f"kind must be one of sgd, adam, adamw, rmsprop, adagrad, but it is {kind!r}")


def train_step(module, optimizer, x, y):
    """Train on one batch; returns the loss before the step."""
    module.train()
    optimizer.zero_grad()
    loss = criterion(module(x), y)
    loss.backward()
    optimizer.step()
    return loss.detach()


if __name__ == "__main__":
    torch.manual_seed(0)
    module = Mlp()
    optimizer = make_optimizer(module)
    batch = [
        torch.randn((8, 4), dtype=torch.float32),
        torch.randn((8, 3), dtype=torch.float32),
    ]
    losses = [train_step(module, optimizer, *batch).item() for _ in range(100)]
    print(f"loss before: {losses[0]:.6g}, after {len(losses)} steps: {losses[-1]:.6g}")
