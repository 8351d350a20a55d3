"""kcat, from the PATH or from Debian's packages, which are unpacked but not installed."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.downloads import download_folder

TIME_LIMIT = 120.0

# The packages that may be missing; libc, OpenSSL and the codecs are there with Python or Java.
_PACKAGES = ("kcat", "librdkafka1", "libyajl2", "libsasl2-2", "liblz4-1", "libzstd1")


@dataclass(frozen=True)
class Kcat:
    """An executable kcat."""

    command: str
    environment: dict[str, str]

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start kcat, with pipes for its standard streams."""
        return subprocess.Popen(
            [self.command, *arguments],
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def run(self, *arguments: str, stdin: bytes = b"", timeout: float = TIME_LIMIT) -> bytes:
        """Return what kcat prints; raise an AssertionError with its stderr if it fails."""
        with self.start(*arguments) as process:
            try:
                printed, said = process.communicate(stdin, timeout)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        assert process.returncode == 0, said.decode(errors="replace")
        return printed


def find_kcat() -> Kcat:
    """Return the installed kcat, or a downloaded one; skip the test if there is neither."""
    found = shutil.which("kcat")
    if found is not None:
        return Kcat(found, dict(os.environ))
    with download_folder("kcat") as cache:
        root = cache / "root"
        kcat = root / "usr/bin/kcat"
        if not kcat.exists():
            _unpack(cache, root)
    libraries = ":".join(sorted({str(each.parent) for each in root.glob("**/*.so.*")}))
    usable = Kcat(str(kcat), os.environ | {"LD_LIBRARY_PATH": libraries})
    ran = subprocess.run(
        [usable.command, "-V"],
        env=usable.environment,
        capture_output=True,
        timeout=TIME_LIMIT,
        check=False,
    )
    if ran.returncode != 0:
        pytest.skip(
            f"kcat from Debian's packages fails: {ran.stderr.decode(errors='replace').strip()}"
        )
    return usable


def _unpack(cache: Path, root: Path) -> None:
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        pytest.skip("kcat is not on the PATH, and this is not Debian: install kcat")
    for each in cache.glob("*.deb"):
        each.unlink()
    command = ["apt-get", "download", "-o", "APT::Sandbox::User=root", *_PACKAGES]
    ran = subprocess.run(
        command, cwd=cache, capture_output=True, text=True, timeout=TIME_LIMIT, check=False
    )
    if ran.returncode != 0:
        pytest.skip(f"kcat is not on the PATH, and its download failed: {ran.stderr.strip()}")
    # Unpacked elsewhere and renamed, so that the next run finds all files or none.
    unpacked = cache / "unpacking"
    shutil.rmtree(unpacked, ignore_errors=True)
    for each in sorted(cache.glob("*.deb")):
        subprocess.run(["dpkg", "-x", str(each), str(unpacked)], check=True, timeout=TIME_LIMIT)
    shutil.rmtree(root, ignore_errors=True)
    unpacked.rename(root)
