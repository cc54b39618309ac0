"""Prints sdk/testdata/vectors/request_hash.json: 200 bodies of POST /v1/actions and the request_hash that the public
Python client computes for each. The bodies are made from a fixed seed and plain integer arithmetic, so that every
Python version makes the same ones. Needs faramesh-sdk (install.sh); the Go test beside sdk/wire/request_hash.go runs it.
"""

import json
import struct
import sys
from decimal import Decimal

from faramesh import compute_request_hash

ROWS = 200
SEED = 20260214


class Dice:
    """A 64-bit linear congruential generator (Knuth's constants)."""

    def __init__(self, seed):
        self.state = seed

    def bits(self, n):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return self.state >> (64 - n)

    def below(self, n):
        return self.bits(32) % n

    def pick(self, things):
        return things[self.below(len(things))]


CHARS = list("abcxyzABC019 /._-:,{}[]") + [
    '"', "\\", "\b", "\f", "\n", "\r", "\t", "\x01", "\x1f", "\x7f", "\x80", "é", "ß", "ñ", "日", "本",
    "\u2028", "\u2029", "\ud7ff", "\ue000", "\ufffd", "\uffff", "😀", "𝒳", "\U0010ffff",
]
NAMES = ["a", "b", "A", "_", "_k", "url", "amount", "", "é", "日", "\ue000", "\uffff", "😀", "a b", 'q"', "n\n", "10", "9", "é2", "_id", "id", "status"]
NUMBERS = [
    "0", "-0", "1", "-1", "7", "10", "1000004", "9007199254740991", "9007199254740993", "-9007199254740995", "9223372036854775808",
    "123456789012345678901234567890", "100000000000000000000", "0.0", "-0.0", "0e9", "1.0", "1.50", "2.500", "-3.0", "1e0", "1e5",
    "1E5", "1E+5", "1e+21", "1e21", "1e-7", "1.5e-7", "-2.5E-10", "0.1e1", "4.35", "0.1", "0.30000000000000004", "1e16", "1e22",
    "1e23", "5e-324", "2e-324", "1e-400", "2.2250738585072014e-308", "1.7976931348623157e308", "-1.7976931348623157E+308",
    "123456789.123456789012345", "9007199254740993.0", "12345678901234567890.5", "1.0000000000000002", "0.000001", "0.0000001",
    "1e-6", "999999999999999868928", "1000000000000000128.0", "33.333333333333336", "8.41e21", "2.0e-3", "100e-2",
]


def write_string(dice, text):
    """One of the many ways to write a string."""
    out = ['"']
    for ch in text:
        code = ord(ch)
        if code < 0x20 or ch in '"\\' or dice.below(8) == 0:
            short = {'"': '\\"', "\\": "\\\\", "/": "\\/", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(ch)
            if short and dice.below(2) == 0:
                out.append(short)
            elif code > 0xFFFF:
                out.append("\\u%04x\\u%04X" % (0xD800 + ((code - 0x10000) >> 10), 0xDC00 + ((code - 0x10000) & 0x3FF)))
            else:
                out.append(dice.pick(["\\u%04x", "\\u%04X"]) % code)
        else:
            out.append(ch)
    out.append('"')
    return "".join(out)


def write_number(dice):
    if dice.below(3) > 0:
        return dice.pick(NUMBERS)
    exponent = dice.bits(11) if dice.below(6) == 0 else 1004 + dice.below(200)  # mostly 1e-6 to 1e54
    number = struct.unpack(">d", struct.pack(">Q", dice.bits(1) << 63 | exponent << 52 | dice.bits(52)))[0]
    if number != number or number in (float("inf"), float("-inf")):
        return str(dice.bits(60))
    return repr(number)


def space(dice):
    return dice.pick(["", "", "", " ", "\n\t", "  "])


def write_value(dice, depth):
    kind = dice.below(10 if depth < 3 else 7)
    if kind == 0:
        return dice.pick(["null", "true", "false"])
    if kind < 4:
        return write_number(dice)
    if kind < 7:
        return write_string(dice, "".join(dice.pick(CHARS) for _ in range(dice.below(9))))
    if kind == 7:
        return "[" + space(dice) + ("," + space(dice)).join(write_value(dice, depth + 1) for _ in range(dice.below(4))) + space(dice) + "]"
    return write_object(dice, depth + 1)


def write_object(dice, depth):
    names = []
    for _ in range(dice.below(6)):
        name = dice.pick(NAMES)
        if name not in names:
            names.append(name)
    return write_members(dice, [(name, write_value(dice, depth)) for name in names])


def write_members(dice, members):
    parts = [write_string(dice, name) + space(dice) + ":" + space(dice) + value for name, value in members]
    return "{" + space(dice) + ("," + space(dice)).join(parts) + space(dice) + "}"


def body(dice):
    members = [
        ("agent_id", write_string(dice, dice.pick(["a", "agent", "ops/billing", "é"]))),
        ("tool", write_string(dice, dice.pick(["http", "pay", "db/main"]))),
        ("operation", write_string(dice, dice.pick(["get", "charge", "run", ""]))),
        ("params", write_object(dice, 0)),
        ("context", write_object(dice, 0)),
    ]
    if dice.below(4) == 0:  # what the clients leave out of the hash
        members.append((dice.pick(["_trace", "id", "status", "approval_token"]), write_value(dice, 2)))
    ordered = []
    while members:
        ordered.append(members.pop(dice.below(len(members))))
    return write_members(dice, ordered)


def javascript(value):
    """Why the JavaScript client, given the same text, comes to another hash, or None."""
    if isinstance(value, float) and 0 < abs(value) < 1e-6 and len(Decimal(repr(value)).normalize().as_tuple().digits) > 1:
        return "misplaces the point of floats below 1e-6"
    if isinstance(value, bool) or not isinstance(value, (int, list, dict)):
        return None
    if isinstance(value, int):
        return None if int(Decimal(repr(float(value)))) == value else "rounds integers beyond 2^53"
    if isinstance(value, list):
        return next(filter(None, map(javascript, value)), None)
    names = list(value)
    if sorted(names) != sorted(names, key=lambda name: name.encode("utf-16-be")):
        return "orders names by UTF-16 units"
    return next(filter(None, map(javascript, value.values())), None)


def main():
    dice = Dice(SEED)
    rows = []
    for _ in range(ROWS):
        text = body(dice)
        payload = json.loads(text)
        row = {"body": text, "hash": compute_request_hash(payload)}
        hashed = [payload["params"], payload["context"]]
        if why := javascript(hashed):
            row["javascript"] = why
        rows.append(row)
    json.dump({
        "about": "Bodies of POST /v1/actions as sent and their request_hash, as the public Python client computes it. The JavaScript client "
                 "agrees but where a row says why not. Made by sdk/testdata/clients/vectors.py; compared by sdk/wire.",
        "rows": rows,
    }, sys.stdout, indent=0)
    print()


main()
