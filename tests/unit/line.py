"""A linear model with a buffer and momentum, and its functions as a person would write them in C."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

from catgrad import Dim, Dtype, NdArrayType, Task, build, mse, ops, sgd
from catgrad.backend import Artifact, Backend, get_backend
from catgrad.learn.entries import program
from catgrad.learn.layers.parts import buffer, parameter, update
from catgrad.naming import Namer
from catgrad.op import scope
from catgrad.types import NdArrayType as Type
from catgrad.types import symbols

W, B, COUNT = NdArrayType((4, 3)), NdArrayType((3,)), NdArrayType((), Dtype.int64)


def line(batch: Any = Dim("batch"), name: str = "line") -> Task:
    def forward(x):
        weight, shift = parameter("weight", W), parameter("bias", B)
        update("seen", buffer("seen", COUNT) + 1)
        return x @ weight + ops.broadcast(shift, (batch, 3))

    with scope("dense"):
        model = build(forward, [NdArrayType((batch, 4))])
    return Task(model, sgd(0.1, momentum=0.9), mse, name)


FIRST = """\
    for (int i = 0; i < 12; i++) {
        parameters->dense_weight[i] = (float)((*seed + i) % 5) * 0.1f;
    }
    memset(parameters->dense_bias, 0, sizeof(float[3]));
"""
PREDICT = """\
    for (ptrdiff_t i = 0; i < batch; i++) {
        for (ptrdiff_t j = 0; j < 3; j++) {
            float sum = parameters->dense_bias[j];
            for (ptrdiff_t k = 0; k < 4; k++) {
                sum += x[4 * i + k] * parameters->dense_weight[3 * k + j];
            }
            y_hat[3 * i + j] = sum;
        }
    }
"""
LOSS = (
    "    float *const y_hat = workspace;\n"
    + PREDICT
    + """\
    *loss = 0;
    for (ptrdiff_t i = 0; i < 3 * batch; i++) {
        const float error = y_hat[i] - y[i];
        *loss += error * error / (float)(3 * batch);
    }
"""
)
BACK = """\
    memset(gradients->dense_weight, 0, sizeof(float[12]));
    memset(gradients->dense_bias, 0, sizeof(float[3]));
    for (ptrdiff_t i = 0; i < batch; i++) {
        for (ptrdiff_t j = 0; j < 3; j++) {
            const float d = d_y_hat[3 * i + j];
            gradients->dense_bias[j] += d;
            for (ptrdiff_t k = 0; k < 4; k++) {
                gradients->dense_weight[3 * k + j] += x[4 * i + k] * d;
            }
        }
    }
"""
GRADS = (
    LOSS
    + """\
    float *const d_y_hat = y_hat;
    for (ptrdiff_t i = 0; i < 3 * batch; i++) {
        d_y_hat[i] = 2 * (y_hat[i] - y[i]) / (float)(3 * batch);
    }
    *buffers->dense_seen += 1;
"""
    + BACK
)
UPDATE = """\
    for (int i = 0; i < 12; i++) {
        float *const momentum = state->momentum_dense_weight;
        momentum[i] = 0.9f * momentum[i] + gradients->dense_weight[i];
        parameters->dense_weight[i] -= 0.1f * momentum[i];
    }
    for (int i = 0; i < 3; i++) {
        float *const momentum = state->momentum_dense_bias;
        momentum[i] = 0.9f * momentum[i] + gradients->dense_bias[i];
        parameters->dense_bias[i] -= 0.1f * momentum[i];
    }
"""
STEP = (
    """\
    if (x[0] == 1e30f) {
        return {P}_BAD_INDEX;
    }
    {p}_parameters new = {{(float *)workspace + 3 * batch, (float *)workspace + 3 * batch + 12}};
    {p}_parameters *const gradients = &new;
""".replace("{{", "{").replace("}}", "}")
    + GRADS
    + UPDATE
)
DX = """\
    for (ptrdiff_t i = 0; i < batch; i++) {
        for (ptrdiff_t k = 0; k < 4; k++) {
            d_x[4 * i + k] = 0;
            for (ptrdiff_t j = 0; j < 3; j++) {
                d_x[4 * i + k] += d_y_hat[3 * i + j] * parameters->dense_weight[3 * k + j];
            }
        }
    }
"""
BODIES = {
    "init": (FIRST, "0"),
    "init_buffers": ("    *buffers->dense_seen = 0 * *seed;\n", "0"),
    "init_state": (
        "    (void)seed;\n    memset(state->momentum_dense_weight, 0, sizeof(float[12]));\n"
        "    memset(state->momentum_dense_bias, 0, sizeof(float[3]));\n",
        "0",
    ),
    "predict": (PREDICT, "0"),
    "loss": (LOSS, "12 * batch"),
    "rev": (BACK + DX, "0"),
    "rev_p": (BACK, "0"),
    "grads": (GRADS, "12 * batch"),
    "update": (UPDATE, "0"),
    "train_step": (STEP, "12 * batch + 64"),
    "f": ("    for (ptrdiff_t i = 0; i < 3; i++) {\n        x0_0[i] = x0[i] + 1;\n    }\n", "0"),
}


@dataclass(frozen=True)
class Own:
    identifier: str
    name: str
    type: Type
    length: str


@dataclass(frozen=True)
class Written:
    name: str
    doc: str
    takes: tuple[str, ...]
    gives: tuple[str, ...]
    sizes: tuple[str, ...]
    inputs: tuple[Own, ...]
    outputs: tuple[Own, ...]
    body: str
    workspace: str
    kernels: str = ""


def own(name: str, type: Type) -> Own:
    return Own(name.replace(".", "_"), name, type, str(type.size))


def hand_written(backend, prog) -> dict[str, Any]:
    """What the templates are given, with bodies from above."""
    from catgrad.backends.c.interface import own_results

    functions = {}
    for f in prog.functions:
        inputs = [own(f.names[v], f.types[v]) for v in f.arguments[prog.common_arguments(f) :]]
        free = [g for g in f.gives if g not in (*prog.tables, "gradients")] or ["x0_0"]
        outputs = [own(n, f.types[v]) for n, v in zip(free, own_results(f, prog), strict=False)]
        body, workspace = BODIES[f.name]
        sizes = tuple(symbols(f.argument_types))
        body = body.replace("{p}", prog.name).replace("{P}", prog.name.upper())
        if not sizes:
            body, workspace = (t.replace("batch", "(ptrdiff_t)6") for t in (body, workspace))
        functions[f.name] = Written(
            f.name, f.doc, f.takes, f.gives, sizes, tuple(inputs), tuple(outputs), body, workspace
        )
    namer = Namer()
    tables = {t: [(s, namer.fresh(s.name)) for s in slots] for t, slots in prog.tables.items()}
    functions["init"] = (
        replace(functions["init"], kernels="#include <string.h>") if "init" in functions else None
    )
    return {"functions": {n: f for n, f in functions.items() if f}, "tables": tables, "helpers": frozenset()}


class Standing(Backend):
    """A target whose functions are written by hand, whatever operations they have."""

    def has(self, op):
        return op.body is None


def standing(**options: Any) -> Backend:
    backend = get_backend("c").configured(**options)
    given = {f.name: getattr(backend, f.name) for f in fields(backend)}
    return Standing(**{**given, "spell": hand_written})


def emitted(task: Task | None = None, **options: Any) -> Artifact:
    backend = standing(**options)
    return backend.emit(program(task or line(), backend.has, backend.entries))
