"""Images from images: resolution, segmentation, pyramids, warps."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="PyTorch, the other side of the comparison, is not installed")

from tests.modules.records import module, real, whole  # noqa: E402

nn, F = torch.nn, torch.nn.functional
IMAGE, CLASSES = real("n", 4, 8, 8), whole(3, "n")


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
        self.up, self.out = (
            nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True),
            nn.Conv2d(8, 1, 1),
        )

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
        pooled = F.interpolate(
            self.image(x.mean((-2, -1), keepdim=True)), size=size, mode="bilinear", align_corners=False
        )
        return self.project(torch.cat([*(conv(x) for conv in self.convs), pooled], dim=1))


@module(
    "feature pyramid",
    real("n", 3, 8, 8),
    (real("n", 4, 8, 8), real("n", 4, 4, 4)),
    lambda p, q, a, b: F.l1_loss(p, a) + F.l1_loss(q, b),
)
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


@module(
    "octave convolution",
    IMAGE,
    (real("n", 2, 8, 8), real("n", 2, 4, 4)),
    lambda h, l, a, b: F.mse_loss(h, a) + F.mse_loss(l, b),
)
class OctaveConv(nn.Module):
    def __init__(self):
        super().__init__()
        self.hh, self.hl = nn.Conv2d(4, 2, 3, padding=1), nn.Conv2d(4, 2, 3, padding=1)
        self.lh, self.ll = nn.Conv2d(4, 2, 3, padding=1), nn.Conv2d(4, 2, 3, padding=1)

    def forward(self, x):
        low = F.avg_pool2d(x, 2)
        return self.hh(x) + F.interpolate(self.lh(low), scale_factor=2), self.ll(low) + self.hl(
            F.avg_pool2d(x, 2)
        )


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
        residual = flat.expand(3, -1, -1, -1).permute(1, 0, 2, 3) - self.centroids.expand(
            flat.size(-1), -1, -1
        ).permute(1, 2, 0).unsqueeze(0)
        vlad = F.normalize((residual * assign.unsqueeze(2)).sum(dim=-1), p=2, dim=2)
        return F.normalize(vlad.view(n, -1), p=2, dim=1)
