"""A program as text: what `TAILOR_SHOW=lower` prints and `explain` quotes."""

from __future__ import annotations

from tailorbird.fuse.flow import Position
from tailorbird.lower.kernel import Cell, Const, Ex, Index, Load, Nest, Op, Scalar, Size, Store
from tailorbird.lower.program import Check, Gemm, Program, PythonCall
from tailorbird.lower.steps import Bind, Control, Factor, Loop, ProgramStep, Sweep, While, bodies


def show_program(program: Program) -> str:
    """Buffers, then steps, one a block."""
    lines = [f"program {program.graph.name}"]
    for value, buffer in program.parameters.items():
        lines.append(f"  {buffer.name}: {buffer.ty}[{_dims(buffer.shape)}] param {value.name}")
    for buffer in program.buffers:
        lines.append(f"  {buffer.name}: {buffer.ty}[{_dims(buffer.shape)}] {buffer.role}")
    for step in program.steps:
        lines += show_step(step)
    return "\n".join(lines) + "\n"


def show_step(step: ProgramStep) -> list[str]:
    """A step, with those inside it two columns further in."""
    if isinstance(step, Nest):
        return show_nest(step)
    inside = [[f"  {line}" for s in steps for line in show_step(s)] for steps in bodies(step)]
    if isinstance(step, Gemm):
        zeros = " {sparse}" if step.sparse else ""
        a, b, out = (x.buffer.name for x in (step.a, step.b, step.out))
        return [f"  gemm {out} = {a} @ {b}{zeros}"]
    if isinstance(step, Factor):
        given = ", ".join(x.name for x in step.matrices)
        made = ", ".join(x.name for x in step.vectors)
        return [f"  {step.op} {given} -> {made}"]
    if isinstance(step, PythonCall):
        return [f"  call {step.node.attrs.get('function', step.node.op)}"]
    if isinstance(step, Check):
        return [f"  check {step.buffer.name}"]
    if isinstance(step, Bind):
        return [f"  {step.symbol} = {step.buffer.name}"]
    if isinstance(step, Control):
        cells = "".join(f", {b.name}: {b.ty}" for b in step.cells)
        return [f"  {step.name}{cells}", *inside[0]]
    if isinstance(step, Loop):
        until = "" if step.until is None else f" until {step.until.name}"
        threads = ", threads over turns" if step.divided else ""
        head = f"  for {step.var} in {step.start}:{step.stop}:{step.step}{until}{threads}"
        return [head, *inside[0]]
    if isinstance(step, Sweep):
        return [f"  sweep {step.down.inner[0].extent} rows in blocks", *inside[0]]
    if isinstance(step, While):
        return ["  while", *inside[0], f"  is {step.flag.name}", *inside[1]]
    return [f"  if {step.flag.name}", *inside[0], "  else", *inside[1]]


def show_nest(nest: Nest) -> list[str]:
    rows = ", ".join(f"{a.name}:{a.extent}" for a in nest.rows)
    inner = ", ".join(f"{a.name}:{a.extent}" for a in nest.inner)
    over = "" if nest.divided is None else f", threads over {nest.divided.name}"
    lines = [f"  {nest.name} rows({rows}) inner({inner}) {nest.schedule}{over}"]
    names: dict[int, str] = {}
    for k, stage in enumerate(nest.stages):
        turns = "" if stage.turns is None else f" turns({stage.turns.name}:{stage.turns.extent})"
        lines.append(f"    stage {k}{turns}")
        for store in stage.head:
            lines += _store("      once ", store, names)
        for fold in stage.folds:
            body, text = _express(fold.value, names)
            more, where = _where(fold.mask, names)
            lines += [*body, *more, f"      {fold.cell.name} = {fold.op} {text}{where}"]
        for store in stage.stores:
            lines += _store("      ", store, names)
    return lines


def _store(indent: str, store: Store, names: dict[int, str]) -> list[str]:
    lines: list[str] = []
    values = []
    for x in store.value:
        body, text = _express(x, names)
        lines += body
        values.append(text)
    more, where = _where(store.mask, names)
    place = f"{store.buffer.name}[{_position(store.at)}]"
    return [*lines, *more, f"{indent}{place} = {', '.join(values)}{where}"]


def _where(mask: Ex | None, names: dict[int, str]) -> tuple[list[str], str]:
    if mask is None:
        return [], ""
    lines, text = _express(mask, names)
    return lines, f" where {text}"


def _express(x: Ex, names: dict[int, str]) -> tuple[list[str], str]:
    """Lines that name the maps inside an expression, each once, and its own text."""
    if isinstance(x, Op):
        if id(x) in names:
            return [], names[id(x)]
        lines: list[str] = []
        texts = []
        for a in x.args:
            more, text = _express(a, names)
            lines += more
            texts.append(text)
        names[id(x)] = f"%{len(names)}"
        return [*lines, f"      {names[id(x)]}: {x.ty} = {x.op} {', '.join(texts)}"], names[id(x)]
    return [], _leaf(x, names)


def _leaf(x: Ex, names: dict[int, str]) -> str:
    if isinstance(x, Const):
        return x.text
    if isinstance(x, Size):
        return str(x.dim)
    if isinstance(x, (Scalar, Cell)):
        return x.name
    if isinstance(x, Index):
        return x.axis
    assert isinstance(x, Load)
    part = {0: ".re", 1: ".im"}.get(x.part, "")
    computed = "".join(f"+{names.get(id(t), '?')}*{stride}" for t, stride in x.computed)
    return f"{x.buffer.name}[{_position(x.at)}{computed}]{part}"


def _position(p: Position) -> str:
    parts = [str(p.offset)] if p.offset != 0 or not p.axes else []
    parts += [axis if stride == 1 else f"{axis}*({stride})" for axis, stride in p.axes]
    return " + ".join(parts)


def _dims(shape: tuple[object, ...]) -> str:
    return ",".join(map(str, shape))
