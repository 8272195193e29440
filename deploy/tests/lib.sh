# Shared by the scripts of this folder: each starts from an empty root or environment and reports every step.
set -euo pipefail
project=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$(mktemp -d)
passed=0
current=
# What a step prints goes to its log; this is where the report goes.
exec 3>&1

# What the scripts that source this add runs before the directory goes.
at_end() { :; }
_end() {
    local code=$?
    trap - EXIT
    set +e
    if [ "$code" -eq 0 ]; then
        echo "$passed passed, 0 failed" >&3
    else
        echo "FAILED: ${current:-between steps}" >&3
        tail -n 60 "$work/step.log" >&3
        echo "$passed passed, 1 failed" >&3
    fi
    at_end >/dev/null 2>&1
    rm -rf "$work"
    exit "$code"
}
trap _end EXIT

# step NAME COMMAND...: runs it; its output is shown only if it fails. Not in a condition: there set -e would not count, and
# a function would go on after a command that failed.
step() {
    current=$1
    shift
    "$@" >"$work/step.log" 2>&1
    passed=$((passed + 1))
    echo "ok: $current" >&3
    current=
}

# refuted COMMAND...: the command must fail; with "!" set -e would not count.
refuted() {
    if "$@"; then
        echo "did not fail: $*"
        return 1
    fi
}

# copy_of_project DIRECTORY: what git has, with the changes of the working tree, and nothing that a build left.
copy_of_project() {
    mkdir -p "$1"
    (cd "$project" && git ls-files -z | xargs -0 tar -cf - --) | tar -xf - -C "$1"
}
