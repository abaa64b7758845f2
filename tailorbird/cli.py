"""The command line: `tailorbird demo | hardware | explain | run | store | bench`.

In: words typed by somebody. Out: text on the console and an exit status: 0, or 1 where a check
failed, or 2 for words that make no sense. Every command is a thin call of something that Python
code can call as well; the stages are imported only by the command that needs them.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import inspect
import re
import runpy
import shutil
import sys
import textwrap
import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import typer

from tailorbird import events, knobs
from tailorbird.errors import TailorbirdError, UsageError

app = typer.Typer(
    name="tailorbird",
    help="Native code cut to fit your arrays and your machine.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

_PASSED_ON = {"allow_extra_args": True, "ignore_unknown_options": True}
_TYPE_TEXT = re.compile(r"(?P<dtype>[a-z]+\d*)\[(?P<shape>[\d, ]*)\]")
MOST_FILES = 20  # of the cache that `store` lists
_SAID = {"True": "on", "False": "off", "None": "unset", "()": "unset", "": "unset"}
_NAMED = re.compile(r"(?P<name>[A-Za-z_]\w*)=(?P<value>[^=].*)", re.DOTALL)


@app.command()
def demo(
    seconds: Annotated[float, typer.Option(help="Time to spend on each function.")] = 0.8,
) -> None:
    """Tailor a few array functions on this machine and show what was gained."""
    from tailorbird.demo import demo as run_demo

    rows = run_demo(seconds)
    if any(row.agrees.startswith("NO") for row in rows):
        raise typer.Exit(1)


@app.command()
def hardware() -> None:
    """Show what is known about this machine."""
    from tailorbird.hardware import show

    show()


@app.command()
def explain(
    target: Annotated[str, typer.Argument(help="FILE.py:FUNCTION or MODULE:FUNCTION.")],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            help="Each a type such as f32[64,128], a Python expression, or NAME= and one of these."
        ),
    ] = None,
) -> None:
    """Show what would run for a call of one function, and why.

    Without arguments they are taken from EXAMPLES in the function's module, a dict from the name of
    a function to a callable that makes a tuple of arguments.
    """
    import tailorbird as tb

    module, function = load_function(target)
    values, named = make_arguments(module, function.__name__, arguments or [])
    tailored = function if hasattr(function, "explain") else tb.tailor(function, background=False)
    check_arguments(target, function, values, named)
    tailored.warm(*values, **named)
    _print(tailored.explain(*values, **named))


@app.command(context_settings=_PASSED_ON)
def run(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="A Python script.", exists=True, dir_okay=False)],
) -> None:
    """Run a Python script, then list what was compiled and what stayed plain, with the reasons."""
    seen: list[events.Event] = []
    sys.argv = [str(file), *context.args]
    sys.path.insert(0, str(file.resolve().parent))
    try:
        with events.listening(seen.append):
            runpy.run_path(str(file), run_name="__main__")
    finally:
        for event in seen:
            typer.echo(f"tailorbird: {event}", err=True)


@app.command()
def store(
    clear: Annotated[bool, typer.Option("--clear", help="Remove all of it.")] = False,
    every: Annotated[
        bool, typer.Option("--all", help="List more than what was used last.")
    ] = False,
) -> None:
    """List what is kept on disk for the next process, compiled code and plans, or remove it."""
    from tailorbird.assemble.objects import default_cache
    from tailorbird.hardware.display import size

    cache = default_cache()
    if cache is None:
        typer.echo("the cache is switched off (TAILOR_CACHE)")
        return
    if clear:
        typer.echo(f"removed {cache.clear()} files from {cache.directory}")
        return
    files = sorted(cache.files(), key=lambda item: item[1].st_mtime)
    shown = files if every else files[-MOST_FILES:]
    for path, stat in shown:
        used = time.strftime("%Y-%m-%d %H:%M", time.localtime(stat.st_mtime))
        entry = cache.read(path)
        kind = "refused" if entry is None else "code" if entry.obj else "plan"
        name = "" if entry is None else entry.meta.get("name", "")
        typer.echo(f"{used}  {size(stat.st_size):>9}  {kind:7}  {name}")
    total = sum(stat.st_size for _, stat in files)
    used_last = f", {len(shown)} shown: --all lists them" if len(shown) < len(files) else ""
    in_all = size(total) if total else "0 B"
    typer.echo(f"{len(files)} files, {in_all}, in {cache.directory}{used_last}")


@app.command(context_settings=_PASSED_ON)
def bench(context: typer.Context) -> None:
    """Run benchmark suites against the peers that are installed; only in a source checkout."""
    sys.path.insert(0, str(Path.cwd()))
    if importlib.util.find_spec("bench") is None:
        raise UsageError("there is no bench/ here; run this in a checkout of the repository")
    main_module = importlib.import_module("bench.__main__")
    raise typer.Exit(main_module.main(context.args or ["--help"]))


@app.command("knobs")
def show_knobs() -> None:
    """List every switch: its environment variable, its value now, and what it does."""
    width = max(shutil.get_terminal_size((100, 24)).columns - 27, 30)
    for variable, _, value, doc in knobs.describe():
        said = _SAID.get(value, value)
        parts = textwrap.wrap(doc, width) + ([said] if len(said) > 7 else [])
        typer.echo(f"{variable:18} {said if len(said) <= 7 else '':7} {parts[0]}")
        for part in parts[1:]:
            typer.echo(f"{'':26} {part}")


def load_function(target: str) -> tuple[ModuleType, Any]:
    """The module and the function that `FILE.py:FUNCTION` or `MODULE:FUNCTION` names."""
    place, colon, name = target.rpartition(":")
    if not colon or not name:
        raise UsageError(f"{target!r} names no function; write FILE.py:FUNCTION")
    module = _load_file(Path(place)) if place.endswith(".py") else _load_module(place)
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        names = [key for key, value in vars(module).items() if callable(value)]
        near = difflib.get_close_matches(name, names, 3)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise UsageError(f"{place} has no function {name!r}{hint}")
    return module, found


def _load_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise UsageError(f"there is no file {path}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    sys.path.insert(0, str(path.resolve().parent))
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise UsageError(f"{path} cannot be imported: {_told(error)}") from error
    return module


def _load_module(name: str) -> ModuleType:
    sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(name)
    except Exception as error:
        raise UsageError(f"the module {name!r} cannot be imported: {_told(error)}") from error


def _told(error: Exception) -> str:
    """An exception in one line, with the line of the file that raised it where that is known."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename[0] != "<"]
    shown = frames and not isinstance(error, SyntaxError) and "importlib" not in frames[-1].filename
    line = f" (line {frames[-1].lineno} of {frames[-1].filename})" if shown else ""
    return f"{type(error).__name__}: {error}{line}"


