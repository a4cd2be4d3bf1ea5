#!/usr/bin/env bash
# Builds the guests to WebAssembly on any machine that has cargo.
#
#   scripts/build-guests.sh [--out DIR] [--profile NAME] [--toolchain auto|installed|debian] [--locked] [--list] [DIR...]
#   tidemill build          (the program has a copy of this script, and runs it with `bash -c`)
#
# DIR is a cargo workspace or crate; by default the repository's guests. Writes OUT/<crate>.wasm for every cdylib in it (by default to
# target/guests of the repository): core modules that carry their `component-type` section. Tidemill takes them as they are and makes the
# components itself, so nothing else is needed. CARGO_TARGET_DIR says where to build. --list prints the path of each file, a line each.
#
# The standard library for wasm32-unknown-unknown comes from the first of these that works:
#   1. the active toolchain has it already
#   2. `rustup target add`, given up after $RUSTUP_SECONDS (default 60)
#   3. Debian's rustc-web and rust-web-src: std is built from source with -Zbuild-std, once per target folder
set -euo pipefail

target=wasm32-unknown-unknown
me=$(basename "$0" .sh)
root=$(cd "$(dirname "${BASH_SOURCE[0]:-./.}")/.." && pwd)
out=$root/target/guests profile=release toolchain=auto list=no locked=() dirs=()
while (($#)); do
  case $1 in
    --out) out=$2; shift 2 ;;
    --profile) profile=$2; shift 2 ;;
    --toolchain) toolchain=$2; shift 2 ;;
    --locked) locked=(--locked); shift ;;
    --list) list=yes; shift ;;
    -*) echo "$me: unknown option $1" >&2; exit 2 ;;
    *) dirs+=("$1"); shift ;;
  esac
done
((${#dirs[@]})) || dirs=("$root/guests")

say() { echo "$me: $*" >&2; }

# Asks the compiler, not rustup: a distribution's rustc can have the target too.
has_std() {
  local dir
  dir=$("${RUSTC:-rustc}" --print target-libdir --target "$target" 2>/dev/null) && compgen -G "$dir/libstd-*.rlib" >/dev/null
}

add_target() {
  command -v rustup >/dev/null || return 1
  say "adding $target with rustup"
  # Time-limited, since rustup waits for ever on a server that accepts and says nothing; quiet, since "no network" fills a page.
  timeout "${RUSTUP_SECONDS:-60}" rustup target add "$target" >/dev/null 2>&1 && has_std || { say "rustup could not add it"; return 1; }
}

# The rust-version of the SDK: an older compiler is of no use.
needs=1.95
debian_version() { /usr/bin/rustc --version | cut -d' ' -f2; }
debian_ready() {
  [[ -x /usr/bin/rustc && -f /usr/lib/rustlib/src/rust/library/Cargo.lock ]] &&
    [[ $(printf '%s\n' "$needs" "$(debian_version)" | sort -V | head -1) == "$needs" ]]
}

install_debian() {
  command -v apt-get >/dev/null || { say "no $target standard library: run 'rustup target add $target'"; exit 1; }
  local sudo=()
  ((EUID == 0)) || sudo=(sudo)
  say "installing Debian's rustc-web and rust-web-src"
  "${sudo[@]}" apt-get update -qq
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends rustc-web rust-web-src >/dev/null
  debian_ready && return
  [[ ! -x /usr/bin/rustc ]] || say "Debian's rustc is $(debian_version), and the SDK needs $needs: run 'rustup target add $target' where rustup has a network"
  [[ -x /usr/bin/rustc ]] || say "the Debian packages brought no /usr/bin/rustc with sources"
  exit 1
}

# A linker for Wasm: rustup's own, else one of Debian's.
find_linker() {
  local sysroot lld
  if sysroot=$(env -u RUSTC rustc --print sysroot 2>/dev/null); then
    for lld in "$sysroot"/lib/rustlib/*/bin/rust-lld; do [[ -x $lld ]] && { echo "$lld"; return; }; done
  fi
  for lld in /usr/bin/rust-lld /usr/bin/wasm-ld /usr/bin/wasm-ld-[0-9]*; do [[ -x $lld ]] && { echo "$lld"; return; }; done
  say "no linker for WebAssembly: install rustup's toolchain or Debian's lld"
  return 1
}

args=(build --profile "$profile" --target "$target" "${locked[@]}")
target_dir=${CARGO_TARGET_DIR:-$root/target}/guest-build
if [[ $toolchain != debian ]] && has_std; then
  say "using $(rustc --version)"
elif [[ $toolchain == installed ]]; then
  say "the active toolchain has no standard library for $target: run 'rustup target add $target', or give --toolchain auto, which tries that and Debian's packages"; exit 1
elif [[ $toolchain == auto ]] && ! debian_ready && add_target; then
  say "using $(rustc --version)"
else
  debian_ready || install_debian
  export RUSTC=/usr/bin/rustc RUSTC_BOOTSTRAP=1
  linker=$(find_linker)
  export CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER=$linker
  args+=(-Zbuild-std=std,panic_abort)
  target_dir+=-std   # its own folder: another compiler would make cargo rebuild everything at each change between the two
  say "using $($RUSTC --version), building std from source"
fi
# RUSTFLAGS meant for the host would reach the guest.
unset RUSTFLAGS CARGO_ENCODED_RUSTFLAGS

mkdir -p "$out" "$target_dir"
out=$(cd "$out" && pwd) target_dir=$(cd "$target_dir" && pwd)
for dir in "${dirs[@]}"; do
  # The files that the cdylibs became, by cargo's own word (its messages are one JSON object a line).
  messages=$(cd "$dir" && CARGO_TARGET_DIR=$target_dir cargo "${args[@]}" --message-format=json-render-diagnostics)
  built=$(grep -o '"[^"]*\.wasm"' <<<"$messages" | tr -d '"' | sort -u) || { say "$dir has no crate that builds to a .wasm: a detector's Cargo.toml has [lib] crate-type = [\"cdylib\", \"rlib\"]"; exit 1; }
  while IFS= read -r file; do
    name=${file##*/}
    grep -qa component-type "$file" || { say "$name has no component-type section: export a detector with tidemill_sdk::export!(YourDetector), and keep custom sections when stripping it"; exit 1; }
    # Whole or not at all, and untouched if nothing changed.
    cmp -s "$file" "$out/$name" || { cp "$file" "$out/$name.part" && mv "$out/$name.part" "$out/$name"; }
    say "$out/$name, $(wc -c <"$out/$name") bytes"
    [[ $list == no ]] || echo "$out/$name"
  done <<<"$built"
done
