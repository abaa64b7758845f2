"""assemble/objects.py: what is on disk is trusted only when it is whole and ours."""

from __future__ import annotations

import os
import random
import shutil
import stat
import subprocess
import sys

import pytest

from tailorbird import events, knobs
from tailorbird.assemble import objects
from tailorbird.assemble.objects import Entry, ObjectCache

ENTRY = Entry(bytes(range(256)) * 8, {"name": "step", "sizes": [1, 2], "fast": True})


@pytest.fixture
def cache(tmp_path):
    events.clear()
    return ObjectCache(tmp_path / "cache")


def refusals():
    return [str(event.data["why"]) for event in events.recent("cache_refused")]


def test_round_trip_and_permissions(cache):
    assert cache.get("key") is None
    assert cache.put("key", ENTRY)
    assert cache.get("key") == ENTRY
    assert ObjectCache(cache.directory).get("key") == ENTRY
    assert stat.S_IMODE(cache.directory.stat().st_mode) == 0o700
    for path in cache.directory.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not refusals()


def test_empty_object_and_long_keys(cache):
    assert cache.put("k" * 10_000, Entry(b"", {}))
    assert cache.get("k" * 10_000) == Entry(b"", {})
    assert cache.get("k" * 9_999) is None


def test_every_truncation_is_refused_and_removed(cache):
    cache.put("key", ENTRY)
    path = cache.path("key")
    whole = path.read_bytes()
    for length in [*range(60), len(whole) - 1, len(whole) // 2]:
        path.write_bytes(whole[:length])
        assert cache.get("key") is None
        assert not path.exists()
    path.write_bytes(whole + b"x")
    assert cache.get("key") is None


def test_every_flipped_byte_is_refused(cache):
    cache.put("key", ENTRY)
    path = cache.path("key")
    whole = path.read_bytes()
    places = [*range(40), *random.Random(0).sample(range(len(whole)), 200)]
    for place in places:
        damaged = bytearray(whole)
        damaged[place] ^= 1 << (place % 8)
        path.write_bytes(damaged)
        assert cache.get("key") is None, place
    assert len(refusals()) == len(places)
    cache.put("key", ENTRY)
    assert cache.get("key") == ENTRY


def test_random_bytes_are_refused(cache):
    rng = random.Random(1)
    path = cache.path("key")
    for size in (0, 1, 10, 100, 5000):
        path.write_bytes(rng.randbytes(size))
        assert cache.get("key") is None
        assert not path.exists()


def test_a_renamed_file_is_refused(cache):
    cache.put("one", ENTRY)
    os.rename(cache.path("one"), cache.path("two"))
    assert cache.get("two") is None
    assert "signature" in refusals()[-1]


def test_a_foreign_secret_is_refused(cache, tmp_path):
    other = ObjectCache(tmp_path / "other")
    other.put("key", ENTRY)
    shutil.copy(other.path("key"), cache.path("key"))
    assert cache.get("key") is None
    assert "signature" in refusals()[-1]


def test_another_version_is_refused(cache, monkeypatch):
    cache.put("key", ENTRY)
    monkeypatch.setattr(objects, "VERSION", objects.VERSION + 1)
    assert cache.get("key") is None
    assert "version" in refusals()[-1]


def test_a_directory_others_may_write_to_is_not_used(tmp_path):
    events.clear()
    loose = tmp_path / "loose"
    loose.mkdir()
    loose.chmod(0o777)
    cache = ObjectCache(loose)
    assert not cache.usable
    assert not cache.put("key", ENTRY)
    assert cache.get("key") is None
    assert "others may write" in refusals()[-1]


def test_a_directory_of_somebody_else_is_not_used(tmp_path, monkeypatch):
    events.clear()
    monkeypatch.setattr(objects.os, "geteuid", lambda: 12345)
    assert not ObjectCache(tmp_path / "theirs").usable
    assert "another user" in refusals()[-1]


def test_a_secret_others_can_read_is_replaced(cache):
    cache.put("key", ENTRY)
    (cache.directory / objects.SECRET_NAME).chmod(0o644)
    again = ObjectCache(cache.directory)
    assert again.usable
    assert again.get("key") is None


def test_a_path_that_cannot_be_a_directory(tmp_path):
    events.clear()
    (tmp_path / "file").write_text("x")
    cache = ObjectCache(tmp_path / "file" / "cache")
    assert cache.get("key") is None
    assert not cache.put("key", ENTRY)
    assert refusals()


@pytest.mark.parametrize("call", ["open", "replace"])
def test_a_disk_that_takes_nothing_is_an_event(cache, monkeypatch, call):
    def full(*_args, **_kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(objects.os, call, full)
    assert not cache.put("key", ENTRY)
    monkeypatch.undo()
    assert "No space" in events.recent("cache_write_failed")[-1].data["error"]
    assert [path.name for path in cache.directory.iterdir()] == [objects.SECRET_NAME]


def test_a_cache_that_may_only_be_read_is_read(cache, monkeypatch):
    def read_only(*_args, **_kwargs):
        raise OSError(30, "Read-only file system")

    cache.put("key", ENTRY)
    for call in ("utime", "unlink", "replace"):
        monkeypatch.setattr(objects.os, call, read_only)
    assert cache.get("key") == ENTRY
    assert not cache.put("other", ENTRY)


def test_reading_trouble_is_a_miss(cache, monkeypatch):
    cache.put("key", ENTRY)
    cache.path("key").unlink()
    cache.path("key").mkdir()
    assert cache.get("key") is None
    assert refusals()


def test_a_pipe_in_place_of_a_file_does_not_hang(cache):
    cache.put("key", ENTRY)
    for path in (cache.path("key"), cache.directory / objects.SECRET_NAME):
        path.unlink()
        os.mkfifo(path)
    assert cache.get("key") is None
    again = ObjectCache(cache.directory)
    assert again.usable and again.put("key", ENTRY) and again.get("key") == ENTRY


def test_a_file_larger_than_the_cache_is_not_read(cache):
    cache.put("key", ENTRY)
    os.truncate(cache.path("key"), 1 << 40)
    assert cache.get("key") is None
    assert not cache.path("key").exists()


def test_the_longest_unused_go_first(tmp_path):
    cache = ObjectCache(tmp_path / "cache", limit=10_000)
    for k in range(8):
        cache.put(f"key{k}", Entry(b"x" * 2_000))
        os.utime(cache.path(f"key{k}"), (k, k))
    cache.get("key0")
    assert cache.trim() > 0
    assert sum(status.st_size for _, status in cache.files()) <= 10_000
    assert cache.get("key0") is not None
    assert cache.get("key1") is None
    assert cache.clear() > 0
    assert not cache.files()


def test_where_the_cache_is(monkeypatch, tmp_path):
    monkeypatch.delenv("TAILOR_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert objects.default_directory() == tmp_path / "tailorbird"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/ada")
    assert str(objects.default_directory()) == "/home/ada/.cache/tailorbird"
    with knobs.scope(cache_dir=tmp_path / "mine"):
        assert objects.default_directory() == tmp_path / "mine"
    with knobs.scope(cache=False):
        assert objects.default_cache() is None


def test_processes_that_start_together_agree_on_the_secret(tmp_path):
    code = (
        "import sys; from pathlib import Path; from tailorbird.assemble.objects import *;"
        "cache = ObjectCache(Path(sys.argv[1]));"
        "assert cache.put('k' + sys.argv[2], Entry(b'x', {}))"
    )
    directory = str(tmp_path / "cache")
    started = [subprocess.Popen([sys.executable, "-c", code, directory, str(k)]) for k in range(4)]
    assert [process.wait() for process in started] == [0] * 4
    cache = ObjectCache(tmp_path / "cache")
    assert all(cache.get(f"k{k}") == Entry(b"x", {}) for k in range(4))


def test_a_secret_that_another_process_makes_meanwhile_is_kept(tmp_path, monkeypatch):
    path, other = tmp_path / "secret", os.urandom(objects.SECRET_BYTES)

    def too_early(path, most):
        monkeypatch.undo()
        objects._write(path, other)
        raise FileNotFoundError

    monkeypatch.setattr(objects, "_read", too_early)
    assert objects._read_secret(path) == other
