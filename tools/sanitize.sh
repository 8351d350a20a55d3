#!/usr/bin/env bash
# Run the core's tests on builds with C assertions and sanitizers, then prove that each sanitizer would have found a fault.
#
# - AddressSanitizer and UndefinedBehaviorSanitizer: the core's tests.
# - LeakSanitizer, at the exit of the same build: the leak tests.
# - ThreadSanitizer, in a build of its own: the tests with threads.
#
# Each of them then runs a test once more on the same build, with a fault planted in the core (planted.h). That run must fail
# and report the fault, or this script fails. Needs gcc with its sanitizers' libraries. Called by `make sanitize`.
set -euo pipefail
cd "$(dirname "$0")/.."
python=.venv/bin/python
core=packages/request-purgatory

library() {
    local path
    path="$(gcc -print-file-name="lib$1.so")"
    if [[ $path != /* ]]; then
        echo "gcc has no lib$1.so here: on Fedora install lib$1" >&2
        exit 1
    fi
    echo "$path"
}
asan="$(library asan)"
ubsan="$(library ubsan)"
tsan="$(library tsan)"

build() { # the sanitizers
    local target=build/sanitized/$1
    rm -rf "$target" "$core/build/sanitized-${1//,/-}"
    REQUEST_PURGATORY_BUILD=sanitized REQUEST_PURGATORY_SANITIZERS=$1 \
        "$python" -m pip install --quiet --disable-pip-version-check --no-deps --target "$target" "./$core"
}

run() { # the sanitizers, the libraries to load first, arguments for pytest
    local target=build/sanitized/$1 libraries=$2
    shift 2
    # Python's own allocator would hide from the sanitizers what is freed; only the preloaded libraries see everything.
    # pytest leaves the process's standard error alone: it would keep the report of a process that dies to itself.
    LD_PRELOAD="$libraries" PYTHONMALLOC=malloc ASAN_OPTIONS="detect_leaks=${leaks:-0}" \
        UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 TSAN_OPTIONS=halt_on_error=1 \
        REQUEST_PURGATORY_EXPECT=compiled PYTHONPATH="$target" \
        "$python" -m pytest -c pyproject.toml --rootdir . -q -p no:cacheprovider --capture=sys "$@"
}

caught() { # the fault to plant, a pattern of its report, then as `run`; it has to be found
    local fault=$1 pattern=$2 log=build/sanitized/planted.log code=0
    shift 2
    REQUEST_PURGATORY_PLANT=$fault run "$@" >"$log" 2>&1 || code=$?
    if [[ $code == 0 ]] || ! grep -q "$pattern" "$log" || ! grep -q "rp_plant_$fault " "$log"; then
        tail -n 50 "$log" >&2
        echo "sanitize: the planted fault '$fault' was not reported (exit code $code): the clean runs prove nothing" >&2
        exit 1
    fi
    echo "sanitize: the planted fault '$fault' was reported, as it has to be (exit code $code)"
}

memory=(address,undefined "$asan $ubsan")
threads=(thread "$tsan")
build address,undefined
# CPython's own tests and ten thousand clients ask little more of the core, and would take minutes here. The broker's tests and
# the doctests need what this target does not install.
run "${memory[@]}" "$core"/tests/unit "$core"/tests/model \
    --ignore "$core"/tests/unit/aio/test_cpython.py --ignore "$core"/tests/unit/test_doctests.py
leaks=1 run "${memory[@]}" "$core"/tests/unit/purgatory/test_leaks.py
caught freed 'AddressSanitizer: heap-use-after-free' "${memory[@]}" "$core"/tests/unit/purgatory/test_purgatory_threads.py
caught shift 'runtime error: shift exponent 40 is too large' "${memory[@]}" "$core"/tests/unit/purgatory/test_purgatory_threads.py
leaks=1 caught leak 'LeakSanitizer: detected memory leaks' "${memory[@]}" "$core"/tests/unit/purgatory/test_leaks.py

build thread
run "${threads[@]}" "$core"/tests/unit/purgatory/test_purgatory_threads.py "$core"/tests/unit/timer/test_timer_threads.py
caught race 'ThreadSanitizer: data race' "${threads[@]}" "$core"/tests/unit/purgatory/test_purgatory_threads.py
