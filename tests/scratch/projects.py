"""Small Scratch projects, written as nested blocks."""

from __future__ import annotations

import io
import json
import zipfile
from itertools import count

from catgrad.backends import templates

IMAGE = "cd21514d0531fdffb22204e0ec5ed84a"
SPRITE = {
    "isStage": False, "name": "Sprite", "variables": {}, "lists": {}, "broadcasts": {}, "blocks": {},
    "comments": {}, "currentCostume": 0, "sounds": [], "volume": 100, "layerOrder": 1, "visible": True,
    "x": 0, "y": 0, "size": 100, "direction": 90, "draggable": False, "rotationStyle": "all around",
    "costumes": [{"name": "costume", "assetId": IMAGE, "dataFormat": "svg", "md5ext": f"{IMAGE}.svg",
                  "rotationCenterX": 0, "rotationCenterY": 0}],
}  # fmt: skip
COSTUME = b'<svg version="1.1" width="2" height="2" viewBox="-1 -1 2 2" xmlns="http://www.w3.org/2000/svg"/>'


def block(opcode, fields=None, **inputs):
    """Return a block with its fields (names of variables and lists are also their ids) and inputs."""
    return {
        "opcode": opcode,
        "fields": {name: [it, it] for name, it in (fields or {}).items()},
        "inputs": inputs,
    }


def variable(name):
    return block("data_variable", {"VARIABLE": name})


def set_to(name, value):
    return block("data_setvariableto", {"VARIABLE": name}, VALUE=value)


def item(name, index):
    return block("data_itemoflist", {"LIST": name}, INDEX=index)


def length(name):
    return block("data_lengthoflist", {"LIST": name})


def add(name, value):
    return block("data_addtolist", {"LIST": name}, ITEM=value)


def binary(operator, x, y):
    names = ("OPERAND1", "OPERAND2") if operator in ("lt", "gt", "equals") else ("NUM1", "NUM2")
    return block(f"operator_{operator}", **dict(zip(names, (x, y), strict=True)))


def function(name, x):
    return block("operator_mathop", {"OPERATOR": name}, NUM=x)


def broadcast(message):
    named = block("event_broadcast_menu", {"BROADCAST_OPTION": message}) | {"shadow": True}
    return block("event_broadcastandwait", BROADCAST_INPUT=named)


def repeat(times, *body):
    return block("control_repeat", TIMES=times, SUBSTACK=list(body))


def forever(*body):
    return block("control_forever", SUBSTACK=list(body))


def when_flag():
    return block("event_whenflagclicked")


def when_received(message):
    return block("event_whenbroadcastreceived", {"BROADCAST_OPTION": message})


def argument(name):
    return block("argument_reporter_string_number", {"VALUE": name})


def define(proccode, *arguments):
    """Return the head of a custom block; the names of arguments are also their ids."""
    prototype = block("procedures_prototype") | {"shadow": True, "mutation": {
        "tagName": "mutation", "children": [], "proccode": proccode, "warp": "true",
        "argumentids": json.dumps(arguments), "argumentnames": json.dumps(arguments),
        "argumentdefaults": json.dumps([""] * len(arguments)),
    }}  # fmt: skip
    return block("procedures_definition", custom_block=prototype)


def call(proccode, **arguments):
    """Return a call of a custom block."""
    mutation = {"tagName": "mutation", "children": [], "proccode": proccode, "warp": "true"}
    mutation["argumentids"] = json.dumps(list(arguments))
    return block("procedures_call", **arguments) | {"mutation": mutation}


def sprite(*scripts, lists=(), variables=()):
    """Return a .sprite3 file with these scripts (each a list of blocks); lists and variables are empty."""
    made = _sprite(scripts, lists, variables)
    return _archive("sprite.json", made)


def project(*scripts, lists=(), variables=(), messages=(), more=None):
    """Return an .sb3 file with one such sprite, its messages, and further attributes in JSON."""
    made = _sprite(scripts, lists, variables) | (more or {})
    empty = json.loads((templates("scratch") / "stage.json").read_text())
    [stage] = empty["targets"]
    stage["broadcasts"] = {message: message for message in messages}
    return _archive("project.json", empty | {"targets": [stage, made]})


def _sprite(scripts, lists, variables):
    blocks, ids = {}, (f"block {n}" for n in count())
    for script in scripts:
        _stack(script, None, blocks, ids)
    held = {name: [name, []] for name in lists}
    return SPRITE | {"blocks": blocks, "lists": held, "variables": {name: [name, ""] for name in variables}}


def _stack(script, parent, blocks, ids):
    """Add these blocks, and return the id of the first."""
    names = [next(ids) for _ in script]
    for at, (name, described) in enumerate(zip(names, script, strict=True)):
        above = names[at - 1] if at else parent
        blocks[name] = {
            "shadow": False,
            **described,
            "topLevel": above is None,
            "parent": above,
            "next": names[at + 1] if at + 1 < len(names) else None,
            "inputs": {slot: _input(it, name, blocks, ids) for slot, it in described["inputs"].items()},
        }
        if above is None:
            blocks[name] |= {"x": 0, "y": 0}
    return names[0]


def _input(value, parent, blocks, ids):
    if isinstance(value, list):
        return [2, _stack(value, parent, blocks, ids)]
    if not isinstance(value, dict):
        return [1, [10, value]]
    inner = _stack([value], parent, blocks, ids)
    return [1, inner] if "shadow" in value else [3, inner, [10, ""]]


def _archive(description, content):
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr(description, json.dumps(content))
        file.writestr(f"{IMAGE}.svg", COSTUME)
    return archive.getvalue()
