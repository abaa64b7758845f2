"""assemble/memory.py: arrays own their blocks, freed blocks come back, nothing is kept too long."""

from __future__ import annotations

import ctypes
import os
import pickle
import threading
import warnings

import numpy as np
import pytest

from tailorbird import knobs
from tailorbird.assemble import memory, memory_ir, process, symbols

MIB = 1 << 20
HANDLER = process.numpy_core().multiarray.get_handler_name


@pytest.fixture(autouse=True)
def nothing_kept():
    memory.refresh()
    memory.release()
    yield
    memory.refresh()
    memory.release()


def block(mib: float = 8) -> np.ndarray:
    return memory.new_array((int(mib * MIB / 8),), np.float64)


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def scratch():
    take = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int64)(symbols.resolve_one("tb_scratch"))
    give = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(
        symbols.resolve_one("tb_scratch_free")
    )
    return take, give


def test_arrays_own_their_data_and_are_aligned():
    for shape in [(), (0,), (3,), (1000, 1000), (MIB,), (4, MIB)]:
        array = memory.new_array(shape, np.float32)
        array[...] = 1
        assert array.shape == shape and array.flags.owndata and array.flags.c_contiguous
        assert array.base is None and array.ctypes.data % 64 == 0
        assert HANDLER(array) == "tailorbird"
        if array.nbytes >= memory_ir.LARGE:  # far from where NumPy's lie
            assert array.ctypes.data % 4096 == memory_ir.START
    assert HANDLER() == "default_allocator"
    assert HANDLER(np.empty(10)) == "default_allocator"


def test_references_are_not_leaked():
    import gc
    import sys

    gc.collect()  # what other tests left in cycles must not go while it is counted
    descr = np.dtype(np.float64)
    before = sys.getrefcount(descr)
    for _ in range(100):
        block(1)
    assert sys.getrefcount(descr) == before


def test_a_freed_block_is_used_again():
    first = block()
    address = first.ctypes.data
    del first
    assert memory.kept() > 8 * MIB
    second = block()
    assert second.ctypes.data == address
    assert memory.kept() == 0
    del second
    near = block(7)  # fills four fifths of it
    assert near.ctypes.data == address
    del near
    far = block(4)
    assert memory.kept() == 0  # no kept block fitted, so they were unmapped first
    assert far.size == 4 * MIB // 8


def test_the_newest_fitting_block_is_taken():
    arrays = [block(8), block(16), block(8)]
    addresses = [array.ctypes.data for array in arrays]
    while arrays:
        arrays.pop(0)
    assert block(8).ctypes.data == addresses[2]
    assert block(16).ctypes.data == addresses[1]


def test_resize_grows_shrinks_and_keeps_values():
    array = block(2)
    array[:] = np.arange(array.size)
    for size in (3 * array.size, array.size // 2, 10, 5 * MIB):
        known = min(size, array.size)
        array.resize(size, refcheck=False)
        assert array.flags.owndata
        assert np.array_equal(array[:10], np.arange(10))
        assert array[known - 1] == min(known, 10 if size == 5 * MIB else known) - 1
    assert not array[10:].any()


def test_calloc_gives_zeros_even_from_a_used_block():
    class Allocator(ctypes.Structure):
        _fields_ = [(name, ctypes.c_void_p) for name in ("ctx", "malloc", "calloc")]

    address = memory._library().address("tb_mem_handler") + 128
    calloc = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)(
        Allocator.from_address(address).calloc
    )
    _, give = scratch()
    for count in (100, 2 * MIB, 2 * MIB):
        data = calloc(None, count, 8)
        array = np.ctypeslib.as_array((ctypes.c_int64 * count).from_address(data))
        assert not array.any()
        array[:] = 7
        give(data, 0)
    assert not calloc(None, 1 << 62, 1 << 62)


def test_pickle_copy_and_views():
    array = block(2)
    array[:] = np.arange(array.size)
    assert np.array_equal(pickle.loads(pickle.dumps(array)), array)
    view = array[::2]
    del array
    assert view[3] == 6
    assert view.base.flags.owndata


def test_memory_goes_back_to_the_system():
    memory.release()
    before = resident()
    arrays = [block(64) for _ in range(4)]
    for array in arrays:
        array.fill(1)
    assert resident() - before > 200 * MIB
    arrays.clear()
    array = None
    assert 0 < memory.kept() <= memory_ir.KEEP
    memory.release()
    assert resident() - before < 64 * MIB


def test_what_is_kept_is_bounded():
    arrays = [block(2) for _ in range(20)]
    arrays.clear()
    assert memory.kept() <= 8 * 3 * MIB
    arrays = [block(200) for _ in range(5)]  # never touched, so no memory is used
    arrays.clear()
    assert memory.kept() <= memory_ir.KEEP
    huge = block(600)
    del huge
    assert memory.kept() <= memory_ir.KEEP


def test_recycling_can_be_switched_off():
    with knobs.scope(recycle=False, huge_pages=False):
        memory.refresh()
        array = block()
        array.fill(1)
        del array
        assert memory.kept() == 0


def test_out_of_memory_is_a_memory_error():
    with pytest.raises(MemoryError):
        memory.new_array((1 << 46,), np.float64)
    with pytest.raises(ValueError):
        memory.new_array((1 << 40, 1 << 40), np.float64)
    take, _ = scratch()
    assert not take(1 << 60)


def test_threads_free_what_others_made():
    wrong = []
    box: list[np.ndarray] = []

    def churn(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(100):
            array = block(float(rng.choice([1, 1.5, 2, 3])))
            array[::512] = seed
            box.append(array)
            if not (array[::512] == seed).all():
                wrong.append(seed)
            del array
            if len(box) > 4:
                box.pop(0)

    threads = [threading.Thread(target=churn, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_scratch_needs_no_gil_and_recycles():
    take, give = scratch()
    for size in (0, 1, 100, MIB - 1, MIB, 5 * MIB):
        address = take(size)
        assert address and address % 64 == 0
        ctypes.memset(address, 1, size)
        give(address, size)
        again = take(size)
        assert size < MIB or again == address
        give(again, size)
    give(None, 0)


def test_fork_keeps_both_sides_working():
    array = block()
    array[:] = 3
    freed = block(16)
    del freed
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        other = block(16)
        other[:] = 4
        array[:] = 5
        good = (array == 5).all() and (other == 4).all()
        del array, other
        os._exit(0 if good and (block() is not None) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert (array == 3).all()
    mine = block(16)
    mine[:] = 6
    assert (array == 3).all()


def test_a_user_handler_is_left_in_place():
    core = process.numpy_core().multiarray
    before = core.get_handler_name(np.empty(1000))
    block()
    assert core.get_handler_name(np.empty(1000)) == before
