# Shared by the scripts of this folder: each starts from an empty root or environment and reports every step.
set -euo pipefail
project=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$(mktemp -d)
passed=0

# What the scripts that source this add runs before the directory goes.
at_end() { :; }
_end() {
    local code=$?
    at_end || true
    rm -rf "$work"
    # Closing line of a run that got to its end; another one names the step that failed.
    [ "$code" -eq 0 ] && echo "$passed passed, 0 failed" || echo "failed after $passed steps"
    exit "$code"
}
trap _end EXIT

# step NAME COMMAND...: runs it; its output is shown only if it fails.
step() {
    local name=$1
    shift
    if "$@" >"$work/step.log" 2>&1; then
        passed=$((passed + 1))
        echo "ok: $name"
    else
        echo "FAILED: $name"
        tail -n 60 "$work/step.log"
        return 1
    fi
}

# copy_of_project DIRECTORY: what git has, with the changes of the working tree, and nothing that a build left.
copy_of_project() {
    mkdir -p "$1"
    (cd "$project" && git ls-files -z | xargs -0 tar -cf - --) | tar -xf - -C "$1"
}
