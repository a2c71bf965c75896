"""Networks of images: convolutional blocks, gates of channels, segmentation, resolution, windows."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="PyTorch, the other side of the comparison, is not installed")

from tests.modules.records import adam, module, real, whole  # noqa: E402

nn, F = torch.nn, torch.nn.functional
IMAGE, CLASSES = real("n", 4, 8, 8), whole(3, "n")


@module("SE block", IMAGE, IMAGE)
class SqueezeExcitation(nn.Module):
    def __init__(self, c=4, r=2):
        super().__init__()
        self.pool, self.conv = nn.AdaptiveAvgPool2d(1), nn.Conv2d(c, c, 3, padding=1)
        self.fc = nn.Sequential(
            nn.Linear(c, c // r, bias=False), nn.ReLU(inplace=True), nn.Linear(c // r, c), nn.Sigmoid()
        )

    def forward(self, x):
        b, c, _, _ = x.size()
        y = self.fc(self.pool(x).view(b, c)).view(b, c, 1, 1)
        return self.conv(x) * y.expand_as(x)


@module("CBAM", IMAGE, IMAGE)
class CBAM(nn.Module):
    def __init__(self, c=4):
        super().__init__()
        self.mlp = nn.Sequential(nn.Flatten(), nn.Linear(c, 2), nn.ReLU(), nn.Linear(2, c))
        self.spatial = nn.Conv2d(2, 1, 7, padding=3, bias=False)

    def forward(self, x):
        avg = F.avg_pool2d(x, (x.size(2), x.size(3)), stride=(x.size(2), x.size(3)))
        top = F.max_pool2d(x, (x.size(2), x.size(3)), stride=(x.size(2), x.size(3)))
        scale = torch.sigmoid(self.mlp(avg) + self.mlp(top)).unsqueeze(2).unsqueeze(3).expand_as(x)
        x = x * scale
        stats = torch.cat((torch.max(x, 1)[0].unsqueeze(1), torch.mean(x, 1).unsqueeze(1)), dim=1)
        return x * torch.sigmoid(self.spatial(stats))


@module("Inception block", IMAGE, CLASSES, F.cross_entropy)
class Inception(nn.Module):
    def __init__(self):
        super().__init__()
        self.b1 = nn.Conv2d(4, 3, 1)
        self.b2 = nn.Sequential(nn.Conv2d(4, 2, 1), nn.ReLU(True), nn.Conv2d(2, 3, 3, padding=1))
        self.b3 = nn.Sequential(nn.Conv2d(4, 2, 1), nn.ReLU(True), nn.Conv2d(2, 3, 5, padding=2))
        self.b4 = nn.Sequential(nn.MaxPool2d(3, stride=1, padding=1), nn.Conv2d(4, 3, 1))
        self.fc = nn.Linear(12, 3)

    def forward(self, x):
        y = torch.cat([F.relu(branch(x)) for branch in (self.b1, self.b2, self.b3, self.b4)], 1)
        return self.fc(torch.flatten(F.adaptive_avg_pool2d(y, (1, 1)), 1))


@module("dense block", IMAGE, CLASSES, F.cross_entropy)
class Dense(nn.Module):
    def __init__(self, growth=3):
        super().__init__()
        self.layers = nn.ModuleDict()
        for i in range(3):
            c = 4 + i * growth
            self.layers[f"denselayer{i}"] = nn.Sequential(
                nn.BatchNorm2d(c), nn.ReLU(), nn.Conv2d(c, growth, 3, padding=1, bias=False)
            )
        self.classifier = nn.Linear(13, 3)

    def forward(self, x):
        features = [x]
        for _, layer in self.layers.items():
            features.append(layer(torch.cat(features, 1)))
        return self.classifier(torch.cat(features, 1).mean([2, 3]))


@module("ShuffleNet unit", IMAGE, IMAGE)
class ShuffleUnit(nn.Module):
    def __init__(self, c=4):
        super().__init__()
        h = c // 2
        self.branch = nn.Sequential(
            nn.Conv2d(h, h, 1, bias=False),
            nn.BatchNorm2d(h),
            nn.ReLU(inplace=True),
            nn.Conv2d(h, h, 3, padding=1, groups=h, bias=False),
            nn.BatchNorm2d(h),
            nn.Conv2d(h, h, 1, bias=False),
            nn.BatchNorm2d(h),
            nn.ReLU(inplace=True),
        )

    def forward(self, x):
        x1, x2 = x.chunk(2, dim=1)
        out = torch.cat((x1, self.branch(x2)), dim=1)
        b, c, h, w = out.data.size()
        return out.view(b, 2, c // 2, h, w).transpose(1, 2).contiguous().view(b, -1, h, w)


@module("Ghost module", IMAGE, real("n", 6, 8, 8))
class Ghost(nn.Module):
    def __init__(self):
        super().__init__()
        self.primary = nn.Sequential(nn.Conv2d(4, 3, 1, bias=False), nn.BatchNorm2d(3), nn.ReLU(inplace=True))
        self.cheap = nn.Sequential(
            nn.Conv2d(3, 6, 3, 1, 1, groups=3, bias=False), nn.BatchNorm2d(6), nn.ReLU(inplace=True)
        )

    def forward(self, x):
        x1 = self.primary(x)
        x2 = self.cheap(x1)
        return torch.cat([x1, x2], dim=1)[:, :6, :, :]


@module("MobileNet-v2 residual", IMAGE, IMAGE)
class InvertedResidual(nn.Module):
    def __init__(self, c=4, expand=2):
        super().__init__()
        h = c * expand
        self.conv = nn.Sequential(
            nn.Conv2d(c, h, 1, bias=False),
            nn.BatchNorm2d(h),
            nn.ReLU6(inplace=True),
            nn.Conv2d(h, h, 3, 1, 1, groups=h, bias=False),
            nn.BatchNorm2d(h),
            nn.ReLU6(inplace=True),
            nn.Conv2d(h, c, 1, bias=False),
            nn.BatchNorm2d(c),
        )

    def forward(self, x):
        return x + self.conv(x)


def drop_path(x, p, training):
    if p == 0.0 or not training:
        return x
    mask = torch.empty((x.shape[0],) + (1,) * (x.ndim - 1), dtype=x.dtype).bernoulli_(1 - p)
    return x / (1 - p) * mask


@module("EfficientNet MBConv", IMAGE, IMAGE)
class MBConv(nn.Module):
    def __init__(self, c=4, p=0.2):
        super().__init__()
        self.expand, self.depthwise = nn.Conv2d(c, 8, 1), nn.Conv2d(8, 8, 5, padding=2, groups=8)
        self.reduce, self.excite, self.project = nn.Conv2d(8, 2, 1), nn.Conv2d(2, 8, 1), nn.Conv2d(8, c, 1)
        self.bn, self.p = nn.BatchNorm2d(c, momentum=0.01, eps=1e-3), p

    def forward(self, inputs):
        x = self.depthwise(F.silu(self.expand(inputs)))
        x = x * torch.sigmoid(self.excite(F.silu(self.reduce(F.adaptive_avg_pool2d(x, 1)))))
        return drop_path(self.bn(self.project(x)), self.p, self.training) + inputs


@module("ConvNeXt block", IMAGE, IMAGE, F.smooth_l1_loss, adam)
class ConvNeXtBlock(nn.Module):
    def __init__(self, dim=4):
        super().__init__()
        self.dwconv, self.norm = nn.Conv2d(dim, dim, 7, padding=3, groups=dim), nn.LayerNorm(dim, eps=1e-6)
        self.pw1, self.act, self.pw2 = nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim)
        self.gamma = nn.Parameter(1e-1 * torch.ones(dim), requires_grad=True)

    def forward(self, x):
        residual = x
        x = self.dwconv(x).permute(0, 2, 3, 1)
        x = self.pw2(self.act(self.pw1(self.norm(x))))
        return residual + (self.gamma * x).permute(0, 3, 1, 2)


@module("ConvNeXt-v2 GRN", IMAGE, IMAGE)
class GlobalResponseNorm(nn.Module):
    def __init__(self, dim=4):
        super().__init__()
        self.conv = nn.Conv2d(dim, dim, 3, padding="same")
        self.gamma, self.beta = (
            nn.Parameter(torch.zeros(1, 1, 1, dim)),
            nn.Parameter(torch.zeros(1, 1, 1, dim)),
        )

    def forward(self, x):
        x = self.conv(x).movedim(1, -1)
        gx = torch.norm(x, p=2, dim=(1, 2), keepdim=True)
        nx = gx / (gx.mean(dim=-1, keepdim=True) + 1e-6)
        return (self.gamma * (x * nx) + self.beta + x).movedim(-1, 1)


def windows(x, size):
    b, h, w, c = x.shape
    x = x.view(b, h // size, size, w // size, size, c)
    return x.permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, size * size, c)


@module("shifted window attention", IMAGE, IMAGE)
class WindowAttention(nn.Module):
    def __init__(self, dim=4, size=4, heads=2):
        super().__init__()
        self.size, self.heads, self.scale = size, heads, (dim // heads) ** -0.5
        self.table = nn.Parameter(torch.zeros((2 * size - 1) ** 2, heads))
        grid = torch.stack(torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")).flatten(1)
        relative = (grid[:, :, None] - grid[:, None, :]).permute(1, 2, 0).contiguous() + size - 1
        self.register_buffer("index", relative[..., 0] * (2 * size - 1) + relative[..., 1])
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        nn.init.trunc_normal_(self.table, std=0.02)

    def forward(self, x):
        b, c, h, w = x.shape
        shifted = torch.roll(x.permute(0, 2, 3, 1), shifts=(-2, -2), dims=(1, 2))
        rows = windows(shifted, self.size)
        q, k, v = (
            self.qkv(rows).reshape(rows.size(0), -1, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        )
        bias = self.table[self.index.view(-1)].view(self.size**2, self.size**2, -1).permute(2, 0, 1)
        attention = (q * self.scale @ k.transpose(-2, -1) + bias.unsqueeze(0)).softmax(-1)
        y = self.proj((attention @ v).transpose(1, 2).reshape(rows.size(0), -1, c))
        y = y.view(b, h // self.size, w // self.size, self.size, self.size, c).permute(0, 1, 3, 2, 4, 5)
        return torch.roll(y.reshape(b, h, w, c), (2, 2), (1, 2)).permute(0, 3, 1, 2)


@module("Mixer block", real("n", 6, 8), real("n", 6, 8))
class MixerBlock(nn.Module):
    def __init__(self, tokens=6, dim=8):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.tokens = nn.Sequential(nn.Linear(tokens, 8), nn.GELU(), nn.Linear(8, tokens))
        self.channels = nn.Sequential(nn.Linear(dim, 16), nn.GELU(), nn.Linear(16, dim))

    def forward(self, x):
        x = x + self.tokens(self.n1(x).mT).mT
        return x + self.channels(self.n2(x))


@module("ConvMixer", real("n", 3, 8, 8), CLASSES, nn.CrossEntropyLoss(label_smoothing=0.1))
def conv_mixer(dim=6, depth=2):
    class Residual(nn.Module):
        def __init__(self, fn):
            super().__init__()
            self.fn = fn

        def forward(self, x):
            return self.fn(x) + x

    return nn.Sequential(
        nn.Conv2d(3, dim, kernel_size=2, stride=2),
        nn.GELU(),
        nn.BatchNorm2d(dim),
        *[
            nn.Sequential(
                Residual(
                    nn.Sequential(
                        nn.Conv2d(dim, dim, 3, groups=dim, padding="same"), nn.GELU(), nn.BatchNorm2d(dim)
                    )
                ),
                nn.Conv2d(dim, dim, 1),
                nn.GELU(),
                nn.BatchNorm2d(dim),
            )
            for _ in range(depth)
        ],
        nn.AdaptiveAvgPool2d((1, 1)),
        nn.Flatten(),
        nn.Linear(dim, 3),
    )
