#!/usr/bin/env bash
# Rules that no lint checks: files stay readable, the engine stays pure, nothing is left unfinished.
set -euo pipefail
cd "$(dirname "$0")/.."
git rev-parse --git-dir >/dev/null 2>&1 || { echo "tidy: SKIPPED: this is no git clone, or another user's"; exit 0; }
bad=0
complain() { echo "tidy: $*" >&2; bad=1; }

while read -r lines file; do
  [[ $file == total ]] || ((lines <= 500)) || complain "$file has $lines lines; the most is 500"
done < <(git ls-files -co --exclude-standard '*.rs' '*.py' '*.sh' | xargs wc -l)

if matches=$(git grep -nIE 'todo!\(|unimplemented!\(|FIXME|XXX|TODO|#\[ignore' -- '*.rs' '*.py' '*.sh' ':!scripts/tidy.sh'); then
  complain "unfinished or switched off:"$'\n'"$matches"
fi
if matches=$(git grep -nE 'std::(fs|net|thread)|wasmtime|rocksdb|rdkafka|(System)?(Time|Instant)::now' -- 'host/core/src/*.rs'); then
  complain "host/core touches the world:"$'\n'"$matches"
fi
# One seam to the disk: what goes past it is not simulated. What a user names is read elsewhere: specs, cases, components, input, tables; and the
# command line writes its own files. Locks and sockets are the operating system's, and so are owners, modes and links.
if matches=$(git grep -nE '(std::)?fs::|File::(open|create)|OpenOptions' -- 'host/src/*.rs' ':!host/src/disk.rs' ':!host/src/source/file' ':!host/src/spec' ':!host/src/cli' \
  ':!host/src/guest/cache*' ':!host/src/scenario' ':!host/src/codec/table.rs' ':!host/src/runtime/assemble.rs' ':!host/src/runtime/history.rs' ':!host/src/runtime/control/socket*' \
  ':!host/src/store/lock.rs' ':!host/src/guarded.rs' ':!host/src/runtime/revision.rs' ':!*/tests.rs' ':!*/tests/*' | grep -vE 'GroupsFile::|::(unix|linux)::fs::'); then
  while IFS=: read -r file line _; do
    # Unit tests at the end of a file may do as they like.
    tests=$(grep -n '^#\[cfg(test)\]' "$file" | head -1 | cut -d: -f1)
    [[ -n $tests ]] && ((line > tests)) || complain "$file:$line goes past the trait Disk (host/core/src/disk.rs)"
  done <<<"$matches"
fi
if matches=$(git grep -nE 'wasmtime::|wasmparser::|wit_component::' -- '*.rs' ':!host/src/guest'); then
  complain "WebAssembly is named outside host/src/guest:"$'\n'"$matches"
fi
# A package that is taken with other features is compiled once more, and with it all that needs it: wasmtime for minutes. What the compiler's
# plugins and build scripts need is another world, listed a second time.
packages() {
  local edges
  for edges in normal,dev,no-proc-macro normal,dev,build; do
    cargo tree --locked -e "$edges" --prefix none -f "$edges {p} {f}" "$@" | sed 's/ (\*)$//' | grep -v "($PWD"
  done | LC_ALL=C sort -u
}
demo=$(packages -p tidemill -p larkspur) all=$(packages --workspace) rocksdb=$(packages --workspace --features tidemill-tests/rocksdb)
if twice=$(export LC_ALL=C; comm -23 <(echo "$demo") <(echo "$all"); comm -23 <(echo "$all") <(echo "$rocksdb")) && [[ -n $twice ]]; then
  complain "compiled twice, by \`make demo\` or without RocksDB with these features, and else with others:"$'\n'"$twice"
fi
((bad == 0)) && echo "tidy: ok"
exit $bad
