"""The second half of an attempt at a loop: its back edge, and the node.

In: an attempt that has run its body. Out: True when the node is there; False when the attempt
learnt something, which the next one uses; `Mismatch` when the heap at the end does not correspond
to the head.

Invariants: the correspondence is one to one on the buffers of the head and leaves pinned ones
alone; a carried scalar has the type of the head; what is yielded as it entered is not carried.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tailorbird.capture import sound, tagging
from tailorbird.capture.attempt import put_back
from tailorbird.capture.branches import (
    MISSING,
    equal_constants,
    equal_in_this_call,
    is_scalar,
    scalar_operand,
)
from tailorbird.capture.heap import (
    Relation,
    arrays,
    symbols_in,
)
from tailorbird.capture.loose import fitted, joined_type, loosen, possible
from tailorbird.capture.opening import Hole, Mismatch, Opening, Slot, filled
from tailorbird.capture.returning import is_part
from tailorbird.capture.values import Arr, Buffer, Poison, Scal, is_static
from tailorbird.ir.expr import Dim, Expr, Sym
from tailorbird.ir.node import Node, Operand, Value, type_of
from tailorbird.ir.types import WEAK_INT, Type

if TYPE_CHECKING:
    pass


class Closing(Opening):
    """One attempt, step by step."""

    def closes(self) -> bool:
        t = self.t
        mark = t.assume.enter()
        place = (t.file, t.line)
        self.plan()
        if self.rounds is None:
            self.test()
        self.body()
        t.region = self.outer
        t.assume.leave(mark)
        t.file, t.line = place
        relation = self.back_edge()
        if self.again:
            return False
        tagging.alone(self)
        which = self.corresponding(relation)
        if not self.again:
            self.find_returned(which)
        if self.again:
            return False
        sound.correspondence(which, self.heads(), self.pins & set(which))
        self.close(which)
        return True

    # the back edge

    def back_edge(self) -> Relation:
        """Relates every name and pin at the end to what it was at the head."""
        relation = Relation(self.pins)
        names = self.frame.names
        for buffer in self.t.buffers():
            late = buffer.argument is not None and buffer not in self.before
            if late and buffer.content is not buffer.argument:
                self.again = True  # found first inside, and written: the next attempt carries it
        for name in sorted(self.site.live):
            now = names.get(name, MISSING)
            if name in self.tagged and now is not MISSING and not isinstance(now, Poison):
                tagging.leaves(self, relation, name, now)
                continue
            if name not in self.head:
                self.bound_inside(name, now)
                continue
            then = self.head[name]
            if isinstance(then, Poison):
                continue
            if now is MISSING or isinstance(now, Poison):
                self.info.poison.add(name)
                self.again = True
            elif name in self.carried:
                self.leaves(relation, name, self.carried[name], now)
            else:
                self.related(relation, name, then, now)
        for slot in self.slots:
            if slot.buffer is not None and slot.buffer not in relation.forth:
                relation.add(slot.buffer, slot.buffer)
        return relation

    def related(self, relation: Relation, name: str, then: Any, now: Any) -> None:
        if isinstance(then, Arr) != isinstance(now, Arr):
            raise Mismatch(f"{name}, which changes its kind in the loop,")
        if then is now or (is_static(then) and is_static(now) and equal_constants(then, now)):
            relation.relate(then, then)
            return
        if not isinstance(then, Arr) and not _arrays_only(then, now):
            raise Mismatch(f"{name}, which changes in the loop,")
        relation.relate(then, now)

    def bound_inside(self, name: str, now: Any) -> None:
        """A name that was unbound at the head: wanted after the loop, it enters as nothing."""
        from tailorbird.capture.loops import Late, always_runs

        if now is MISSING or isinstance(now, Poison) or name not in self.site.after:
            return
        if not is_part(name) and not always_runs(self.t, self.rounds):
            self.info.poison.add(name)
            return
        if is_scalar(now):
            operand = scalar_operand(self.t, now)
            self.info.late[name] = Late(type_of(operand))
        elif is_part(name):
            self.returned[name] = now
            return
        elif isinstance(now, Arr) and now.buffer.is_own:
            if now.buffer in self.before or self.shows_inside((now.view, now.buffer.type.shape)):
                raise Mismatch(f"{name}, which the loop binds to an array or view of its own,")
            self.info.late[name] = Late(now.buffer.type, now.buffer, now.view)
        else:
            raise Mismatch(f"{name}, which the loop binds and which is used after it,")
        self.again = True

    def find_returned(self, which: dict[Buffer, Buffer]) -> None:
        """What `return` gave is an array of the head, or one that the loop makes: that one enters
        the next attempt as nothing.
        """
        from tailorbird.capture.loops import Late

        heads = {end: head for head, end in which.items()}
        widened = set(self.general.values())
        for name, now in self.returned.items():
            if is_static(now):
                continue
            buffer = now.buffer
            head = heads.get(buffer)
            inside = self.shows_inside((now.view, buffer.type.shape)) and head not in widened
            if not buffer.is_own or inside or (now.view and head in widened):
                raise Mismatch("what is returned in a loop, which is made of an array there,")
            if head is None:
                self.info.late[name] = Late(buffer.type, buffer, now.view)
                self.again = True
            elif head is not buffer:
                self.returned[name] = Arr(head, now.view)

    def shows_inside(self, x: Any) -> bool:
        """Whether a symbol that is known only in the loop stands in a view or a shape."""
        return any(sym not in self.t.assume.hints for sym in symbols_in(x))

    def leaves(self, relation: Relation, name: str, then: Any, now: Any) -> None:
        """What a name with scalars has at the end: each goes into its slot."""
        if isinstance(then, Slot):
            self.scalar_leaves(then, now)
        elif not isinstance(then, tuple):
            self.related(relation, name, then, now)
        elif isinstance(now, tuple) and len(now) == len(then):
            for k, (a, b) in enumerate(zip(then, now)):
                self.leaves(relation, f"{name}[{k}]", a, b)
        else:
            raise Mismatch(f"{name}, which changes its kind in the loop,")

    def scalar_leaves(self, slot: Slot, now: Any) -> None:
        if not is_scalar(now):
            raise Mismatch(f"{slot.name}, which changes its kind in the loop,")
        t, name = self.t, slot.name
        t.region = self.regions[-1]
        operand = scalar_operand(t, now)
        types = possible(t, operand)
        kind = joined_type(slot.type, type_of(operand))
        if kind is None:
            raise Mismatch(f"{name}, which is a {slot.type} first and then a {type_of(operand)},")
        known = {slot.type, *slot.loose, *self.later_types(name)}
        if kind != slot.type or not set(types) <= known:
            self.info.types[name] = kind
            self.info.extra[name] = tuple(dict.fromkeys((*self.later_types(name), *types)))
            self.again = True
        else:
            slot.leaving = fitted(t, operand, kind)
            slot.types = types
        t.region = self.outer

    def corresponding(self, relation: Relation) -> dict[Buffer, Buffer]:
        """The buffer of the end for each of the head: one to one, pinned ones themselves."""
        heads = self.heads()
        which: dict[Buffer, Buffer] = {}
        bad = {b for b in heads if not _one_to_one(relation, b)}
        if bad and self.info.tagging:
            tagging.propose(self, relation, bad)
            if self.again:
                return which
        for buffer in heads:
            images = relation.forth[buffer]
            image = next(iter(images))
            if buffer in bad or not isinstance(image, Buffer):
                raise Mismatch(self.why(buffer))
            if image.type.dtype != buffer.type.dtype or image.type.rank != buffer.type.rank:
                raise Mismatch(f"an array that is {buffer.type} first and then {image.type},")
            if image.lent and not buffer.lent:
                raise Mismatch(self.why(buffer))
            if image.type.shape != buffer.type.shape:
                self.widen(buffer, image, relation)
            if buffer.contiguous and not image.contiguous:
                self.info.gaps.add(buffer)
                self.again = True
            which[buffer] = image
        return which

    def heads(self) -> list[Buffer]:
        """The buffers that are carried."""
        return [slot.buffer for slot in self.slots if slot.buffer is not None]

    def widen(self, head: Buffer, end: Buffer, relation: Relation) -> None:
        """Sizes that differ at the back edge become sizes of the loop's own."""
        canon = self.t.assume.canon
        numbers = {sym: number for number, sym in self.holes.items()}
        shape: list[Any] = []
        changed = False
        for d, e in zip(map(canon, head.type.shape), map(canon, end.type.shape)):
            if d in numbers:
                shape.append(Hole(numbers[d]))
            elif d == e or equal_in_this_call(self.t, d, e):
                shape.append(d)
            else:
                shape.append(Hole(self.number(d, e)))
                changed = True
        if changed:
            if (head, end) in relation.partly or head not in self.before:
                raise Mismatch("an array that is shown by a view and changes its size,")
            self.info.sizes[head] = tuple(shape)
            self.again = True

    def number(self, d: Dim, e: Dim) -> int:
        """The same pair of sizes is the same new size."""
        return self.info.pairs.setdefault((d, e), len(self.info.pairs))

    def why(self, buffer: Buffer) -> str:
        names = [n for n, x in self.head.items() if any(a.buffer.root is buffer for a in arrays(x))]
        if names:
            return f"{names[0]}, which shows another array or part after a round of the loop,"
        return "an array that others see as well, which changes places in the loop,"

    # the end

    def close(self, which: dict[Buffer, Buffer]) -> None:
        """Makes the node, takes out what does not change, and binds names and buffers after it."""
        t = self.t
        for slot in self.slots:
            if slot.buffer is not None:
                slot.leaving = which[slot.buffer].content
        tagging.leave(self)
        self.reshaped_stay_true()
        kept = [slot for slot in self.slots if not self.unchanged(slot)]
        self.take_out([slot for slot in self.slots if self.unchanged(slot)])
        node = self.node(kept)
        results = dict(zip(map(id, kept), node.outputs))
        unknown = {n: x for n, x in self.entry.items() if isinstance(x, Poison)}
        names = {**unknown, **self.head, **self.returned}
        scalars: dict[int, Any] = {}
        for slot in self.slots:
            value = results.get(id(slot))
            if slot.buffer is not None:
                entering = slot.entering
                assert isinstance(entering, Value)
                slot.buffer.content = entering if value is None else value
                self.retyped(slot, names)
            elif value is None:
                unbound = slot.origin is None
                scalars[id(slot)] = self.wrapped(slot.entering) if unbound else slot.origin
            else:
                scalars[id(slot)] = self.wrapped(self.loosened(slot, value))
        names.update((name, filled(x, scalars)) for name, x in self.carried.items())
        for name, tagged in self.tagged.items():
            tests = [results.get(id(slot), slot.entering) for slot in tagged.flags]
            names[name] = tagged.reference(self, tests)
        self.frame.names = names
        self.poisoned(names)
        put_back(self.derived)
        t.region = self.outer

    def unchanged(self, slot: Slot) -> bool:
        if slot.symbol is not None:
            return bool(slot.leaving == slot.symbol)
        return slot.leaving is slot.parameter

    def take_out(self, slots: list[Slot]) -> None:
        """What the loop does not change is used as it entered."""
        from tailorbird.capture.loops import replace_values

        for region in self.regions:
            places = {id(slot): k for k, slot in enumerate(self.slots)}
            values = {region.parameters[places[id(slot)]]: slot.entering for slot in slots}
            gone = set(values)
            region.parameters = [p for p in region.parameters if p not in gone]
            replace_values(region, values)
            for slot in self.slots:
                if isinstance(slot.leaving, Value):
                    slot.leaving = values.get(slot.leaving, slot.leaving)
            if isinstance(self.stop, Value):
                self.stop = values.get(self.stop, self.stop)
        for slot in slots:
            for sym in self.symbols_of(slot):
                self.t.assume.replace(sym, self.exactly(slot.entering))

    def symbols_of(self, slot: Slot) -> list[Sym]:
        """The symbols that were bound to what a slot holds, in the test and in the body."""
        if slot.symbol is None or isinstance(slot.entering, Value):
            return []
        found = []
        for region in self.regions:
            for node in region.nodes:
                if node.op == "bind" and node.inputs[0] is slot.entering:
                    found.append(Sym(node.attrs["symbol"], "value"))
        return found

    def exactly(self, x: Operand) -> Dim:
        assert isinstance(x, (int, Expr))
        return x

    def node(self, kept: list[Slot]) -> Node:
        t = self.t
        *_, body = self.regions
        body.yields = tuple(slot.leaving for slot in kept)
        entering: list[Operand] = [slot.entering for slot in kept]
        renamed: dict[Dim, Dim] = {}
        types = [self.result_type(slot.type, renamed) for slot in kept]
        if self.rounds is None:
            return t.region.append(
                Node("while", entering, {}, types, self.regions, line=self.place())
            )
        assert self.variable is not None
        attrs: dict[str, Any] = {"var": self.variable.name}
        if self.stop is not None:
            attrs["stops"] = True
            body.yields = (*body.yields, self.stop)
        step = self.rounds.step * self.period
        bounds: list[Operand] = [
            t.assume.canon(self.rounds.start),
            t.assume.canon(self.rounds.stop),
        ]
        inputs = [*bounds, step, *entering]
        return t.region.append(Node("loop", inputs, attrs, types, self.regions, line=self.place()))

    def place(self) -> str:
        self.t.line = self.site.statement.lineno
        return self.t.place()

    def result_type(self, kind: Type, renamed: dict[Dim, Dim]) -> Type:
        """Sizes of the loop's own are sizes of their own again after it."""
        own = set(self.holes.values())
        shape: list[Dim] = []
        for d in kind.shape:
            if d in own and d not in renamed:
                renamed[d] = self.t.new_fresh()
            shape.append(renamed.get(d, d))
        return Type(kind.dtype, tuple(shape), kind.weak)

    def retyped(self, slot: Slot, names: dict[str, Any]) -> None:
        """A buffer whose sizes changed: its names show it by its new type."""
        buffer = slot.buffer
        assert buffer is not None
        if buffer.content.type == buffer.type:
            return
        buffer.type = buffer.content.type
        for name, x in names.items():
            if isinstance(x, Arr) and x.buffer is buffer:
                names[name] = Arr(buffer)

    def loosened(self, slot: Slot, value: Value) -> Value:
        """A result of the loop, with the types that it may have: where there are rounds and all
        leave one type, that.
        """
        from tailorbird.capture.loops import always_runs

        runs = always_runs(self.t, self.rounds)
        if runs and len(slot.types) == 1 and slot.types[0] != slot.type:
            kind = slot.types[0]
            return self.t.emit("cast", [value], {"dtype": kind.dtype}, kind)
        types = possible(self.t, slot.leaving)
        self.t.loose.pop(value, None)
        entered = () if runs else slot.loose
        extra = tuple(self.later_types(slot.name))
        loosen(self.t, value, (*types, *entered, *extra))
        return value

    def poisoned(self, names: dict[str, Any]) -> None:
        for name in self.info.poison:
            names[name] = Poison(f"{name}, which only a round of the loop binds,")
        for name, x in list(names.items()):
            if isinstance(x, Poison) and name not in self.entry and name not in self.info.poison:
                del names[name]

    def wrapped(self, x: Operand) -> Any:
        if isinstance(x, Value):
            return self.t.bound(x) if x.type == WEAK_INT else Scal(x)
        return x

    def reshaped_stay_true(self) -> None:
        """A reshape that may be a copy must not outlive a write to its base."""
        changed = {s.buffer for s in self.slots if s.buffer is not None and not self.unchanged(s)}
        held = [a for x in (*self.head.values(), *self.t.stack) for a in arrays(x)]
        for x in held:
            if x.buffer.base is not None and not x.buffer.shares and x.buffer.root in changed:
                self.t.refuse("reshape_alias", name="a reshaped array")


def _one_to_one(relation: Relation, buffer: Buffer) -> bool:
    """Whether a buffer of the head is one of the end, and that one no other."""
    images = relation.forth[buffer]
    image = next(iter(images))
    return len(images) == 1 and isinstance(image, Buffer) and relation.back.get(image) == {buffer}


def _arrays_only(x: Any, y: Any) -> bool:
    """Whether both are tuples of arrays, of one length."""
    if not isinstance(x, tuple) or not isinstance(y, tuple) or len(x) != len(y):
        return False
    return all(isinstance(a, Arr) and isinstance(b, Arr) for a, b in zip(x, y))
