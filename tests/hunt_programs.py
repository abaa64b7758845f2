"""Random straight-line NumPy programs as source text.

In: a seed. Out: a `Program`: parameters, statements and what is returned, whose text is a Python
module with one function `program`. Each statement is run as it is drawn, so that the names in the
pool have known dtypes and shapes and most programs are valid.

`Program.noisy` is the same program with the noise of a few ulp wherever NumPy itself rounds in its
own way; how much its results move says how far two right answers may be apart.
"""

from __future__ import annotations

import ast
import linecache
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

from tests.hunt_rows import GROUPS, HELPERS, Row
from tests.hunt_values import DTYPES, Spec, draw_sizes, draw_specs, make_arguments

SUPPORTED = frozenset(np.dtype(d) for d in DTYPES)
MOST_ELEMENTS = 30_000
NUMBER_TEXTS = ("2", "0", "1", "-1", "3", "0.5", "2.0", "-1.5", "1e3", "True", "SCALE", "HALF")
STRONG_TEXTS = ("np.float32(1.5)", "np.float64(0.25)", "np.int8(3)", "np.uint8(2)", "np.int64(-2)")
COMPLEX_TEXTS = ("1j", "(2-1j)", "np.complex64(1j)")
DTYPE_TEXTS = ("float32", "float64", "complex64", "complex128", "int32", "int64", "int8", "uint8")
DTYPE_TEXTS += ("int16", "uint16", "uint32", "uint64", "bool_")
INDICES = (
    ":",
    ":",
    "1:",
    ":-1",
    "::2",
    "::-1",
    "1:-1",
    "::-2",
    "-2:",
    ":3",
    "0",
    "-1",
    "None",
    "...",
)
RARE_INDICES = (
    "3:0:-1",
    "5:1",
    "1",
    "-2",
    "2::3",
    ":-1:2",
    "-1:0:-1",
    "np.newaxis",
    "7:",
    "slice(1)",
)
MEANS = re.compile("mean|var|std|norm|average|cov|corrcoef")  # of integers, they add floats
LAPACK = re.compile(r"linalg\.(inv|det|slogdet|solve|cholesky)")  # which has no wider type
FACTORS = re.compile(r"(np|\})\.(cum)?prod|multiply\.(reduce|accumulate)")
EXTREME = re.compile(r"\.(nan|a)?(min|max)(imum\.reduce)?\(|ptp")
PLACE = re.compile(r"\{([a-z]+)(\d?)\}")


@dataclass(frozen=True)
class Statement:
    """One statement: its lines, and the same with noise."""

    text: str
    noisy: str
    row: str


@dataclass(frozen=True)
class Program:
    """A function of parameters: statements, then a return."""

    specs: tuple[Spec, ...]
    statements: tuple[Statement, ...]
    returns: str

    @property
    def source(self) -> str:
        return self._module([s.text for s in self.statements])

    @property
    def noisy(self) -> str:
        if all(s.noisy == s.text for s in self.statements):
            return self.source
        return self._module([s.noisy for s in self.statements], complex_noise)

    def _module(self, texts: list[str], made: Callable[[str], str] = str) -> str:
        names = ", ".join(spec.name for spec in self.specs)
        lines = [line for text in texts for line in text.splitlines()]
        body = "\n".join(f"    {line}" for line in [*lines, f"return {self.returns}"])
        helpers = [made(part) for part in HELPERS.split("\n\n\n") if _used(part, body)]
        return "\n\n\n".join([*helpers, f"def program({names}):\n{body}\n"])


def _used(part: str, body: str) -> bool:
    """Whether a helper is called, or the part holds the imports."""
    found = re.match(r"def (\w+)", part)
    return found is None or f"{found.group(1)}(" in body


