"""The structure of a module: paths of arrays in submodules, and helpers of the templates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from keyword import iskeyword

from catgrad.backend import Backend
from catgrad.errors import OptionError
from catgrad.printing.statements import FunctionText
from catgrad.programs.ports import Kind
from catgrad.programs.program import Program
from catgrad.terms.state import Slot

from .options import class_name_of

_ATTRIBUTES = """
T_destination add_module apply bfloat16 buffers call_super_init children compile cpu cuda double
dump_patches eval extra_repr float forward get_buffer get_extra_state get_parameter get_submodule half
ipu load_state_dict modules mtia named_buffers named_children named_modules named_parameters parameters
predict register_backward_hook register_buffer register_forward_hook register_forward_pre_hook
register_full_backward_hook register_full_backward_pre_hook register_load_state_dict_post_hook
register_load_state_dict_pre_hook register_module register_parameter register_state_dict_post_hook
register_state_dict_pre_hook requires_grad_ set_extra_state set_submodule share_memory state_dict to
to_empty train trained training type xpu zero_grad
"""
TAKEN = frozenset(_ATTRIBUTES.split())
"""Attributes of every torch.nn.Module."""


def path(name: str) -> list[tuple[str, bool]]:
    """Return the parts of a dotted name, each with whether it is a Python attribute."""
    return [(part, part.isidentifier() and not iskeyword(part)) for part in name.split(".")]


def prefixes(name: str) -> list[str]:
    """Return the dotted names of the enclosing modules, outermost first."""
    parts = name.split(".")
    return [".".join(parts[:i]) for i in range(1, len(parts))]


def containers(slots: Sequence[Slot], present: Sequence[Slot] = ()) -> list[str]:
    """Return the submodules that these slots need, outermost first, without duplicates and without those of
    the slots present.
    """
    known = {prefix for slot in present for prefix in prefixes(slot.name)}
    return list(dict.fromkeys(p for slot in slots for p in prefixes(slot.name) if p not in known))


def check_names(slots: Iterable[Slot]) -> None:
    """Raise OptionError unless a module can hold arrays of these names."""
    names = [slot.name for slot in slots]
    inside = {prefix for name in names for prefix in prefixes(name)}
    for name in names:
        taken = [part for part in name.split(".") if part in TAKEN or part.startswith("_")]
        if taken or name in inside or names.count(name) > 1:
            what = f"one of {name!r} is {taken[0]!r}" if taken else f"{name!r} is used twice"
            raise OptionError(
                "the parts of a name must be no attributes of torch.nn.Module, and occur once",
                what,
                "give the layer or the parameter another name",
            )


def class_name(backend: Backend, program: Program) -> str:
    """Return the name of the emitted class: the option, or the program's name in CamelCase."""
    return backend.options.class_name or class_name_of(program.name)


def is_modeless(kinds: Mapping[Kind, FunctionText]) -> bool:
    """Return whether the model is the same in training and evaluation."""
    trained, used = kinds[Kind.TRAINED], kinds[Kind.PREDICT]
    return (trained.statements, trained.results) == (used.statements, used.results)


def renewed(function: FunctionText, buffers: Sequence[Slot]) -> list[tuple[str, str]]:
    """Return each updated buffer, as its text and that of the new value."""
    kept = {argument.name: argument.identifier for argument in function.arguments}
    pairs = [(kept[slot.name], new) for slot, new in zip(buffers, function.results, strict=False)]
    return [(old, new) for old, new in pairs if old != new]
