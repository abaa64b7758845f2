"""Random imperative programs about aliasing, rebinding, loops and branches, as source text.

In: a random generator. Out: the text of a function `f(a, b, n)` of two vectors and an int, which
calls functions of `HELPERS`. `narrow` draws names, views, loops and exits; `wide` adds helpers that
write and return their arguments, tuples, conditional expressions, `while`, views of other lengths
and deeper nests.
"""

from __future__ import annotations

HELPERS = """
import numpy as np


def h1(x, y):
    x[0] = y[1] + 1
    return x


def h2(x, y):
    for q in range(x.shape[0]):
        if y[q] > 0.5:
            x = y + 0
        x[q] = x[q] * 0.5 + 0.25
    return x


def h3(x):
    x = x + 1
    return x, x[::-1]


def h4(x, y, s):
    if s > 1:
        return x + 0
    return y * 1


def h5(x, depth):
    if depth == 0:
        return x.sum()
    x[depth] += 1
    return h5(x[1:], depth - 1) * 0.5


def h6(x, least):
    for q in range(x.shape[0]):
        if x[q] > least:
            return q
    return -1
"""


NARROW_ENDS = ["d * 1, c + 0, s", "a + 0, b * 1, c + 0, d * 1, s"]


class Program:
    """Lines of one program, drawn statement by statement."""

    def __init__(self, rng, names, deepest):
        self.rng = rng
        self.names = names
        self.deepest = deepest
        self.lines = []
        self.whiles = 0

    def add(self, indent, text):
        self.lines.append("    " * indent + text)

    def block(self, indent, depth, loops, count):
        for _ in range(count):
            self.statement(indent, depth, loops)

    def name(self):
        return self.rng.choice(self.names)

    def fresh(self):
        x, y = self.name(), self.name()
        forms = [
            f"{x} + {y}", f"{x} * 0.5", f"{x}[::-1] - s", f"{x} + 1", f"{x}.copy()",
            f"np.where({x} > {y}, {x}, 0.25)", f"np.minimum({x}, {y}[::-1])",
        ]  # fmt: skip
        return self.rng.choice(forms)

    def condition(self):
        x, k = self.name(), self.rng.randrange(6)
        forms = [f"{x}[{k}] > s", "s > 1", "n > 6", f"{x}[{k}] > 0.3 and s < 2"]
        return self.rng.choice(forms[: 3 if self.deepest == 2 else 4])

    def statement(self, indent, depth, loops):
        rows = self.rows(loops)
        nested = 0.88 if depth < self.deepest else 1.0
        if self.rng.random() < nested:
            weights = [weight for weight, _ in rows]
            for line in self.rng.choices([make for _, make in rows], weights)[0]():
                self.add(indent, line)
        else:
            kinds = [self.choice, self.loop, self.loop]
            kinds += [self.repeat] if self.deepest > 2 else []
            self.rng.choice(kinds)(indent, depth, loops)

    def choice(self, indent, depth, loops):
        self.add(indent, f"if {self.condition()}:")
        self.block(indent + 1, depth + 1, loops, self.rng.randrange(1, 4))
        if self.rng.random() < 0.5:
            self.add(indent, "else:")
            self.block(indent + 1, depth + 1, loops, self.rng.randrange(1, 4))

    def loop(self, indent, depth, loops):
        ends = ["n", "1, n", "n - 1, -1, -1", "5", "7"]
        ends += [loops[-1], f"{loops[-1]}, n"] if loops and self.deepest > 2 else []
        variable = "ijkpq"[depth]
        self.add(indent, f"for {variable} in range({self.rng.choice(ends)}):")
        self.block(indent + 1, depth + 1, [*loops, variable], self.rng.randrange(2, 5))

    def repeat(self, indent, depth, loops):
        self.whiles += 1
        counter = f"m{self.whiles}"
        end = self.rng.choice(["n", "5", "3"])
        self.add(indent, f"{counter} = 0")
        limit = f"{self.name()}[{self.rng.randrange(6)}] < 50"
        self.add(indent, f"while {counter} < {end} and {limit}:")
        self.add(indent + 1, f"{counter} += 1")
        self.block(indent + 1, depth + 1, loops, self.rng.randrange(1, 4))

    def rows(self, loops):
        """(weight, lines) for every simple statement."""
        rng = self.rng
        x, y, z = self.name(), self.name(), self.name()
        k = rng.randrange(6)
        at = rng.choice(loops) if loops and rng.random() < 0.6 else str(k)
        item = rng.choice(["s", "1.5", f"{y}[{k}]"])
        scalar = rng.choice([f"{x}[{at}]", f"{x}.sum()", "s * 0.5", "s + 1", f"float({x}[{k}])"])
        found = [
            (10, lambda: [f"{x} = {self.fresh()}"]),
            (10, lambda: [f"{x} = {rng.choice([y, f'{y}[::-1]', y])}"]),
            (10, lambda: [f"{x}[{at}] = {item}"]),
            (8, lambda: [f"{x}[1:5] = {y}[{rng.randrange(3)}:][:4]"]),
            (7, lambda: [f"{x} += {y} * 0.5"]),
            (5, lambda: [f"{x}[:] = {self.fresh()}"]),
            (7, lambda: [f"s = {scalar}"]),
            (4, lambda: [f"{x}, {y} = {y}, {x}"]),
            (2, lambda: [f"if s > 4: return {x} * 2, c + 0, s"]),
            (3, lambda: [f"{x}[{k}] += 1"]),
        ]
        if loops:
            leave = rng.choice(["break", "continue", "continue"])
            found.append((3, lambda: [f"if s > {rng.choice([0, 1, 3])}: {leave}"]))
        return found + (self.wide_rows(x, y, z, k, loops) if self.deepest > 2 else [])

    def wide_rows(self, x, y, z, k, loops):
        rng = self.rng
        chosen = rng.choice([z, z + "[::-1]", z + " + 1"])
        part = rng.choice(["2:6", "::2", "3:", ":4"])
        found = [
            (2, lambda: [f"{x}, {y}, {z} = {y}, {z}, {x}"]),
            (3, lambda: [f"{x} = h1({y}, {z})"]),
            (3, lambda: [f"{x} = h2({y}, {z})"]),
            (2, lambda: [f"{x}, {y} = h3({z})"]),
            (3, lambda: [f"{x} = h4({y}, {z}, s)"]),
            (3, lambda: [f"{x} = {y} if s > 1 else {chosen}"]),
            (2, lambda: [f"t = ({x}, {y})", f"{z} = t[{rng.randrange(2)}]"]),
            (2, lambda: [f"w = {x}[{part}]", f"w += {rng.choice(['1', 's', 'w'])}"]),
            (3, lambda: [f"s = {x}[{k}] + ({y}[0] if s > 1 else {z}[1])"]),
            (3, lambda: [f"{x}[int(abs(s)) % 5] = {y}[{k}]"]),
        ]
        if loops:
            found.append((2, lambda: [f"w = {x}[{rng.choice(loops)}:]", "w *= 0.5"]))
        return found


