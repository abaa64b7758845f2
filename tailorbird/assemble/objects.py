"""Compiled objects on disk.

In: a key (any text) and an `Entry` of object bytes and small JSON-able facts about them. Out: the
same Entry in a later process, or None.

Invariants:
- The directory is ours and 0700, files are 0600. A directory that belongs to somebody else, or
  that others may write to, is not used at all, and a reason says so.
- A file is `magic, version, lengths, meta, object, HMAC-SHA256`. The HMAC is keyed by a random
  secret that lives in the same directory and covers the key's digest too, so a file that was
  truncated, edited, renamed or brought from elsewhere is refused, removed and recorded; nothing of
  it is interpreted first.
- Writes go to a temporary file and are renamed, so readers see whole files only.
- `get` and `put` never raise because of the disk: what fails is an event, and the caller compiles.
- The directory stays under `limit` bytes: now and then the files used longest ago go.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import hmac
import json
import os
import stat
import struct
from pathlib import Path
from typing import Any

from tailorbird import events, knobs
from tailorbird.dataclass import dataclass, field
from tailorbird.errors import CorruptObject
from tailorbird.reasons import why

MAGIC = b"TBOBJ\x00"
VERSION = 1
HEADER = struct.Struct("<6sHQQ")
DIGEST_BYTES = 32
SECRET_BYTES = 32
SECRET_NAME = "secret"
SUFFIX = ".tbo"
LIMIT = 512 << 20
CHECK_EVERY = 64
KEEP_SHARE = 0.75
OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH


@dataclass(frozen=True)
class Entry:
    """One compiled object and what is known about it."""

    obj: bytes
    meta: dict[str, Any] = field(default_factory=dict)


class ObjectCache:
    """A directory of compiled objects; unusable ones behave as if they were empty."""

    def __init__(self, directory: Path, limit: int = LIMIT) -> None:
        self.directory = Path(directory)
        self.limit = limit
        self._puts = 0
        self._secret = self._open()

    @property
    def usable(self) -> bool:
        """Whether the directory can be read and is safe to read from."""
        return self._secret is not None

    def path(self, key: str) -> Path:
        """The file that holds, or would hold, the entry of `key`."""
        return self.directory / (_digest(key).hex() + SUFFIX)

    def get(self, key: str) -> Entry | None:
        """The entry of `key`, or None when there is none that can be trusted."""
        if self._secret is None:
            return None
        path = self.path(key)
        try:
            data = _read(path, self.limit)
            entry = _unpack(data, self._secret, _digest(key))
        except FileNotFoundError:
            return None
        except CorruptObject as error:
            _remove(path)
            _refused(str(error), path)
            return None
        except OSError as error:
            _refused(str(error), path)
            return None
        with contextlib.suppress(OSError):  # a cache that may only be read is still a cache
            os.utime(path)
        return entry

    def read(self, path: Path) -> Entry | None:
        """The entry in one of `files()`, if it can be trusted."""
        assert self._secret is not None
        try:
            return _unpack(_read(path, self.limit), self._secret, bytes.fromhex(path.stem))
        except (OSError, ValueError, CorruptObject):
            return None

    def put(self, key: str, entry: Entry) -> bool:
        """Keep an entry for later processes; False, and an event, if the disk did not take it."""
        if self._secret is None:
            return False
        path = self.path(key)
        try:
            _write(path, _pack(entry, self._secret, _digest(key)))
        except OSError as error:
            events.record("cache_write_failed", error=str(error), path=str(path))
            return False
        self._puts += 1
        if self._puts % CHECK_EVERY == 1:
            self.trim()
        return True

    def trim(self) -> int:
        """Remove the files used longest ago if the directory is over its limit; how many went."""
        files = sorted(self.files(), key=lambda item: item[1].st_mtime)
        total = sum(status.st_size for _, status in files)
        gone = 0
        if total <= self.limit:
            return gone
        for path, status in files:
            if total <= self.limit * KEEP_SHARE:
                break
            _remove(path)
            total -= status.st_size
            gone += 1
        events.record("cache_trimmed", files=gone, bytes_left=total)
        return gone

    def files(self) -> list[tuple[Path, os.stat_result]]:
        """Every cached file with its status."""
        found = []
        try:
            for item in os.scandir(self.directory):
                if item.name.endswith(SUFFIX):
                    found.append((Path(item.path), item.stat(follow_symlinks=False)))
        except OSError:
            return found
        return found

    def clear(self) -> int:
        """Remove every cached file; how many there were."""
        files = self.files()
        for path, _ in files:
            _remove(path)
        return len(files)

    def _open(self) -> bytes | None:
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            status = self.directory.stat()
            if status.st_uid != os.geteuid():
                _refused("the directory belongs to another user", self.directory)
                return None
            if status.st_mode & OTHERS_MAY_WRITE:
                _refused("others may write to the directory", self.directory)
                return None
            return _read_secret(self.directory / SECRET_NAME)
        except OSError as error:
            _refused(str(error), self.directory)
            return None


def default_cache() -> ObjectCache | None:
    """The cache that the knobs ask for, or None when `cache` is off."""
    if not knobs.get("cache"):
        return None
    return _cache_at(default_directory())


def default_directory() -> Path:
    """The knob `cache_dir`, else $XDG_CACHE_HOME/tailorbird, else ~/.cache/tailorbird."""
    chosen = knobs.get("cache_dir")
    if chosen is not None:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base) / "tailorbird"


@functools.lru_cache(maxsize=8)
def _cache_at(directory: Path) -> ObjectCache:
    return ObjectCache(directory)


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()


def _pack(entry: Entry, secret: bytes, digest: bytes) -> bytes:
    meta = json.dumps(entry.meta, sort_keys=True).encode()
    body = HEADER.pack(MAGIC, VERSION, len(meta), len(entry.obj)) + meta + entry.obj
    return body + _seal(body, secret, digest)


def _unpack(data: bytes, secret: bytes, digest: bytes) -> Entry:
    if len(data) < HEADER.size + DIGEST_BYTES:
        raise CorruptObject("the file is cut short, or is no plain file")
    magic, version, meta_bytes, obj_bytes = HEADER.unpack_from(data)
    if magic != MAGIC:
        raise CorruptObject("the file is not a compiled object")
    if version != VERSION:
        raise CorruptObject(f"the file has version {version}, not {VERSION}")
    if HEADER.size + meta_bytes + obj_bytes + DIGEST_BYTES != len(data):
        raise CorruptObject("the file has the wrong length")
    body, seal = data[:-DIGEST_BYTES], data[-DIGEST_BYTES:]
    if not hmac.compare_digest(seal, _seal(body, secret, digest)):
        raise CorruptObject("the file's signature does not match")
    at = HEADER.size + meta_bytes
    return Entry(body[at:], json.loads(body[HEADER.size : at]))


def _seal(body: bytes, secret: bytes, digest: bytes) -> bytes:
    return hmac.digest(secret, digest + body, "sha256")


def _read(path: Path, most: int) -> bytes:
    """What is in a file; nothing where it is larger than `most`, or could keep its reader waiting,
    as a pipe does.
    """
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        status = os.fstat(file.fileno())
        return file.read() if stat.S_ISREG(status.st_mode) and status.st_size <= most else b""


def _write(path: Path, data: bytes) -> None:
    temporary = path.with_name(f".{os.urandom(8).hex()}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    try:
        with open(os.open(temporary, flags, 0o600), "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except OSError:
        _remove(temporary)
        raise


def _read_secret(path: Path) -> bytes:
    """The secret of this directory, made on first use; of two makers the first to link wins."""
    with contextlib.suppress(FileNotFoundError):
        secret = _read(path, SECRET_BYTES)
        if len(secret) == SECRET_BYTES and not path.stat().st_mode & 0o077:
            return secret
        _remove(path)  # only what was read: by now there may be one of another maker
    temporary = path.with_name(f".{os.urandom(8).hex()}.tmp")
    _write(temporary, os.urandom(SECRET_BYTES))
    try:
        os.link(temporary, path)
    except FileExistsError:
        pass
    finally:
        _remove(temporary)
    secret = _read(path, SECRET_BYTES)
    if len(secret) != SECRET_BYTES:
        raise OSError(f"there is no secret in {path}")
    return secret


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        events.record("cache_write_failed", error=str(error), path=str(path))


def _refused(detail: str, path: Path) -> None:
    events.record("cache_refused", why=why("cache_refused", detail=detail), path=str(path))
