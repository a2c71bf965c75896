"""Mutations of files: of bytes, and of what is inside JSON, archives, headers and protocol buffers."""

from __future__ import annotations

import copy
import io
import json
import zipfile
from functools import cache, partial

DEPTH = 20_000
NUMBERS = [0, -1, 1, 2, 3, 255, 2**16, 2**31 - 1, 2**31, 2**32, 2**40, 2**62, 2**63 - 1, -(2**63)]
TEXTS = ["", "x", "\0", "a\0b", "\ud800", "../x", "/dev/zero", "é", "x" * 9999, "F64", "1e999", "nan"]
VALUES = [*NUMBERS, 10**30, 1.5, 1e308, float("nan"), float("inf"), None, True, False, *TEXTS, [], {}, [[]]]


def of_bytes(data, rng):
    """Flip bits, cut, insert, repeat, or write an integer over some bytes."""
    data = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 5])):
        place = rng.randrange(len(data) + 1)
        match rng.randrange(7):
            case 0:
                data[place : place + 1] = bytes([rng.randrange(256)])
            case 1:
                del data[place:]
            case 2:
                data[place:place] = rng.randbytes(rng.choice([1, 8, 100]))
            case 3:
                data[place : place + rng.randrange(50)] = b""
            case 4:
                data[place:place] = data[place : place + rng.randrange(200)] * rng.choice([1, 3])
            case 5:
                number = (rng.choice(NUMBERS) % 2**64).to_bytes(8, "little")[: rng.choice([1, 2, 4, 8])]
                data[place : place + len(number)] = number
            case _:
                for k in range(place, min(place + 1, len(data))):
                    data[k] ^= 1 << rng.randrange(8)
    return bytes(data)


def of_json(data, rng):
    """Change values at some paths; repeat a name, or nest deeply; or change the bytes."""
    if rng.random() < 0.2 or data[:1] not in (b"{", b"["):
        return of_bytes(data, rng)
    value = json.loads(data)
    for _ in range(rng.choice([1, 1, 2, 4])):
        value = changed(value, rng)
    text = json.dumps(value)
    match rng.randrange(12):
        case 0:
            text = text.replace("null", "[" * DEPTH + "]" * DEPTH, 1)
        case 1:
            place = text.find("{") + 1
            text = text[:place] + text[place : text.find(",", place) + 1] + text[place:]
        case 2:
            value = changed(value, rng, "~deep~")
            opened, closed = rng.choice(["[]", ('{"a":', "}")])
            text = json.dumps(value).replace(
                '"~deep~"', opened * DEPTH + "1" * (opened != "[") + closed * DEPTH
            )
    return text.encode(errors="surrogatepass")


def changed(value, rng, to=None):
    """Return a copy with another value at one random path."""
    inside = isinstance(value, dict | list) and value and rng.random() < 0.93
    if not inside:
        return copy.deepcopy(rng.choice(VALUES)) if to is None else to
    key = rng.choice(list(value)) if isinstance(value, dict) else rng.randrange(len(value))
    value = copy.copy(value)
    match rng.randrange(12) if to is None else 9:
        case 0:
            del value[key]
        case 1 if isinstance(value, list):
            value.insert(key, copy.deepcopy(value[key]))
        case 2 if isinstance(value, dict):
            value[rng.choice(TEXTS)] = value[key]
        case _:
            value[key] = changed(value[key], rng, to)
    return value


def of_archive(data, rng, inside=of_bytes):
    """Change a member and zip again, so that checksums agree; or change the archive."""
    if rng.random() < 0.3:
        return of_bytes(data, rng)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = rng.choice(list(members))
    match rng.randrange(8):
        case 0:
            members[rng.choice([" ", "x", "../y.npy", "a\0b", "é.npy"])] = members.pop(name)
        case 1:
            return bomb(name)
        case _:
            members[name] = inside(members[name], rng)
    buffer = io.BytesIO()
    kind = rng.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
    with zipfile.ZipFile(buffer, "w", kind) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


@cache
def bomb(name):
    """Return an archive whose member unpacks to a thousand times its size."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, b"\x93NUMPY\x01\x00v\x00" + bytes(2**29), compresslevel=1)
    return buffer.getvalue()


def of_header(data, rng):
    """Change the header of safetensors as JSON, with its length."""
    if rng.random() < 0.3:
        return of_bytes(data, rng)
    end = 8 + int.from_bytes(data[:8], "little")
    header = of_json(data[8:end], rng)
    return len(header).to_bytes(8, "little") + header + data[end:]


def of_npy(data, rng):
    """Change the shape or the dtype in the header of an array of NumPy."""
    if rng.random() < 0.4:
        return of_bytes(data, rng)
    end = 10 + int.from_bytes(data[8:10], "little")
    shape = rng.choice(
        ["(2**40,)", "(1099511627776,)", "(-1,)", "(0,)", "()", "(3,)*9", "(" * 500, "(True,)"]
    )
    kind = rng.choice(["<f8", "|O", "<U0", "<U1000000", "V0", "<f4", "M8", "x", "|S3", "(2,)<f4", "\ud800"])
    header = f"{{'descr': {kind!r}, 'fortran_order': False, 'shape': {shape}, }}\n"
    text = header.encode("latin1", errors="replace")
    return data[:8] + len(text).to_bytes(2, "little") + text + data[end:]


def of_lines(data, rng):
    """Change cells of a table, one of them to a long one; or change the bytes."""
    if rng.random() < 0.3:
        return of_bytes(data, rng)
    lines = data.decode().splitlines()
    lines += lines[1:] * rng.choice([0, 0, 0, 2000])
    for _ in range(rng.randrange(1, 4)):
        row = rng.randrange(len(lines))
        cells = lines[row].split(",")
        cells[rng.randrange(len(cells))] = rng.choice(
            [*map(str, VALUES), '"', "9" * 5000, "1_0", " ", "a" * 99_999]
        )
        lines[row] = ",".join(cells)
    return "\n".join(lines).encode(errors="surrogatepass")


def of_message(parse, data, rng):
    """Change fields of a protocol buffer, at any depth; or change the bytes."""
    if rng.random() < 0.3:
        return of_bytes(data, rng)
    message = parse(data)
    for _ in range(rng.choice([1, 1, 2, 4])):
        change_field(message, rng)
    return message.SerializeToString()


def change_field(message, rng):
    """Change a random field of a message, or of one inside."""
    fields = [(field, value) for field, value in message.ListFields()]
    if not fields:
        return
    field, value = rng.choice(fields)
    name, repeated = field.name, hasattr(value, "__len__") and not isinstance(value, str | bytes)
    if repeated and rng.random() < 0.15:
        del value[rng.randrange(len(value))]
    elif repeated and rng.random() < 0.1:
        value.extend(list(value))
    elif field.message_type is not None:
        change_field(rng.choice(list(value)) if repeated else value, rng)
    else:
        old = rng.choice(list(value)) if repeated else value
        new = scalar(old, rng)
        try:
            if repeated:
                value[rng.randrange(len(value))] = new
            else:
                setattr(message, name, new)
        except (ValueError, TypeError, UnicodeEncodeError):
            pass  # a value that the field cannot have


def scalar(old, rng):
    """Return another value of the type of this one."""
    if isinstance(old, str):
        return rng.choice([*TEXTS, old + "\0", old * 2])
    if isinstance(old, bytes):
        return of_bytes(old, rng)
    return type(old)(rng.choice(NUMBERS))


of_sprite = partial(of_archive, inside=of_json)
of_npz = partial(of_archive, inside=of_npy)
