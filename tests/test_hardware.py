"""The hardware profile: read from a made-up machine, and from this one."""

from __future__ import annotations

import json

import pytest

import tailorbird as tb
from tailorbird.hardware import machine, profile
from tailorbird.hardware.display import rows, size

CPU_INFO = """processor : 0
model name\t: Some CPU
flags\t\t: sse2 fma avx2 {more}

processor : 1
model name\t: Another
"""


def build_machine(root, more="", quota="max 100000"):
    files = {
        "proc/cpuinfo": CPU_INFO.format(more=more),
        "proc/meminfo": "MemTotal:  1000 kB\nHugepagesize:  2048 kB\n",
        "sys/fs/cgroup/cpu.max": quota,
        "sys/fs/cgroup/memory.max": "512000",
        "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never",
        **cache_files(0, 1, "Data", "32K", "0"),
        **cache_files(1, 1, "Instruction", "64K", "0"),
        **cache_files(2, 3, "Unified", "32M", "0-3,8"),
    }
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def cache_files(index, level, kind, total, shared):
    folder = f"sys/devices/system/cpu/cpu0/cache/index{index}"
    values = {"level": level, "type": kind, "size": total, "coherency_line_size": 64}
    values["shared_cpu_list"] = shared
    return {f"{folder}/{name}": str(value) for name, value in values.items()}


def test_reads_a_machine(tmp_path):
    found = profile(build_machine(tmp_path, quota="100000 100000"))
    assert found.cpu == "Some CPU"
    assert (found.simd, found.vector_bytes) == ("avx2", 32)
    assert found.cores == 1
    assert found.memory == 512000
    assert found.huge_pages == "madvise"
    assert found.huge_page == 2 << 20
    assert [found.cache(level) for level in (1, 2, 3)] == [32 << 10, 0, 32 << 20]
    assert found.caches[-1].shared_by == 5


@pytest.mark.parametrize(
    ("more", "level"),
    [("avx512f", "avx2"), ("avx512f avx512dq avx512bw avx512vl", "avx512")],
)
def test_simd_level_needs_all_its_flags(tmp_path, more, level):
    assert profile(build_machine(tmp_path, more)).simd == level


def test_an_empty_machine_is_no_error(tmp_path):
    found = profile(tmp_path)
    assert found.caches == ()
    assert found.memory == 0
    assert found.simd == "none"
    assert rows(found)


def test_this_machine():
    found = profile()
    assert 1 <= found.cores <= found.machine_cores
    assert found is profile()
    assert json.loads(json.dumps(found.to_dict()))["cores"] == found.cores


def test_public_name_prints_and_returns(capsys):
    assert tb.hardware() is machine.profile()
    printed = capsys.readouterr().out
    assert "cores" in printed
    assert size(machine.profile().page) in printed