def make_arguments(
    module: ModuleType, name: str, texts: list[str]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments from what was typed, or from the module's EXAMPLES where nothing was."""
    if texts:
        values: list[Any] = []
        named: dict[str, Any] = {}
        for text in texts:
            match = _NAMED.fullmatch(text.strip())
            if match is None:
                values.append(make_argument(text, vars(module)))
            else:
                named[match["name"]] = make_argument(match["value"], vars(module))
        return tuple(values), named
    example = getattr(module, "EXAMPLES", {}).get(name)
    if example is None:
        raise UsageError(f"say what {name} is called with, for example: 'f32[64,128]' 0.5")
    return tuple(example()), {}


def check_arguments(target: str, function: Any, values: Sequence[Any], named: Any) -> None:
    """Says how the function is called where it cannot be called like this."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*values, **named)
    except TypeError as error:
        called = f"{target.rpartition(':')[2]}{signature}"
        raise UsageError(f"{error}; it is called as {called}") from error


def make_argument(text: str, names: dict[str, Any]) -> Any:
    """A random array for a type such as `f32[64,128]`, else the value of the Python expression.

    >>> make_argument("i64[3]", {}).shape, make_argument("2 + 3", {})
    ((3,), 5)
    """
    import numpy as np

    from tailorbird.ir.types import LONG

    match = _TYPE_TEXT.fullmatch(text.strip())
    dtype = _dtype(match["dtype"], LONG) if match else None
    if match is None or dtype is None:
        try:
            return eval(text, {"np": np, **names})
        except Exception as error:
            advice = "write a type such as f32[64,128], or a Python expression"
            raise UsageError(f"{text!r} is no argument ({error}); {advice}") from error
    shape = tuple(int(part) for part in match["shape"].split(",") if part.strip())
    values = np.random.default_rng(0).uniform(0, 100, shape)
    return values.astype(dtype)


def _dtype(name: str, known: Mapping[str, Any]) -> Any:
    """The dtype of a name of ours (`f32`) or of NumPy's (`float32`, `f4`), or None."""
    import numpy as np

    try:
        return known[name] if name in known else np.dtype(name)
    except TypeError:
        return None


def _print(explanation: Any) -> None:
    """Show what `explain` gave, as wide as the terminal; rich would take f32[n,64] for markup."""
    width = shutil.get_terminal_size((100, 24)).columns
    typer.echo(explanation.text(width) if hasattr(explanation, "text") else explanation)


def main() -> None:
    """The entry point `tailorbird`; our own errors are one line, not a traceback."""
    try:
        knobs.describe()  # a value that cannot be read is said before anything runs
        for name in knobs.unknown():
            near = difflib.get_close_matches(name, [row[0] for row in knobs.describe()], 1)
            hint = f"; did you mean {near[0]}?" if near else ", see `tailorbird knobs`"
            typer.echo(f"tailorbird: {name} is set and is no switch{hint}", err=True)
        app()
    except TailorbirdError as error:
        typer.echo(f"tailorbird: {error}", err=True)
        raise SystemExit(2) from error


if __name__ == "__main__":
    main()
