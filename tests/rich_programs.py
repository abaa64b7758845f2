"""Random imperative programs over arrays of every kind of dtype, as source text.

In: a random generator. Out: the text of a function `f(a, b, k, m, z, g, n)` of vectors of floats
(a, b), integers (k), bools (m) and complex numbers (z), a matrix (g) and an int. The programs read
and write through masks, integer arrays, steps and views of views, carry Python numbers of every
kind, iterate over arrays, and leave loops and functions early.
"""

from __future__ import annotations

from loop_programs import Program

from tailorbird.ir.promote import LEGACY

APART = ".copy()" if LEGACY else ""  # older NumPy reads there what it has just written

FLOATS, INTS = ["a", "b", "c", "d"], ["k", "p"]


class Rich(Program):
    """Lines of one program; names have one kind of dtype throughout."""

    def __init__(self, rng):
        super().__init__(rng, FLOATS, 2)
        self.end = rng.choice(["k + 0, s", "p * 1, t", "m ^ True, e", "z * 1, u"])

    def pick(self, *texts):
        return self.rng.choice(texts)

    def at(self, loops):
        """An index: of a loop around, a number, or a Python int the program computed."""
        if loops and self.rng.random() < 0.6:
            return self.rng.choice([loops[-1], loops[0], f"{loops[-1]} - 1"])
        return self.rng.choice(["0", "2", "5", "-1", "t % 5"])

    def mask(self):
        x, y = self.name(), self.name()
        return self.pick("m", "~m", f"{x} > s", f"{x} > {y}", f"m & ({x} < 1)", f"{x} != {x}[0]")

    def condition(self):
        x, i, j = self.name(), self.rng.randrange(6), self.rng.randrange(6)
        return self.pick(
            f"{x}[{i}] > s", "s > 1", "n > 6", "u", "not u", f"m[{i}]", f"0 < {x}[{i}] < s + 1",
            f"k[{i}] > t", f"u or m[{i}] and k[{j}] > 1", "t % 3 == 1", f"1 <= t < k[{i}] + 4",
            f"not (m[{i}] or s > 2)", "e.real > 0", f"m.any() and {x}[{j}] <= {x}[{i}]",
        )  # fmt: skip

    def loop(self, indent, depth, loops):
        over = self.rng.random()
        name = "ijkpq"[depth] if depth < 2 else "r"
        variable = {"i": "i", "j": "j"}.get(name, "r")
        x, y = self.name(), self.name()
        if over < 0.65:
            ends = ["n", "1, n", "n - 1, -1, -1", "5", "0, n, 2", "t % 6", "len(a) - 1"]
            ends += [loops[-1], f"{loops[-1]}, n"] if loops else []
            head, found = f"for {variable} in range({self.rng.choice(ends)}):", [variable]
        elif over < 0.75:
            head, found = f"for {variable}, v in enumerate({x}):", [variable]
        elif over < 0.85:
            head, found = f"for v, w in zip({x}, {y}[::-1]):", []
        elif over < 0.93:
            head, found = f"for v in {x}:", []
        else:
            head, found = self.pick("for r in g:", f"for r in ({x}, {y}):"), []
        self.add(indent, head)
        if "v" in head.partition(" in ")[0]:
            self.add(indent + 1, self.pick("s = s * 0.5 + v", "t += v > s", f"{y}[1] = v", "s = v"))
        if head.startswith("for r in ") and not found:
            self.add(indent + 1, self.pick("r += 1", "r[1:4] = r[2:5]", "s = r[2]", "r[r > s] = s"))
        self.block(indent + 1, depth + 1, [*loops, *found], self.rng.randrange(1, 4))

    def rows(self, loops):
        x, y, at = self.name(), self.name(), self.at(loops)
        kinds = [
            (14, lambda: self.floats(x, y, at)), (9, lambda: self.masked(x, y)),
            (8, lambda: self.indexed(x, y)), (10, lambda: self.views(x, y)),
            (10, lambda: self.integers(x, at)), (7, lambda: self.numbers(x, at)),
            (6, lambda: self.bools(x, at)), (6, lambda: self.complexes(x, at)),
            (7, lambda: self.matrix(x, at)), (3, lambda: self.others(x, y)),
        ]  # fmt: skip
        kinds.append((2, lambda: [f"if {self.condition()}: return {x} * 2, {self.end}"]))
        if loops:
            leave = self.pick("break", "continue", "continue")
            kinds.append((4, lambda: [f"if {self.condition()}: {leave}"]))
        return kinds

    def one(self, *forms):
        """The lines of one form; a semicolon parts them."""
        return self.rng.choice(forms).split("; ")

    def floats(self, x, y, at):
        return self.one(
            f"{x} = {self.fresh()}", f"{x} = {y}", f"{x} = {y}[::-1]", f"{x}, {y} = {y}, {x}",
            f"{x}[{at}] = s", f"{x}[{at}] += {y}[{at}]", f"{x} += {y} * 0.5", f"{x}[:] = {y}",
            f"{x}[{at}], {y}[2] = {y}[2], {x}[{at}]", f"s = {x}[{at}]", f"s = {x}.max()",
            f"{x}[{at}] = {y}[{at}] if {self.condition()} else s", f"s = float({x}[{at}]) / 3",
        )  # fmt: skip

    def masked(self, x, y):
        m, other = self.mask(), self.pick("0.25", "s", "1")
        return self.one(
            f"{x}[{m}] = {other}", f"{x}[{m}] += 1", f"s = {y}[{m}].sum()", f"{x}[m] = {y}[m]",
            f"{x}[m] += {y}[m]", f"w = {y}[{m}]; s = w.sum() + w.size", f"m = {m}",
            f"{x} = np.where({m}, {x}, {y})", f"w = {y}[{m}]; t = len(w)", f"k[{m}] = t",
            f"w = {x}[2:]; w[m[2:]] *= 0.5", f"t += int(({m}).sum())", f"k[{m}] += k[{m}]",
        )  # fmt: skip

    def indexed(self, x, y):
        return self.one(
            f"{x} = {y}[k % n]", f"{x}[k % n] = {y}", f"{x}[k % n] += 1", f"{x}[p % n] = s",
            f"{x}[k[1:4] % 5] = {y}[:3]", "k = k[p % n]", f"s = {x}[p % n].sum()",
            f"{x}[1:] = {x}[k[1:] % n]", f"{x}[[0, 2, 1]] = {y}[[1, 0, 3]]", "p[k % n] = k",
            f"s = {x}[t % n]", f"{x}[t % n] = s", f"{x}[k[2] % n] = {y}[p[1] % n]",
            f"z[k % n] = z[::-1]{APART}", "m[k % 4] = True", f"np.add.at({x}, k % n, 0.5)",
        )  # fmt: skip

    def views(self, x, y):
        return self.one(
            f"w = {x}[1:][::2]; w += 1", f"w = {x}[::-2]; w *= 0.5", f"{x}[::2] = {y}[1::2][0]",
            f"{x}[5:1:-1] = {y}[1:5]", f"{x}[1:] = {x}[:-1]", f"{x}[:-1] += {x}[1:]",
            f"w = {x}[2:7][::-1]; w[1:3] = {y}[0:2]", f"{x}[1:7:3] -= s", "k[::-1][1:] = k[:-1]",
            f"w = {x}[1:]; {x}[3] = 9; w[0] = w[2]", f"{x}[t % 4:] += 1",
            f"w = {x}[:t % 5 + 1]; w *= 2",
            f"w = {x}.reshape(-1)[1:4]; w -= 1", f"{x}[::-1] += {x}",
            f"w = {x}[1:5]; w += {x}[0:4]",
            f"{x} = {x}.reshape(-1, 1)[:, 0]", f"w = {x}.reshape(-1, 1); w[2:] += {y}[0]",
        )  # fmt: skip

    def integers(self, x, at):
        k, p = self.rng.sample(INTS, 2)
        return self.one(
            f"{k} = {k} + {p}", f"{k} += {p}", f"{k}[{at}] = t % 9", f"{k}[{at}] += 1",
            f"{k} //= 2",
            f"{k} %= 5", f"{k}[1:] ^= {k}[:-1]", f"{k} = {p} << 1", f"{k} = np.cumsum({p})",
            f"{k} = np.where(m, {k}, -{p})", f"{k}, {p} = {p}, {k}", f"t = int({k}[{at}])",
            f"t = t + {k}[{at}]; t = int(t)", f"{k}[:] = {x} > s", f"{k} = {p}", f"{k} = {p}[::-1]",
            f"{k}[{at}] //= 3", f"{k}[2:] = {p}[2:] * {k}[2:] % 7", f"{k} = np.minimum({k}, {p})",
            f"s = {k}.sum() * 0.25", f"t = int({p}.max())", f"{k}[{at}] = {k}[{at}] * 3 % 7 - 1",
        )  # fmt: skip

    def numbers(self, x, at):
        return self.one(
            "t += 1", "t = t * 3 % 17", "t = -t // 3", "t, q = divmod(t, 4); t += q", "t ^= 5",
            "t = min(t, n)", "t = t << 1 if t < 100 else t - 50", "t = abs(t) & 6", "s = s * 0.5",
            "s += t", "s = t / 3", f"s = {x}[0] + t", "t = int(abs(s)) % 7", "t -= n", "s = -s",
            f"t = len({x})", f"{x}[{at}] = t", "t = t * t % 1009", "s = max(s, t)",
            "s, t = t * 0.5, t + 2",
            "t = round(t / 3)", "s = s if s < 9 else 0.5",
        )  # fmt: skip

    def bools(self, x, at):
        return self.one(
            "u = not u", f"u = {self.condition()}", f"u = bool(m[{at}])", f"m[{at}] = not m[{at}]",
            f"m[{at}] = u", "m = ~m", f"m &= {x} > 0", "m[1:] = m[:-1]", "m ^= k > 2", "t += u",
            "u = u != (t > 3)", f"m = np.logical_or(m, {x} > s)", "u = bool(m.any())", "s = s * u",
            f"u = {x}[{at}] > s and u", "t = 3 if u else t",
        )  # fmt: skip

    def complexes(self, x, at):
        return self.one(
            "z = z * 1j", "z *= 0.5", f"z[{at}] = complex({x}[{at}], s)", f"z += {x}", "z[m] = 1j",
            f"{x} = z.real * 1", f"{x} = np.abs(z)", f"e = e * 1j + z[{at}]", f"z[{at}] += e",
            "e = e * (0.5 + 0.5j)", f"s = z[{at}].imag", "z = z.conj()", "z[1:] = z[:-1]",
            "w = z[::2]; w += 1j", f"{x}[:] = z.imag", "s = e.imag", f"z[{at}] = e if u else 0",
            "w = z.imag; w += 1", f"w = z[1:].real; w[::2] = {x}[1:][::2]", f"{x} = z.imag",
            f"z.real[{at}] = s", f"z.imag += {x}", f"z.real = {x}", "z.imag[m] = s",
            "w = z.real if u else z.imag; w *= 0.5",
        )  # fmt: skip

    def matrix(self, x, at):
        return self.one(
            f"g[{at}] = {x}", f"g[:, {at}] += {x}", f"{x} = g[{at}] * 1", f"{x}[:] = g[{at}]",
            f"g[{at}, 1:] = g[2, :-1]", "g[::2, ::-1] *= 0.5", "g[:] = g.T", "g += g.T",
            f"{x} = g.sum(axis=0)", "g[g > 1] = 0.5", "w = g[1:, 1:]; w += g[:-1, :-1]",
            f"w = g[{at}]; w[::2] = s", f"g[{at}, {at}] = s", f"s = g[{at}].max() - g[{at}, 0]",
            "w = g[1:4][:, ::2]; w -= 1", f"g = g * {x}[:, None]", f"{x} = g[:, {at}] + 0",
            "g[[0, 2]] = g[[2, 0]]", f"{x} = g[2]",
        )  # fmt: skip

    def others(self, x, y):
        return self.one(
            f"s = h5({x}, 2)", f"t = h6({x}, s)", f"{x} = h2({y}, {x})", f"{x} = h1({x}, {y})",
            f"q = [{x}, {y}]; q[0][1] = s; {x} = q[1]", f"q = [{x}]; q.append({y}); q[1] *= 0.5",
            f"add = lambda v: v + s; {x} = add({y})", "assert s < 1e6", f"{x} = h4({x}, {y}, s)",
        )  # fmt: skip


def rich(rng):
    """A program over every kind of dtype."""
    program = Rich(rng)
    program.block(1, 0, [], rng.randrange(4, 10))
    own = rng.choice(["a = a + 0", "b = b * 1.5", "g = g + 0", "pass", "pass"])
    head = [
        "def f(a, b, k, m, z, g, n):",
        f"    {own}",
        f"    c = {rng.choice(['a[::-1]', 'a * 1'])}",
    ]
    head += ["    d = b * 2", "    p = k[::-1] + 1", "    s, t, u, e = 0.5, 3, False, 1 + 2j"]
    end = f"    return {program.name()} * 1, {program.end}"
    return "\n".join([*head, *program.lines, end, ""])
