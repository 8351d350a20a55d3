"""Makes a release: one version in all packages, its changelog, commit and tag, and the files.

    python tools/release.py 0.3.0              in this checkout, up to the tag, which is not pushed
    python tools/release.py 0.3.0 --dry-run    the same, and this checkout stays as it is

All of it happens in a clone, build/release/VERSION. What git has is released, and nothing else. The
checkout gets the commit and the tag when the files have passed: twine's check, and an installation
in a fresh environment, whose dependencies are those of the environment that runs this. No step
needs a network. Pushing the tag publishes: .github/workflows/release.yml.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import venv
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("request-purgatory", "purgatory-command-line", "purgatory-broker", "purgatory-spark")
#: Marks what only the owner of the project knows. A release needs all of it.
BLANK = "FILL IN"
_VERSION = re.compile(r"\d+\.\d+\.\d+((a|b|rc)\d+)?")
#: Where the present version is, of the packages and of what they require of one another.
_VERSIONED = (
    "packages/request-purgatory/src/request_purgatory/__init__.py",
    *(f"packages/{package}/pyproject.toml" for package in PACKAGES[1:]),
    "CITATION.cff",
)
#: What the fresh environment has to do, beside importing.
_TRIAL = """
import sys
from importlib.metadata import version
from pathlib import Path
import purgatory_broker, purgatory_command_line, purgatory_spark, request_purgatory
for module in (purgatory_broker, purgatory_command_line, purgatory_spark, request_purgatory):
    assert Path(module.__file__).is_relative_to(sys.prefix), module.__file__
    assert version(module.__name__.replace("_", "-")) == sys.argv[1]
with request_purgatory.DelayedOperationPurgatory() as purgatory:
    assert purgatory.hold(["key"], until=lambda: "held", timeout=60).result() == "held"
with purgatory_broker.Cluster() as cluster:
    cluster.create_topic("orders")
