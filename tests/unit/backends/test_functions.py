"""Several functions of one program, which share parameters, and carry state between calls in a sprite."""

from __future__ import annotations

import numpy as np
import pytest
from catgrad.backends.scratch.machine.projects import Machine
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from catgrad import Dim, Dtype, Functions, NdArrayType, Task, build, emit, layers, mse, ops, sgd, verify
from catgrad.cli import main
from catgrad.errors import OptionError, TermError
from catgrad.initialisers import Filled, Uniform
from catgrad.programs.ports import Role
from tests.scratch.machines import on_machines
from tests.targets import on_all_targets

SIZE, WIDTH = 2, 3
X, H, ONE = NdArrayType((SIZE,)), NdArrayType((WIDTH,)), NdArrayType((1,))
WEIGHT = NdArrayType((SIZE + WIDTH, WIDTH))


def hidden():
    return layers.buffer("h", H, Filled(0.5))


def listen(x):
    """h ← tanh([x, h] W)."""
    h = ops.tanh(ops.concat([x, hidden()], 0) @ layers.parameter("w", WEIGHT, Uniform(-1, 1)))
    layers.update("h", h)
    return h


def answer(scale):
    """Return two results of h, without an update."""
    h = hidden()
    return ops.sum(h, 0), h * ops.broadcast(ops.reshape(scale), h.shape)


def functions():
    return Functions({"listen": build(listen, [X]), "answer_now": build(answer, [ONE])}, "rnn")


class Reference:
    """The same functions in NumPy, with state."""

    def __init__(self, weights):
        self.model = emit(functions(), "numpy").load()()
        self.weights, self.h = weights, np.full(WIDTH, 0.5, np.float32)

    def listen(self, x):
        self.h, out = self.model.listen(self.h, self.weights, np.float32(x))
        return [out]

    def answer_now(self, scale):
        return self.model.answer_now(self.h, np.float32(scale))

    def forget(self):
        self.h = np.full(WIDTH, 0.5, np.float32)


@pytest.fixture(scope="module")
def sprite():
    weights = {"w": np.random.default_rng(0).normal(size=WEIGHT.shape).astype(np.float32)}

    def loaded(vm, **options):
        artifact = emit(functions(), "scratch", weights=weights, **options)
        machine = Machine(vm)
        machine.load(artifact.files["rnn.sb3"])
        return machine, Reference(weights["w"]), artifact

    return loaded


def ask(machine, block, numbers):
    machine.set_list("input", numbers)
    machine.call(block)
    return str(machine.variable("error"))


@on_all_targets
def test_every_target_computes_functions(target):
    artifact = emit(functions(), target)
    verification = verify(artifact)
    verification.check()
    own = {each.function for each in verification.comparisons if not each.function.startswith("init")}
    assert own == {"listen", "answer_now"}


def test_functions_share_parameters_and_buffers_by_name():
    both = functions()
    assert [slot.name for slot in both.parameters] == ["w"]
    assert [slot.name for slot in both.buffers] == ["h"]
    program = emit(both).reference
    h, w = (Role.BUFFER, "h"), (Role.PARAMETER, "w")
    ports = [[[(p.role, p.name) for p in side] for side in (f.inputs, f.outputs)] for f in program.functions]
    assert ports[2:] == [
        [[h, w, (Role.INPUT, "x")], [h, (Role.OUTPUT, "y_hat")]],
        [[h, (Role.INPUT, "x")], [(Role.OUTPUT, "y_hat_0"), (Role.OUTPUT, "y_hat_1")]],
    ]


finite = st.floats(-2, 2, width=32)
calls = st.one_of(
    st.tuples(st.just("listen"), st.lists(finite, min_size=SIZE, max_size=SIZE)),
    st.tuples(st.just("answer now"), st.lists(finite, min_size=1, max_size=1)),
    st.tuples(st.just("forget"), st.just([])),
)


@pytest.mark.covering
@on_machines
@pytest.mark.parametrize("storage", ["numbers", "packed"])
@given(said=st.lists(calls, min_size=1, max_size=8))
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_sprite_carries_state_between_calls(sprite, vm, storage, said):
    machine, reference, _ = sprite(vm, storage=storage)
    for block, numbers in said:
        assert ask(machine, block, numbers) == ""
        if block == "forget":
            reference.forget()
            continue
        wanted = getattr(reference, block.replace(" ", "_"))(numbers)
        names = ["output", "output_1"][: len(wanted)]
        for name, each in zip(names, wanted, strict=True):
            np.testing.assert_allclose(machine.array(name), np.ravel(each), rtol=1e-5, atol=1e-6)


@on_machines
def test_messages_are_equivalent_to_blocks(sprite, vm):
    machine, reference, _ = sprite(vm)
    machine.set_list("input", [1, -1])
    for _ in range(2):
        machine.broadcast("listen")
        [wanted] = reference.listen([1, -1])
    np.testing.assert_allclose(machine.array("output"), wanted, rtol=1e-5)
    machine.broadcast("forget")
    assert machine.list("h") == [0.5] * WIDTH


@pytest.mark.covering
@on_machines
@pytest.mark.parametrize("wrong", [[1], [1, 2, 3], [1, "two"], [1, "Infinity"]])
def test_state_is_unchanged_after_an_invalid_input(sprite, vm, wrong):
    machine, _, _ = sprite(vm)
    assert ask(machine, "listen", [1, 2]) == ""
    before = machine.list("h"), machine.list("output")
    assert "input must have" in ask(machine, "listen", wrong)
    assert (machine.list("h"), machine.list("output")) == before


