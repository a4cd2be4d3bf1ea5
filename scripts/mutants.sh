#!/usr/bin/env bash
# Breaks the engine in more than a thousand places, one at a time, and runs its unit tests each time (about an hour on two cores).
#
#   scripts/mutants.sh [ARGUMENT...]    of cargo-mutants, such as --shard 1/8 or -e 'host/core/src/state/**'
#
# Fails if a mutant survives that docs/mutants.md does not list with the reason why no test can tell it from the original.
# .cargo/mutants.toml says what is broken and how it is tested.
set -euo pipefail
cd "$(dirname "$0")/.."
tools=$PWD/target/tools out=target/mutants accepted=docs/mutants.md
say() { echo "mutants: $*"; }

if [[ ! -x $tools/bin/cargo-mutants ]]; then
  say "installing cargo-mutants into target/tools"
  CARGO_TARGET_DIR=$tools/build cargo install cargo-mutants --locked --quiet --root "$tools"
fi
mkdir -p "$out"
# Some mutants allocate without end: they fail before the machine runs out of memory.
ulimit -v $((8 << 20))
code=0
# A build folder of its own: cargo-mutants works on copies of the sources.
env -u CARGO_TARGET_DIR PATH="$tools/bin:$PATH" \
  cargo mutants --package tidemill-core --jobs "${MUTANTS_JOBS:-2}" --output "$out" --no-shuffle "$@" || code=$?
# 2 and 3: some were missed, or ended by the time limit. Others: it could not run, or the tests fail as they are.
((code == 0 || code == 2 || code == 3)) || { say "cargo-mutants could not do its work"; exit 1; }

# Names without line and column, which move. A name that stands twice was accepted for two places.
without_place() { sed -E 's/^([^:]*):[0-9]+:[0-9]+: /\1: /' | sort; }
results=$out/mutants.out
survived=$(without_place <"$results/missed.txt")
known=$(sed -nE 's/^- `([^`]+)`: .+/\1/p' "$accepted" | sort)
new=$(comm -23 <(echo "$survived") <(echo "$known") | sed '/^$/d')
count() { wc -l <"$results/$1.txt"; }
say "$(($(count caught) + $(count timeout))) killed ($(count timeout) of them by the time limit), $(count missed) survived, $(count unviable) do not compile"
if (($# == 0)) && gone=$(comm -13 <(echo "$survived") <(echo "$known") | grep .); then
  say "listed in $accepted, but killed by now:"$'\n'"$gone"
fi
if [[ -n $new ]]; then
  say "survived, and not listed in $accepted: write a test that fails, or the reason why none can:"$'\n'"$new"
  exit 1
fi