"""


class ReleaseError(Exception):
    """A reason not to release."""


def run(*command: str | Path, folder: Path) -> str:
    """Run a command without this process' own settings of Python, and return what it prints."""
    words = [str(word) for word in command]
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    ran = subprocess.run(
        words,
        cwd=folder,
        env=environment,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if ran.returncode:
        raise ReleaseError(f"{' '.join(words)} failed:\n{ran.stdout[-4000:]}")
    return ran.stdout


def blanks(checkout: Path) -> list[str]:
    """Return the places, FILE:LINE, that the owner has to fill in."""
    files = [checkout / "CITATION.cff", *sorted(checkout.glob("packages/*/pyproject.toml"))]
    return [
        f"{file.relative_to(checkout)}:{number}"
        for file in [*files, checkout / "SECURITY.md"]
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if BLANK in line
    ]


def clone(checkout: Path, version: str) -> Path:
    """Clone the checkout's last commit into its build folder, without an earlier try."""
    folder = checkout / "build" / "release" / version
    shutil.rmtree(folder, ignore_errors=True)
    run("git", "clone", "--quiet", "--no-hardlinks", checkout, folder, folder=checkout)
    return folder


def set_version(checkout: Path, version: str) -> None:
    """Write the version where the present one is, and its day into CITATION.cff."""
    text = (checkout / _VERSIONED[0]).read_text(encoding="utf-8")
    (present,) = re.findall(r'^__version__ = "(.*)"$', text, re.MULTILINE)
    # In quotes, after the name of a field, or as what a package requires of another.
    pattern = re.compile(
        rf'((?:^(?:__)?version(?:__)?(?: =|:) "?|==)){re.escape(present)}(?="?)', re.M
    )
    for name in _VERSIONED:
        text = (checkout / name).read_text(encoding="utf-8")
        text, times = pattern.subn(rf"\g<1>{version}", text)
        if not times:
            raise ReleaseError(f"{name} has no version {present}")
        today = datetime.now(UTC).date().isoformat()
        text = re.sub(r"^date-released: .*$", f"date-released: {today}", text, flags=re.M)
        (checkout / name).write_text(text, encoding="utf-8")


def build(checkout: Path, version: str) -> list[Path]:
    """Build the source distributions, and the wheels out of them; return the files."""
    dist = checkout / "dist"
    for package in PACKAGES:
        command = (sys.executable, "-m", "build", "--no-isolation", "--outdir", dist)
        run(*command, checkout / "packages" / package, folder=checkout)
    files = sorted(dist.iterdir())
    names = {name.replace("-", "_") for name in PACKAGES}
    for suffix in (".tar.gz", ".whl"):
        if names != {file.name.split(f"-{version}")[0] for file in files if suffix in file.name}:
            raise ReleaseError(f"dist has not the {suffix} of each package: {files}")
    run(sys.executable, "-m", "twine", "check", "--strict", *files, folder=checkout)
    return files


def try_installation(files: list[Path], folder: Path, version: str) -> None:
    """Install the wheels into a fresh environment, import them there, and run the commands."""
    venv.EnvBuilder(with_pip=False, symlinks=os.name != "nt").create(folder)
    scripts = folder / ("Scripts" if os.name == "nt" else "bin")
    python = scripts / "python"
    wheels = [file for file in files if file.suffix == ".whl"]
    pip = (
        sys.executable,
        "-m",
        "pip",
        "--quiet",
        "--disable-pip-version-check",
        "--python",
        python,
    )
    run(*pip, "install", "--no-index", "--no-deps", *wheels, folder=folder)
    # The dependencies of this environment, without its `.pth` files, which name the checkout.
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    own = Path(run(python, "-c", where, folder=folder).strip())
    installed = [path for path in sys.path if path.endswith("-packages")]
    (own / "dependencies.pth").write_text("\n".join(installed))
    run(python, "-c", _TRIAL, version, folder=folder)
    for command in ("purgatory", "purgatory-broker"):
        printed = run(scripts / command, "--version", folder=folder)
        if version not in printed:
            raise ReleaseError(f"{command} --version printed {printed!r}")


def release(checkout: Path, version: str, *, dry_run: bool) -> Path:
    """Make a release, and return the folder of its files.

    Args:
        checkout: The repository.
        version: The version, such as 0.3.0.
        dry_run: Leave the repository as it is.
    """
    if not _VERSION.fullmatch(version):
        raise ReleaseError(f"expected a version such as 0.3.0 or 0.3.0rc1, got {version!r}")
    if run("git", "tag", "--list", f"v{version}", folder=checkout).strip():
        raise ReleaseError(f"there is a tag v{version}")
    missing = blanks(checkout)
    if missing:
        message = f"fill in what only the owner knows: {', '.join(missing)}"
        if not dry_run:
            raise ReleaseError(message)
        print(message)
    if not dry_run and run("git", "status", "--porcelain", folder=checkout).strip():
        raise ReleaseError("commit or stash the changes of the checkout")
    folder = clone(checkout, version)
    set_version(folder, version)
    towncrier = (sys.executable, "-m", "towncrier", "build", "--yes", "--version", version)
    run(*towncrier, folder=folder)
    author = ("-c", "user.name=dry run", "-c", "user.email=dry-run@localhost") if dry_run else ()
    run("git", *author, "commit", "-qam", f"release: {version}", folder=folder)
    run("git", *author, "tag", "--annotate", f"v{version}", "--message", version, folder=folder)
    files = build(folder, version)
    try_installation(files, folder / "build" / "environment", version)
    if not dry_run:
        run("git", "pull", "--quiet", "--ff-only", "--tags", folder, "HEAD", folder=checkout)
    return folder / "dist"


def main(arguments: list[str]) -> int:
    """Make a release.

    Returns:
        The exit code.
    """
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("version")
    parser.add_argument("--dry-run", action="store_true")
    options = parser.parse_args(arguments)
    try:
        dist = release(ROOT, options.version, dry_run=options.dry_run)
    except ReleaseError as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    print(f"the files are in {dist}")
    if not options.dry_run:
        print(f"publish them by: git push origin HEAD v{options.version}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
