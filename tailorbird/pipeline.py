"""The stages, in the order they run. Read this first.

    capture -> profile -> rewrite -> fuse -> lower -> emit -> assemble

In: a function and the arguments of one call. Out: a variant. One wrapper runs every stage: time it,
run it, check what it gave, show or dump it, or take an edited file instead. Nothing else names the
order.

- `TAILOR_SHOW=rewrite,emit` prints stages; `TAILOR_DUMP=dir` writes `03_rewrite.graph` and so on
  into a folder there for each function.
- A file of that name in `TAILOR_OVERRIDE=dir` replaces the stage's output, for the stages whose
  text parses back: graphs and LLVM IR.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tailorbird import events, knobs
from tailorbird.assemble import build, symbols, target
from tailorbird.capture import capture
from tailorbird.dataclass import dataclass, field
from tailorbird.dispatch.entry import EntryEmitter
from tailorbird.dispatch.leaf import Leaf
from tailorbird.dispatch.products import choose
from tailorbird.dispatch.trampoline import is_direct
from tailorbird.dispatch.variant import Recipe, Variant, Whole, leaves_of, make_variant
from tailorbird.errors import ParseError, Refused, UsageError, VerifyError
from tailorbird.fuse.groups import fuse
from tailorbird.fuse.show import show_plan
from tailorbird.ir.expr import Sym
from tailorbird.ir.node import Graph
from tailorbird.ir.scope import sizes_of
from tailorbird.ir.show import show
from tailorbird.ir.verify import verify
from tailorbird.lower.program import lower
from tailorbird.lower.show import show_program
from tailorbird.profile.look import Facts, look
from tailorbird.reasons import why
from tailorbird.rewrite.algebra import reorder
from tailorbird.rewrite.decompose import decompose
from tailorbird.rewrite.moves import simplify_moves
from tailorbird.rewrite.selects import select
from tailorbird.rewrite.sparsity import mark_sparse
from tailorbird.rewrite.tables import tabulate


@dataclass
class Work:
    """What is being built; each stage fills in its part."""

    function: Any
    bound: dict[str, Any]
    names: Sequence[str]
    captured: Any = None
    graph: Any = None
    values: list[Any] = field(default_factory=list)
    facts: dict[Any, Facts] = field(default_factory=dict)
    leaves: list[Any] = field(default_factory=list)
    plan: Any = None
    program: Any = None
    ir: str = ""
    context: Any = None
    library: Any = None
    places: list[int] = field(default_factory=list)
    milliseconds: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Stage:
    """A stage: its name, what it does to the work, its text, and how edited text is read back."""

    name: str
    run: Callable[[Work], None]
    extension: str
    text: Callable[[Work], str]
    read: Callable[[Work, str], None] | None = None


def _capture(work: Work) -> None:
    work.captured = capture(work.function, work.bound)
    work.graph = work.captured.graph


def _profile(work: Work) -> None:
    find = work.captured.sources
    work.values = [s.find(work.function, work.bound, work.captured.constants) for s in find]
    work.facts = {p: look(x) for p, x in zip(work.graph.parameters, work.values)}


def _rewrite(work: Work) -> None:
    sizes, told = sizes_of(work.graph, work.values), work.captured.reasons
    graph = decompose(reorder(work.graph, sizes, told))
    graph = mark_sparse(select(simplify_moves(graph)), work.facts, sizes)
    work.graph = tabulate(graph, sizes, told)
    verify(work.graph)


def _fuse(work: Work) -> None:
    work.leaves = leaves_of(work.graph, work.values)
    for leaf, value in zip(work.leaves, work.values):
        if leaf.written and not value.flags.writeable:
            raise Refused(why("numpy_raises", error="ValueError: the output array is read-only"))
    for written in work.graph.finals:
        if not written.type.rank:  # native code gets its value, not its memory
            raise Refused(why("in_place_write", name=f"{written.name}, an array of rank 0,"))
    work.plan = fuse(work.graph)
    if not work.plan.steps:
        raise Refused(why("nothing_to_compile", name=work.function.__qualname__))


def _lower(work: Work) -> None:
    layouts = tuple(leaf.layout for leaf in work.leaves[: len(work.graph.parameters)])
    width = target.host().vector_bytes
    work.program = lower(work.graph, work.plan, layouts, width, sizes_of(work.graph, work.values))


def _emit(work: Work) -> None:
    sources = work.captured.sources
    work.places = list(range(len(sources)))
    if is_direct(work.captured):
        work.places = [work.names.index(s.root[1]) for s in sources]
    work.ir, work.context = _emitter(work).emit([])


def _emitter(work: Work) -> EntryEmitter:
    machine = target.host()
    choice, wide = choose(machine), machine.vector_bytes == 64
    return EntryEmitter(work.program, work.leaves, work.places, wide, choice)


def _assemble(work: Work) -> None:
    work.library = build.build(work.ir, ["entry"], symbols.resolve, name=work.function.__qualname__)


def _read_graph(work: Work, text: str) -> None:
    from tailorbird.ir.parse import parse

    work.graph = verify(parse(text))


def _read_ir(work: Work, text: str) -> None:
    work.ir = text


def _assembly(work: Work) -> str:
    from tailorbird.assemble import jit

    return jit.assembly(work.ir)


def _graph_text(work: Work) -> str:
    return show(work.graph)


def _facts_text(work: Work) -> str:
    return "".join(f"{p.name}: {p.type}  {found}\n" for p, found in work.facts.items())


STAGES = [
    Stage("capture", _capture, "graph", _graph_text, _read_graph),
    Stage("profile", _profile, "facts", _facts_text),
    Stage("rewrite", _rewrite, "graph", _graph_text, _read_graph),
    Stage("fuse", _fuse, "plan", lambda work: show_plan(work.plan)),
    Stage("lower", _lower, "kernels", lambda work: show_program(work.program)),
    Stage("emit", _emit, "ll", lambda work: work.ir, _read_ir),
    Stage("assemble", _assemble, "s", _assembly),
]


LAST = STAGES[-1].name


def build_variant(
    function: Any, bound: dict[str, Any], names: Sequence[str]
) -> tuple[Variant, Any]:
    """Runs every stage for a function and the arguments of one call by parameter name."""
    work = run_stages(function, bound, names)
    name = function.__qualname__
    whole = Whole(work.program, work.ir)
    recipe = Recipe(
        name,
        work.program.graph.results,
        work.leaves,
        work.places,
        work.context.objects,
        build.cache_key(work.ir, target.host()),
        lambda: whole.program.graph,
        lambda graph: whole,
        {sym.name: size for sym, size in sizes_of(work.graph, work.values).items()},
    )
    variant = make_variant(recipe, work.library, work.milliseconds)
    variant.reasons += work.captured.reasons
    events.record(
        "compiled",
        name,
        milliseconds=round(sum(work.milliseconds.values()), 2),
        steps=len(work.program.steps),
    )
    return variant, work.captured


def again(graph: Graph, leaves: list[Leaf], places: list[int], sizes: dict[str, int]) -> Whole:
    """What a graph is lowered to, once more: for a variant that came from the disk."""
    work = Work(None, {}, (), graph=graph, leaves=leaves, places=places)
    layouts = tuple(leaf.layout for leaf in leaves[: len(graph.parameters)])
    known = {Sym(name, "int" if name in graph.ints else "size"): n for name, n in sizes.items()}
    work.program = lower(graph, fuse(graph), layouts, target.host().vector_bytes, known)
    graph.guards[:] = dict.fromkeys(graph.guards)  # those of the schedules are in the text already
    ir, _ = _emitter(work).emit([])
    return Whole(work.program, ir)


def run_stages(
    function: Any,
    bound: dict[str, Any],
    names: Sequence[str],
    last: str = LAST,
    texts: dict[str, str] | None = None,
) -> Work:
    """Runs the stages up to `last`; the text of each goes into `texts`, if that is wanted."""
    work = Work(function, bound, names)
    for name in set(knobs.get("show")).difference(stage.name for stage in STAGES):
        known = ", ".join(stage.name for stage in STAGES)
        print(f"-- there is no stage {name} to show; the stages are {known}", file=sys.stderr)
    for number, stage in enumerate(STAGES, 1):
        try:
            run_stage(stage, number, work)
        except Refused as refused:
            refused.captured = refused.captured or work.captured
            raise
        if texts is not None:
            texts[stage.name] = stage.text(work)
        if stage.name == last:
            break
    return work


def run_stage(stage: Stage, number: int, work: Work) -> None:
    """One stage: run, take an edited file instead, time, show, dump."""
    name = work.function.__qualname__
    file = Path(name) / f"{number:02}_{stage.name}.{stage.extension}"
    start = time.perf_counter()
    stage.run(work)
    override = knobs.get("override")
    if override is not None and stage.read is not None and (override / file).is_file():
        try:
            stage.read(work, (override / file).read_text())
        except (ParseError, VerifyError, OSError) as error:
            raise UsageError(f"{override / file} is no output of {stage.name}: {error}") from error
        events.record("overridden", name, stage=stage.name)
    work.milliseconds[stage.name] = (time.perf_counter() - start) * 1e3
    if stage.name in knobs.get("show"):
        print(f"-- {stage.name} of {name}\n{stage.text(work)}", file=sys.stderr)
    dump = knobs.get("dump")
    if dump is not None:
        try:
            (dump / name).mkdir(parents=True, exist_ok=True)
            (dump / file).write_text(stage.text(work))
        except OSError as error:
            raise UsageError(f"TAILOR_DUMP: {dump / file} cannot be written: {error}") from error
