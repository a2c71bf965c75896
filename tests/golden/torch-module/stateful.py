# SHA-256 of the terms: bc376bb2df05718d731b1f8431168ec728f892a630c1faf27c004979fcd358eb
"""stateful: a model as a torch.nn.Module, emitted by catgrad for PyTorch and its autograd.

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


class Stateful(torch.nn.Module):
    """X → Ŷ: the model, with its arrays by name."""

    def __init__(self, seed=0):
        """Initial values drawn from `seed`."""
        super().__init__()
        seed = torch.tensor(seed)
        layer_0_linear_weight = -0.5 + uniform(seed, 0, 2243263857, (4, 4), torch.float64)  # f64[4,4]
        layer_1_norm_weight = torch.full((4,), 1.0, dtype=torch.float64, device=seed.device)  # f64[4]
        layer_1_norm_bias = torch.full((4,), 0.0, dtype=torch.float64, device=seed.device)  # f64[4]
        layer_3_weight = -1 + 2 * uniform(seed, 0, 1206730196, (4, 4), torch.float64)  # f64[4,4]
        self.add_module("0", torch.nn.Module())
        getattr(self, "0").linear = torch.nn.Module()
        self.add_module("1", torch.nn.Module())
        getattr(self, "1").norm = torch.nn.Module()
        self.add_module("3", torch.nn.Module())
        getattr(self, "0").linear.weight = torch.nn.Parameter(layer_0_linear_weight)
        getattr(self, "1").norm.weight = torch.nn.Parameter(layer_1_norm_weight)
        getattr(self, "1").norm.bias = torch.nn.Parameter(layer_1_norm_bias)
        getattr(self, "3").weight = torch.nn.Parameter(layer_3_weight)
        layer_1_norm_running_mean = torch.full((4,), 0.0, dtype=torch.float64, device=seed.device)  # f64[4]
        layer_1_norm_running_var = torch.full((4,), 1.0, dtype=torch.float64, device=seed.device)  # f64[4]
        layer_3_u = torch.full((4,), 0.5, dtype=torch.float64, device=seed.device)  # f64[4]
        self.register_buffer("seed", seed)
        self.register_buffer("draws", torch.tensor(0, dtype=torch.int64, device=seed.device))
        getattr(self, "1").norm.register_buffer("running_mean", layer_1_norm_running_mean)
        getattr(self, "1").norm.register_buffer("running_var", layer_1_norm_running_var)
        getattr(self, "1").norm.register_buffer("num_batches_tracked", torch.tensor(0, dtype=torch.int64, device=seed.device))
        getattr(self, "3").register_buffer("u", layer_3_u)

    def forward(self, x):
        """X → Ŷ: the model in training mode, or after `eval()` in evaluation mode."""
        return self.trained(x) if self.training else self.predict(x)

    def trained(self, x):
        """X → Ŷ in training, which changes the buffers."""
        layer_3_u = getattr(self, "3").u.clone()  # f64[4]
        layer_0_linear_out = x @ getattr(self, "0").linear.weight  # f64[6,4]
        layer_1_norm_mean = layer_0_linear_out.sum(dim=0) / 6  # f64[4]
        layer_1_norm_centred = layer_0_linear_out - layer_1_norm_mean  # f64[6,4]
        layer_1_norm_variance = (layer_1_norm_centred * layer_1_norm_centred).sum(dim=0) / 6  # f64[4]
        layer_1_norm_rstd = torch.rsqrt(layer_1_norm_variance + 1e-05)  # f64[4]
        new_1_norm_running_mean = torch.lerp(getattr(self, "1").norm.running_mean, layer_1_norm_mean, 0.1)  # f64[4]
        new_1_norm_running_var = torch.lerp(getattr(self, "1").norm.running_var, layer_1_norm_variance * 1.2, 0.1)  # f64[4]
        new_1_norm_num_batches_tracked = getattr(self, "1").norm.num_batches_tracked + 1  # i64[]
        layer_1_norm_out = torch.addcmul(getattr(self, "1").norm.bias, layer_1_norm_centred * layer_1_norm_rstd, getattr(self, "1").norm.weight)  # f64[6,4]
        noise = uniform(self.seed, self.draws, 98024489, (6, 4), torch.float64)  # f64[6,4]
        select = torch.where(noise >= 0.4, layer_1_norm_out * 1.6666666666666667, 0)  # f64[6,4]
        product = getattr(self, "3").weight @ layer_3_u  # f64[4]
        new_3_u = torch.tanh(product)  # f64[4]
        y_hat = select @ getattr(self, "3").weight / (torch.square(product).sum(dim=0) + 0.1)  # f64[6,4]
        new_draws = self.draws + 1  # i64[]
        with torch.no_grad():
            self.draws.copy_(new_draws)
            getattr(self, "1").norm.running_mean.copy_(new_1_norm_running_mean)
            getattr(self, "1").norm.running_var.copy_(new_1_norm_running_var)
            getattr(self, "1").norm.num_batches_tracked.copy_(new_1_norm_num_batches_tracked)
            getattr(self, "3").u.copy_(new_3_u)
        return y_hat

    def predict(self, x):
        """X → Ŷ in evaluation mode."""
        layer_0_linear_out = x @ getattr(self, "0").linear.weight  # f64[6,4]
        layer_1_norm_rstd = torch.rsqrt(getattr(self, "1").norm.running_var + 1e-05)  # f64[4]
        product = (layer_0_linear_out - getattr(self, "1").norm.running_mean) * layer_1_norm_rstd  # f64[6,4]
        layer_1_norm_out = torch.addcmul(getattr(self, "1").norm.bias, product, getattr(self, "1").norm.weight)  # f64[6,4]
        square = torch.square(getattr(self, "3").weight @ getattr(self, "3").u)  # f64[4]
        y_hat = layer_1_norm_out @ getattr(self, "3").weight / (square.sum(dim=0) + 0.1)  # f64[6,4]
        return y_hat


def criterion(y_hat, y):
    """Ŷ × Y → R: the loss between ŷ and y."""
    loss = torch.square(y_hat - y).sum(dim=(0, 1)) / 24  # f64[]
    return loss
