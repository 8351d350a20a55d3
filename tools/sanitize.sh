#!/usr/bin/env bash
# The core's tests on a build with C assertions, AddressSanitizer and UndefinedBehaviorSanitizer, then its leak tests under
# LeakSanitizer. Needs gcc with its sanitizers' libraries; takes a few minutes. Called by `make sanitize`.
set -euo pipefail
cd "$(dirname "$0")/.."
python=.venv/bin/python
target=build/checked
asan="$(gcc -print-file-name=libasan.so)"
ubsan="$(gcc -print-file-name=libubsan.so)"
case "$asan$ubsan" in
/*/*) ;;
*)
    echo "gcc has no sanitizers here (libasan.so, libubsan.so): on Fedora install libasan and libubsan" >&2
    exit 1
    ;;
esac
rm -rf "$target"
REQUEST_PURGATORY_BUILD=checked "$python" -m pip install --quiet --disable-pip-version-check --no-deps --target "$target" .
run() {
    # Python's own allocator would hide from the sanitizers what is freed; only the preloaded libraries see everything.
    LD_PRELOAD="$asan $ubsan" PYTHONMALLOC=malloc UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 \
        REQUEST_PURGATORY_EXPECT=compiled PYTHONPATH="$target" "$python" -m pytest -q -p no:cacheprovider "$@"
}
# CPython's own tests and ten thousand clients ask little more of the core, and would take minutes here.
ASAN_OPTIONS=detect_leaks=0 run tests --ignore tests/pipeline --ignore tests/benchmarks \
    --ignore tests/aio/test_cpython.py --ignore tests/aio/test_examples.py
ASAN_OPTIONS=detect_leaks=1 run tests/test_leaks.py