@on_machines
def test_a_saved_project_resumes(sprite, vm):
    machine, reference, _ = sprite(vm)
    ask(machine, "listen", [1, 2])
    reference.listen([1, 2])
    machine.load(machine.save())
    ask(machine, "listen", [-1, 0.5])
    np.testing.assert_allclose(machine.array("output"), reference.listen([-1, 0.5])[0], rtol=1e-5)


@on_machines
def test_keys_and_values_are_cached_and_cleared(vm):
    """Position by position, attention with a cache agrees with causal attention, also after forget."""
    tokens, width = 3, NdArrayType((4,))
    x = np.random.default_rng(0).normal(size=(tokens, 4)).astype(np.float32)
    whole = layers.attention(NdArrayType((1, tokens)), width, 2, causal=True)
    turn = layers.attention(NdArrayType((1, 1)), width, 2, memory=tokens)
    model = emit(Task(whole, sgd(0.1), mse), "numpy").load()()
    weights = model.init(0)
    [wanted] = model.predict(*weights, x[None])
    both = Functions({"attend": turn}, "attention")
    arrays = {slot.name: array for slot, array in zip(both.parameters, weights, strict=True)}
    artifact = emit(both, "scratch", weights=arrays)
    machine = Machine(vm)
    machine.load(artifact.files["attention.sb3"])
    for _ in range(2):
        for row, expected in zip(x, wanted[0], strict=True):
            assert ask(machine, "attend", row) == ""
            np.testing.assert_allclose(machine.array("output"), expected, rtol=1e-4, atol=1e-5)
        machine.call("forget")


def test_a_model_without_state_has_no_block_forget():
    double = Functions({"double": build(lambda x: x + x, [X])})
    artifact = emit(double, "scratch")
    assert "define double" in artifact.source
    assert "forget" not in artifact.source


def test_inputs_of_each_kind_are_validated():
    """Integer inputs are validated, even if a float input has a list of the same name and size."""
    whole = NdArrayType((SIZE,), Dtype.int64)
    terms = {"numbers": build(lambda x: x + x, [X]), "whole": build(lambda x: x + x, [whole])}
    machine = Machine()
    machine.load(emit(Functions(terms, "kinds"), "scratch").files["kinds.sb3"])
    assert ask(machine, "numbers", [0.5, 1]) == ""
    assert "input must have whole numbers, but item 1 is 0.5" in ask(machine, "whole", [0.5, 1])
    assert ask(machine, "whole", [2, 1]) == ""
    assert machine.list("output") == [4, 2]


def count_up():
    n = layers.buffer("count", NdArrayType(()))
    layers.update("count", n + 1)
    return []


@on_machines
def test_a_function_may_update_state_without_results(vm):
    machine = Machine(vm)
    machine.load(
        emit(Functions({"count_up": build(count_up, [])}, "counter"), "scratch").files["counter.sb3"]
    )
    for block in ("count up", "count up", "forget", "count up", "count up", "count up"):
        machine.call(block)
    assert machine.variable("count") == 3


def test_the_command_line_takes_functions(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["verify", "tests.unit.backends.test_functions:functions"])
    assert ended.value.code == 0
    assert "answer_now" in capsys.readouterr().out


def test_a_sprite_fixes_a_symbolic_batch():
    rows = NdArrayType((Dim("batch"), SIZE))
    double = Functions({"double": build(lambda x: x + x, [rows])}, "double")
    verify(emit(double, "scratch", predict_batch=4)).check()


def dropped(x):
    h = listen(x)
    return layers.dropout(H, 0.5).apply(h)[0]


REFUSED = {
    "no terms": (lambda: Functions({}), "functions must be terms by name"),
    "too few names": (
        lambda: Functions({"listen": build(listen, [X])}, names={"listen": ([], ["heard"])}),
        "'listen' has 1 and",
    ),
    "names of no term": (
        lambda: Functions({"listen": build(listen, [X])}, names={"hear": (["x"], ["y"])}),
        "'hear' has no term",
    ),
    "no mapping": (lambda: Functions([build(listen, [X])]), "functions must be terms by name"),
    "no term": (lambda: Functions({"listen": listen}), "'listen' is <function"),
    "a name of ours": (lambda: Functions({"forget": build(listen, [X])}), "one is 'forget'"),
    "a first value": (lambda: Functions({"initial": build(listen, [X])}), "none that begins with init"),
    "dropout": (lambda: Functions({"f": build(dropped, [X])}), "neither dropout nor batch norm, but 'f'"),
}


@pytest.mark.parametrize(("make", "message"), REFUSED.values(), ids=REFUSED)
def test_invalid_functions_are_refused(make, message):
    with pytest.raises(OptionError, match=message):
        make()


def test_two_arrays_of_one_name_are_refused():
    terms = {"listen": build(listen, [X]), "other": build(lambda: layers.buffer("h", X), [])}
    with pytest.raises(TermError, match=r"'h' is f32\[3\] in one and f32\[2\] in another"):
        Functions(terms)


def test_a_module_is_made_of_a_task():
    with pytest.raises(OptionError, match="a module must be made of a Task, but rnn is Functions"):
        emit(functions(), "torch-module")


@pytest.mark.parametrize("option", [{"classes": ("a", "b", "c")}, {"features": ("a", "b")}])
def test_functions_have_distinct_names(option):
    with pytest.raises(OptionError, match="must be for one function, but there are listen, answer now"):
        emit(functions(), "scratch", **option)
