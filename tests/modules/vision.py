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
        self.fc = nn.Sequential(nn.Linear(c, c // r, bias=False), nn.ReLU(inplace=True), nn.Linear(c // r, c), nn.Sigmoid())

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
            self.layers[f"denselayer{i}"] = nn.Sequential(nn.BatchNorm2d(c), nn.ReLU(), nn.Conv2d(c, growth, 3, padding=1, bias=False))
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
            nn.Conv2d(h, h, 1, bias=False), nn.BatchNorm2d(h), nn.ReLU(inplace=True),
            nn.Conv2d(h, h, 3, padding=1, groups=h, bias=False), nn.BatchNorm2d(h),
            nn.Conv2d(h, h, 1, bias=False), nn.BatchNorm2d(h), nn.ReLU(inplace=True),
        )  # fmt: skip

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
        self.cheap = nn.Sequential(nn.Conv2d(3, 6, 3, 1, 1, groups=3, bias=False), nn.BatchNorm2d(6), nn.ReLU(inplace=True))

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
            nn.Conv2d(c, h, 1, bias=False), nn.BatchNorm2d(h), nn.ReLU6(inplace=True),
            nn.Conv2d(h, h, 3, 1, 1, groups=h, bias=False), nn.BatchNorm2d(h), nn.ReLU6(inplace=True),
            nn.Conv2d(h, c, 1, bias=False), nn.BatchNorm2d(c),
        )  # fmt: skip

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
        self.gamma, self.beta = nn.Parameter(torch.zeros(1, 1, 1, dim)), nn.Parameter(torch.zeros(1, 1, 1, dim))

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
        q, k, v = self.qkv(rows).reshape(rows.size(0), -1, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
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
        nn.Conv2d(3, dim, kernel_size=2, stride=2), nn.GELU(), nn.BatchNorm2d(dim),
        *[
            nn.Sequential(
                Residual(nn.Sequential(nn.Conv2d(dim, dim, 3, groups=dim, padding="same"), nn.GELU(), nn.BatchNorm2d(dim))),
                nn.Conv2d(dim, dim, 1), nn.GELU(), nn.BatchNorm2d(dim),
            )
            for _ in range(depth)
        ],
        nn.AdaptiveAvgPool2d((1, 1)), nn.Flatten(), nn.Linear(dim, 3),
    )  # fmt: skip


@module("ESPCN super-resolution", real("n", 1, 5, 5), real("n", 1, 10, 10))
class ESPCN(nn.Module):
    def __init__(self, upscale=2):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 6, 5, 1, 2), nn.Conv2d(6, upscale**2, 3, 1, 1)
        self.pixel_shuffle = nn.PixelShuffle(upscale)
        nn.init.orthogonal_(self.conv1.weight, nn.init.calculate_gain("relu"))

    def forward(self, x):
        base = F.interpolate(x, scale_factor=2, mode="bicubic", align_corners=False)
        return self.pixel_shuffle(self.conv2(torch.relu(self.conv1(x)))) + base


@module("attention U-Net gate", (real("n", 4, 4, 4), real("n", 4, 8, 8)), real("n", 1, 8, 8), F.mse_loss)
class AttentionGate(nn.Module):
    def __init__(self):
        super().__init__()
        self.wg = nn.Sequential(nn.Conv2d(4, 3, 1), nn.BatchNorm2d(3))
        self.wx = nn.Sequential(nn.Conv2d(4, 3, 2, stride=2), nn.BatchNorm2d(3))
        self.psi = nn.Sequential(nn.Conv2d(3, 1, 1), nn.Sigmoid())
        self.up, self.out = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True), nn.Conv2d(8, 1, 1)

    def forward(self, gate, skip):
        alpha = self.psi(F.relu(self.wg(gate) + self.wx(skip), inplace=True))
        return self.out(torch.cat((self.up(gate), skip * self.up(alpha)), 1))