class _Products(ast.NodeTransformer):
    """Products, quotients and powers in the function `C`."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.op, (ast.Mult, ast.Div, ast.Pow)):
            return node
        return ast.Call(ast.Name("C", ast.Load()), [node], [])


def complex_noise(text: str) -> str:
    """Where some part of a text may be a complex product, its noise is that of its own type."""
    return ast.unparse(_Products().visit(ast.parse(text)))


_count = 0


def load(source: str, **names: Any) -> Callable[..., Any]:
    """The function `program` of a module with this text, which `inspect` can read."""
    global _count
    _count += 1
    file = f"<hunt {_count}>"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    space: dict[str, Any] = {"__name__": "hunt", **names}
    exec(compile(source, file, "exec"), space)
    return space["program"]


class Builder:
    """A program in the making: the names so far, with their values in one run."""

    def __init__(self, rng: Random, specs: list[Spec] | None = None) -> None:
        self.rng = rng
        self.specs = specs or draw_specs(rng)
        sizes = draw_sizes(rng)
        sizes = {name: max(size, 2) for name, size in sizes.items()}
        self.values = make_arguments(self.specs, sizes, rng.randrange(1 << 30))
        self.space: dict[str, Any] = {}
        exec(HELPERS, self.space)
        self.space.update(self.values)
        self.statements: list[Statement] = []
        self.first: Any = None
        self.fresh = 0
        self.narrow = False  # no floats for an array of integers

    # choosing

    def names(self, test: Callable[[Any], bool]) -> list[str]:
        found = [n for n, x in self.values.items() if isinstance(x, np.ndarray) and test(x)]
        return found or [n for n, x in self.values.items() if isinstance(x, np.ndarray)]

    def array(self, test: Callable[[Any], bool]) -> str:
        names = self.names(test)
        return self.rng.choice(names + names[-2:])

    def operand(self) -> str:
        if self.narrow:
            return self.rng.choice([*self.names(lambda x: x.dtype.kind in "biu"), "2", "1", "-1"])
        pick = self.rng.random()
        if pick < 0.7:
            return self.rng.choice(list(self.values))
        return self.number()

    def number(self) -> str:
        if self.narrow:
            return self.rng.choice(("2", "1", "3"))
        pick = self.rng.random()
        if pick < 0.08:
            return self.rng.choice(COMPLEX_TEXTS)
        return self.rng.choice(NUMBER_TEXTS if pick < 0.7 else STRONG_TEXTS)

    def dtype(self) -> str:
        return "np." + self.rng.choice(DTYPE_TEXTS)

    def cast_dtype(self) -> str:
        """A dtype that values of the first array have a meaning in."""
        kind = self.first.dtype.kind if isinstance(self.first, np.ndarray) else "f"
        texts = DTYPE_TEXTS[:4] if kind in "fc" else DTYPE_TEXTS
        return "np." + self.rng.choice(texts)

    def axis(self, more: int = 0) -> str:
        rank = max(np.ndim(self.first) + more, 1)
        return str(self.rng.randrange(-rank, rank))

    def axes(self) -> str:
        rank = np.ndim(self.first)
        if rank == 0 or self.rng.random() < 0.2:
            return "None"
        picked = self.rng.sample(range(rank), self.rng.randint(1, rank))
        picked = [k - rank if self.rng.random() < 0.3 else k for k in picked]
        return str(picked[0]) if len(picked) == 1 else str(tuple(picked))

    def index(self) -> str:
        rank = np.ndim(self.first)
        parts: list[str] = []
        for _ in range(self.rng.randint(1, max(rank, 1))):
            texts = INDICES if self.rng.random() < 0.85 else RARE_INDICES
            part = self.rng.choice(texts)
            parts.append(":" if part == "..." and "..." in parts else part)
        return ", ".join(parts)

    def shape(self) -> str:
        sizes = list(np.shape(self.first))
        total = int(np.prod(sizes))
        halves = [d for d in (2, 3, 4) if total % d == 0]
        texts = [
            "-1",
            "(-1, 1)",
            "(1, -1)",
            "{a}.shape[::-1]",
            "({a}.shape[0], -1)",
            "(-1, {a}.size)",
        ]
        texts += [f"({d}, -1)" for d in halves] + [str(tuple(sizes[::-1]))]
        return self.rng.choice(texts)

    def order(self) -> str:
        axes = list(range(np.ndim(self.first)))
        self.rng.shuffle(axes)
        return "(" + "".join(f"{k}, " for k in axes).strip() + ")"

    # filling

    def fill(self, row: Row) -> Statement:
        """The row with its placeholders filled; arrays come first, so that axes fit."""
        chosen: dict[str, str] = {}
        self.first, self.narrow = None, False
        places = [(m.group(1), m.group(0)) for m in PLACE.finditer(row.text)]
        for key, place in sorted(places, key=lambda p: p[0] != "w"):
            if key in TESTS and place not in chosen:
                chosen[place] = self.array(TESTS[key])
                self._chose(row, key, self.values[chosen[place]])
        text = row.text
        if "{t}" in text:
            self.fresh += 1
            chosen["{t}"] = f"t{self.fresh}"
        for key, place in places:
            if key in FILL:
                value = FILL[key](self).replace("{a}", chosen.get("{a}", "x"))
                text = text.replace(place, value, 1)
                chosen.pop(place, None)
        return self._statement(row, text, chosen)

    def _chose(self, row: Row, key: str, value: Any) -> None:
        if self.first is None:
            self.first = value
        careful = "] = " in row.text or "fill" in row.text or self.rng.random() < 0.8
        if key == "w" and value.dtype.kind in "iub" and careful:
            self.narrow = True

    def _statement(self, row: Row, text: str, chosen: dict[str, str]) -> Statement:
        plain, noisy = text, text
        exactness = row.exactness
        named = {*chosen.values(), *re.findall(r"[a-z]+\d*", text)} & set(self.values)
        kinds = [np.asarray(self.values[name]).dtype.kind for name in named]
        products = exactness == "exact" and ("c" in kinds or "j" in text)
        if products:
            exactness = "near"
        asked = re.search(r"np\.(float|complex)\d+", text) if "{d}" in row.text else None
        cast = f", {asked.group()}" if asked else ""
        for place, name in chosen.items():
            plain = plain.replace(place, name)
            wrap = exactness == "sum" and place not in ("{w}", "{t}")
            noise = "WF" if MEANS.search(row.text) else "N" if LAPACK.search(row.text) else "W"
            noisy = noisy.replace(place, f"{noise}({name}{cast})" if wrap else name)
        if row.text == "np.clip({r}, {x}, {x2})":
            noisy = noisy.replace("np.clip", "CLIP")
        noisy = re.sub(r"(np\.logaddexp2?)\(", r"LOGS(\1, ", noisy)
        noisy = re.sub(r"(special\.\w+)\(", r"F(\1, ", noisy)
        noisy = noisy.replace("np.trapezoid(", "TRAPEZOID(")
        noisy = complex_noise(noisy) if products else noisy
        if FACTORS.search(row.text) and not row.effect:
            noisy = f"Q({noisy}, {chosen['{a}']})"
        compared = chosen.get("{a}") or chosen.get("{r}") or chosen.get("{f}")
        if EXTREME.search(row.text) and compared and not row.effect:  # equal zeros of either sign
            noisy = f"Z({noisy}, {compared})"
        loose = exactness in ("near", "sum")
        if row.effect:
            target = chosen.get("{w}") or chosen["{t}"]
            given = chosen["{a}"] if row.text.startswith("np.") and "{a}" in chosen else target
            moved = f"{noisy}\nM({target}, {given})"
            return Statement(plain, moved if loose else noisy, row.text)
        self.fresh += 1
        name = f"v{self.fresh}"
        if loose:
            noisy = f"{'S' if exactness == 'sum' else 'N'}({noisy})"
        return Statement(f"{name} = {plain}", f"{name} = {noisy}", row.text)

    # growing

    def add(self, row: Row, keep_errors: bool = False) -> bool:
        """Draws a statement of this row; kept if it runs, or raises and that is wanted."""
        statement = self.fill(row)
        space = dict(self.space)
        try:
            exec(statement.text, space)
        except Exception:  # noqa: BLE001
            if keep_errors:
                self.statements.append(statement)
            return keep_errors
        names = re.findall(r"^\s*([tv]\d+)", statement.text, re.M)
        made = {n: space[n] for n in names if n in space}
        if not all(map(self.wanted, made.values())):
            return False
        self.space.update(made)
        self.values.update(made)
        self.statements.append(statement)
        return True

    def wanted(self, x: Any) -> bool:
        if isinstance(x, (bool, int, float, complex)):
            return True
        if not isinstance(x, (np.ndarray, np.generic)):
            return False
        if x.dtype not in SUPPORTED and self.rng.random() < 0.97:
            return False
        return x.size <= MOST_ELEMENTS and x.ndim <= 4

    def lent(self, name: str) -> bool:
        """Whether this is a view of an argument, which only the plain function returns."""
        given = [self.values[spec.name] for spec in self.specs]
        return any(np.may_share_memory(self.values[name], x) for x in given if np.ndim(x))

    def row(self) -> Row:
        groups = list(GROUPS.values())
        rows = self.rng.choices(groups, [weight for weight, _ in groups])[0][1]
        return self.rng.choices(rows, [r.weight for r in rows])[0]

    def finish(self) -> Program:
        made = [n for n in self.values if n not in {s.name for s in self.specs}]
        pool = made[-3:] * 3 + list(self.values)
        kept = [made[-1]] if made else [self.rng.choice(pool)]
        while self.rng.random() < 0.45:
            kept.append(self.rng.choice(pool))
        if self.rng.random() < 0.95:
            kept = list(dict.fromkeys(kept))
        if self.rng.random() < 0.8:
            kept = [f"{n} * 1" if self.lent(n) else n for n in kept]
        forms = (
            ["({},)", "[{}]", "({},)", "({},)"] if len(kept) > 1 else ["{}", "{}", "{}", "({},)"]
        )
        returns = self.rng.choice(forms).format(", ".join(kept))
        return Program(tuple(self.specs), tuple(self.statements), returns)


TESTS: dict[str, Callable[[Any], bool]] = {
    "a": lambda x: True,
    "f": lambda x: x.dtype.kind == "f",
    "i": lambda x: x.dtype.kind in "iub",
    "b": lambda x: x.dtype.kind == "b",
    "z": lambda x: x.dtype.kind == "c",
    "r": lambda x: x.dtype.kind != "c",
    "v": lambda x: x.ndim == 1,
    "m": lambda x: x.ndim == 2,
    "w": lambda x: x.flags.writeable and x.ndim > 0,
}
FILL: dict[str, Callable[[Builder], str]] = {
    "x": Builder.operand,
    "s": Builder.number,
    "c": lambda b: str(b.rng.choice((1, 2, 2, 3, 4))),
    "k": lambda b: str(b.rng.choice((0, 1, 2, -1, -2))),
    "d": lambda b: b.cast_dtype(),
    "ax": Builder.axis,
    "axn": lambda b: b.axis(1),
    "axes": Builder.axes,
    "ix": Builder.index,
    "sh": Builder.shape,
    "p": Builder.order,
}


def draw_program(rng: Random, rows: list[Row] | None = None) -> Program:
    """A random program of a few statements; of these rows alone if given."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        builder = Builder(rng)
        wanted = rng.choice((1, 2, 3, 3, 4, 5, 6, 8))
        tries = 0
        while len(builder.statements) < wanted and tries < 60:
            tries += 1
            builder.add(rng.choice(rows) if rows else builder.row())
        if rng.random() < 0.04:
            builder.add(builder.row(), keep_errors=True)
        return builder.finish()
