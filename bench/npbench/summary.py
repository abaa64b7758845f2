"""What comes of the cells: one entry per program and preset, means, and a table.

In: the rows of all cells. Out: plain dicts for the JSON file, and Markdown.

Invariants:
- Of a peer's variants the fastest with right answers counts; one with wrong answers never does, and
  one with partial answers only in `partly`, which is told apart everywhere.
- A program without a right answer of a peer counts as NumPy's own speed in that peer's mean, and so
  does a program that Tailorbird leaves plain, whatever the clock said of the same code twice.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

Row = dict[str, Any]
OWN = "tailorbird"
NEAR = 1.05  # as fast as the best, for a clock
MEASURED = ("version", "status", "median_ms", "numpy_ms", "speedup", "first_ms", "max_error")
KEPT = (*MEASURED, "notes", "reason", "compile_s", "rounds", "calls", "other_cores_busy")


def collect(rows: list[Row]) -> list[Row]:
    """One entry per program and preset."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["program"], row["preset"]), []).append(row)
    return [_entry(program, preset, found) for (program, preset), found in groups.items()]


def _entry(program: str, preset: str, rows: list[Row]) -> Row:
    peers = {name: _best(rows, name) for name in dict.fromkeys(row["peer"] for row in rows)}
    plain = peers.get("numpy", {})
    own = next((row for row in rows if row["peer"] == OWN), None)
    entry: Row = {"program": program, "preset": preset, "numpy_ms": plain.get("median_ms")}
    entry["peers"] = {name: row for name, row in peers.items() if name != "numpy"}
    speeds = {n: speedup(row) for n, row in entry["peers"].items() if n != OWN and is_right(row)}
    speeds["numpy"] = 1.0
    entry["best_peer"] = max(speeds, key=lambda name: speeds[name])
    if own is not None:
        entry["own"] = {name: value for name, value in own.items() if name not in KEPT}
        for name in ("program", "preset", "peer", "p10_ms", "load_ms"):
            entry["own"].pop(name, None)
        # Time over the best time there is, of peers and of plain NumPy; 1 and less is the best.
        mine = measured_speedup(entry["peers"][OWN])
        partly = [row["speedup"] for row in rows if row["status"] == "partial"]
        entry["over_best"] = max(speeds.values()) / mine
        entry["over_best_partly"] = max([*speeds.values(), *partly]) / mine
    return entry


def _best(rows: list[Row], peer: str) -> Row:
    """The variant that counts, with the names of the others and what became of them."""
    mine = [row for row in rows if row["peer"] == peer]
    right = [row for row in mine if is_right(row)]
    timed = [row for row in mine if "speedup" in row]
    partly = [row for row in timed if row["status"] == "partial"]
    chosen = max(right or partly or timed, key=lambda row: row["speedup"], default=mine[0])
    best = {name: chosen[name] for name in KEPT if name in chosen}
    best["plain"] = bool(chosen.get("tier")) and not chosen.get("native_calls")
    others = {row["version"]: _fate(row) for row in mine if row is not chosen}
    return {**best, **({"others": others} if others else {})}


def _fate(row: Row) -> str:
    if "speedup" in row:
        return f"{row['status']}, {row['speedup']:.3g}x"
    return f"{row['status']}: {row.get('reason', '')}"


def is_right(row: Row) -> bool:
    """Whether there is a time for right answers."""
    return row.get("status") == "right" and "speedup" in row


def measured_speedup(row: Row) -> float:
    """What the clock said; 1 where there is no right answer."""
    return float(row["speedup"]) if is_right(row) else 1.0


def speedup(row: Row) -> float:
    """What counts: a program that stays plain is NumPy."""
    return 1.0 if row.get("plain") else measured_speedup(row)


def geomean(values: Iterable[float]) -> float:
    """The geometric mean; 1 of nothing."""
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs)) if logs else 1.0


def means(entries: list[Row]) -> dict[str, dict[str, Row]]:
    """By preset and peer: how many are right, and the mean speed-up over NumPy."""
    out: dict[str, dict[str, Row]] = {}
    for preset in dict.fromkeys(entry["preset"] for entry in entries):
        here = [entry["peers"] for entry in entries if entry["preset"] == preset]
        names = dict.fromkeys(name for peers in here for name in peers)
        out[preset] = {}
        for name in names:
            rows = [peers.get(name, {}) for peers in here]
            right = [row for row in rows if is_right(row)]
            out[preset][name] = {
                "right": len(right),
                "programs": len(rows),
                "geomean": geomean(map(speedup, rows)),
                "geomean_of_right": geomean(map(speedup, right)),
            }
    return out


def table(entries: list[Row], found: dict[str, dict[str, Row]]) -> str:
    """Markdown: a table per preset, its means in the last line."""
    blocks = []
    for preset, peers in found.items():
        others = [name for name in peers if name != OWN]
        head = ["program", "NumPy ms", *([OWN] if OWN in peers else []), *others]
        head += ["best peer", "against it", "first call ms", "tier"]
        lines = [f"Preset {preset}: times as fast as NumPy.", "", _line(head)]
        lines.append("|---|" + "--:|" * (len(head) - 2) + "---|")
        for entry in entries:
            if entry["preset"] == preset:
                lines.append(_line(_cells(entry, peers, others)))
        means_line = [_number(peers[name]["geomean"]) for name in head if name in peers]
        lines.append(_line(["geomean", "", *means_line, *[""] * 4]))
        blocks.append("\n".join(lines))
    note = "* some of what NumPy returns or writes is missing; not counted as a peer's answer."
    return "\n\n".join([*blocks, note]) + "\n"


def _cells(entry: Row, peers: dict[str, Row], others: list[str]) -> list[str]:
    names = [*([OWN] if OWN in peers else []), *others]
    shown = [_ratio(entry["peers"].get(name, {})) for name in names]
    own = entry.get("own", {})
    ours = entry["peers"].get(OWN, {})
    against = f"{1 / entry['over_best']:.2f}" if "over_best" in entry else ""
    tier = own.get("tier", ours.get("status", ""))
    tier += f", {own['opaque_calls']} calls left to Python" if own.get("opaque_calls") else ""
    first = _number(ours.get("first_ms"))
    plain = _number(entry["numpy_ms"])
    return [entry["program"], plain, *shown, entry["best_peer"], against, first, tier]


def _ratio(row: Row) -> str:
    if is_right(row) or row.get("status") == "partial":
        return f"{row['speedup']:.3g}" + ("" if is_right(row) else "*")
    return str(row.get("status", ""))


def _number(value: Any) -> str:
    return "" if value is None else f"{value:.3g}"


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"