def narrow(rng):
    """A program about names, views, loops and exits."""
    program = Program(rng, ["a", "b", "c", "d"], 2)
    program.block(1, 0, [], rng.randrange(4, 9))
    own = rng.choice(["a = a + 0", "b = b * 1.5", "a, b = a + 0, b + 0", "pass"])
    head = ["def f(a, b, n):", f"    {own}", "    c = a[::-1]", "    d = b * 2", "    s = 0.5"]
    return "\n".join([*head, *program.lines, f"    return {rng.choice(NARROW_ENDS)}", ""])


def wide(rng):
    """A program with helpers, tuples, `while` and deeper nests as well."""
    program = Program(rng, ["a", "b", "c", "d", "e"], 3)
    program.block(1, 0, [], rng.randrange(4, 9))
    extra = rng.choice(["e = a", "e = b[:]", "e = d", "e = np.cos(a)"])
    own = rng.choice(["a = a + 0", "b = b * 1.5", "a, b = a + 0, b + 0", "pass"])
    start = ["def f(a, b, n):", f"    {own}", "    c = a[::-1]"]
    head = [*start, "    d = b * 2", f"    {extra}", "    s = 0.5"]
    ends = ["d * 1, c + 0, s", "e + 0, c * 1, s", "a * 1, e - d, s"]
    return "\n".join([*head, *program.lines, f"    return {rng.choice(ends)}", ""])