@module("residual U-Net with padding", real("n", 2, 10, 10), whole(3, "n", 10, 10), F.cross_entropy)
class ResidualUNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down, self.mid = nn.Conv2d(2, 4, 3, stride=2, padding=1), nn.Conv2d(4, 8, 3, stride=2, padding=1)
        self.up = nn.ConvTranspose2d(8, 4, 2, stride=2)
        self.last = nn.Conv2d(4 + 4, 3, 3, padding=1)

    def forward(self, x):
        a = F.leaky_relu(self.down(x), 0.1)
        b = self.up(F.leaky_relu(self.mid(a), 0.1))
        dy, dx = a.size(2) - b.size(2), a.size(3) - b.size(3)
        b = F.pad(b, [dx // 2, dx - dx // 2, dy // 2, dy - dy // 2])
        y = self.last(torch.cat([a, b], dim=1))
        return F.interpolate(y, size=x.shape[2:], mode="nearest")


@module("ASPP head", IMAGE, whole(3, "n", 8, 8), nn.CrossEntropyLoss(ignore_index=2))
class ASPP(nn.Module):
    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList([nn.Conv2d(4, 3, 3, padding=r, dilation=r) for r in (1, 2, 3)])
        self.image, self.project = nn.Conv2d(4, 3, 1), nn.Conv2d(12, 3, 1)

    def forward(self, x):
        size = x.shape[-2:]
        pooled = F.interpolate(self.image(x.mean((-2, -1), keepdim=True)), size=size, mode="bilinear", align_corners=False)
        return self.project(torch.cat([*(conv(x) for conv in self.convs), pooled], dim=1))


@module("feature pyramid", real("n", 3, 8, 8), (real("n", 4, 8, 8), real("n", 4, 4, 4)), lambda p, q, a, b: F.l1_loss(p, a) + F.l1_loss(q, b))
class FeaturePyramid(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1, self.c2 = nn.Conv2d(3, 4, 3, 1, 1), nn.Conv2d(4, 6, 3, 2, 1)
        self.lateral = nn.ModuleDict({"c1": nn.Conv2d(4, 4, 1), "c2": nn.Conv2d(6, 4, 1)})

    def forward(self, x):
        c1 = self.c1(x)
        c2 = self.c2(F.relu(c1))
        p2 = self.lateral["c2"](c2)
        p1 = self.lateral["c1"](c1) + F.interpolate(p2, scale_factor=2)
        return {"p1": p1, "p2": p2}


@module("spatial transformer", real("n", 1, 8, 8), CLASSES, F.nll_loss)
class SpatialTransformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.localization = nn.Sequential(nn.Conv2d(1, 4, 3), nn.MaxPool2d(2, stride=2), nn.ReLU(True))
        self.fc_loc, self.fc = nn.Linear(4 * 3 * 3, 6), nn.Linear(64, 3)
        self.fc_loc.weight.data.mul_(0.1)
        self.fc_loc.bias.data.copy_(torch.tensor([1, 0, 0, 0, 1, 0], dtype=torch.float))

    def forward(self, x):
        theta = self.fc_loc(self.localization(x).view(-1, 4 * 3 * 3)).view(-1, 2, 3)
        grid = F.affine_grid(theta, x.size(), align_corners=False)
        return F.log_softmax(self.fc(F.grid_sample(x, grid, align_corners=False).flatten(1)), dim=1)


@module("dynamic convolution", IMAGE, IMAGE)
class DynamicConv(nn.Module):
    def __init__(self, c=4, k=3):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(k, c, c, 3, 3) * 0.2)
        self.router = nn.Linear(c, k)

    def forward(self, x):
        b, c, h, w = x.shape
        gates = torch.softmax(self.router(x.mean(dim=(2, 3))) / 4.0, dim=1)
        weight = torch.einsum("bk,koihw->boihw", gates, self.weight).reshape(b * c, c, 3, 3)
        return F.conv2d(x.reshape(1, b * c, h, w), weight, padding=1, groups=b).reshape(b, c, h, w)


@module("blur pool", IMAGE, real("n", 4, 4, 4))
class BlurPool(nn.Module):
    def __init__(self, c=4):
        super().__init__()
        a = torch.tensor([1.0, 2.0, 1.0])
        kernel = a[:, None] * a[None, :]
        self.register_buffer("filt", (kernel / kernel.sum())[None, None].repeat(c, 1, 1, 1))
        self.conv, self.pad = nn.Conv2d(c, c, 1), nn.ReflectionPad2d(1)

    def forward(self, x):
        return F.conv2d(self.pad(self.conv(x)), self.filt, stride=2, groups=x.shape[1])


@module("coordinate convolution", IMAGE, IMAGE)
class CoordConv(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(4 + 2, 4, 3, padding=1)

    def forward(self, x):
        n, _, h, w = x.shape
        ys = torch.linspace(-1, 1, h, device=x.device).view(1, 1, h, 1).expand(n, 1, h, w)
        xs = torch.linspace(-1, 1, w, device=x.device).view(1, 1, 1, w).expand(n, 1, h, w)
        return self.conv(torch.cat([x, ys, xs], dim=1))


@module("octave convolution", IMAGE, (real("n", 2, 8, 8), real("n", 2, 4, 4)), lambda h, l, a, b: F.mse_loss(h, a) + F.mse_loss(l, b))
class OctaveConv(nn.Module):
    def __init__(self):
        super().__init__()
        self.hh, self.hl = nn.Conv2d(4, 2, 3, padding=1), nn.Conv2d(4, 2, 3, padding=1)
        self.lh, self.ll = nn.Conv2d(4, 2, 3, padding=1), nn.Conv2d(4, 2, 3, padding=1)

    def forward(self, x):
        low = F.avg_pool2d(x, 2)
        return self.hh(x) + F.interpolate(self.lh(low), scale_factor=2), self.ll(low) + self.hl(F.avg_pool2d(x, 2))


@module("NetVLAD", IMAGE, real("n", 12))
class NetVLAD(nn.Module):
    def __init__(self, clusters=3, dim=4):
        super().__init__()
        self.conv, self.centroids = nn.Conv2d(dim, clusters, 1), nn.Parameter(torch.rand(clusters, dim))

    def forward(self, x):
        n, c = x.shape[:2]
        x = F.normalize(x, p=2, dim=1)
        assign = F.softmax(self.conv(x).view(n, 3, -1), dim=1)
        flat = x.view(n, c, -1)
        residual = flat.expand(3, -1, -1, -1).permute(1, 0, 2, 3) - self.centroids.expand(flat.size(-1), -1, -1).permute(1, 2, 0).unsqueeze(0)
        vlad = F.normalize((residual * assign.unsqueeze(2)).sum(dim=-1), p=2, dim=2)
        return F.normalize(vlad.view(n, -1), p=2, dim=1)
