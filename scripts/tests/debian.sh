#!/usr/bin/env bash
# What a bare Debian lacks, the scripts install: `make test-debian` (root, debootstrap and network; a few minutes, half a gigabyte of disk).
set -euo pipefail
cd "$(dirname "$0")/../.."
say() { echo "debian: $*"; }
if ((EUID != 0)) || ! command -v debootstrap >/dev/null; then
  say "SKIPPED: needs root and debootstrap"
  exit 0
fi
release=${RELEASE:-bookworm} work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

say "making a bare Debian $release"
debootstrap --variant=minbase "$release" "$work/bare" >"$work/log" 2>&1 || { tail -5 "$work/log"; exit 1; }
echo force-unsafe-io >"$work/bare/etc/dpkg/dpkg.cfg.d/unsafe"

# Makes a machine with these packages and our scripts; runs a command there, and keeps what it says.
machine() {
  rm -rf "$work/machine"
  cp -a "$work/bare" "$work/machine"
  cp -r scripts "$work/machine/scripts"
  (($# == 0)) || on "apt-get update -qq && apt-get install -y -qq --no-install-recommends $*" || { cat "$work/said"; exit 1; }
}
on() { env -i PATH="$PATH" HOME=/root DEBIAN_FRONTEND=noninteractive chroot "$work/machine" bash -c "$1" >"$work/said" 2>&1; }

# Asserts that a command ends with this code and has said this.
expect() {
  local code=0
  on "$3" || code=$?
  [[ $code == "$1" ]] && grep -q -- "$2" "$work/said" || { say "'$3' ended with $code, and not with $1 and '$2':"; cat "$work/said"; exit 1; }
  say "$(grep -m1 -- "$2" "$work/said")"
}

say "with nothing: a compiler and libclang are installed, and the second time nothing"
machine
expect 0 "installing Debian's g++ libclang-dev" scripts/rocksdb.sh
on scripts/rocksdb.sh && [[ ! -s $work/said ]]

newest() { on "apt-cache search --names-only '$1'" && sort -V "$work/said" | tail -1 | cut -d' ' -f1; }
on "apt-get update -qq"
cpp=$(newest '^libclang-cpp[0-9]+$') newer=$(newest '^libclang1-[0-9]+$')

say "with $cpp, which is not libclang"
machine "$cpp" llvm g++
on "ls /usr/lib/*/libclang-cpp.so*"
expect 0 "installing Debian's g++ libclang-dev" scripts/rocksdb.sh

say "with $newer, which has no headers"
machine "$newer" g++
expect 0 "installing Debian's libclang-common-${newer#libclang1-}-dev" scripts/rocksdb.sh
on scripts/rocksdb.sh && [[ ! -s $work/said ]]

say "as a user who may install nothing"
machine g++
expect 1 "there is no libclang.so in any folder" "setpriv --reuid=1000 --clear-groups scripts/rocksdb.sh"
grep -q "apt-get install g++ libclang-dev" "$work/said"

say "without a network"
expect 1 "apt-get could not install" "http_proxy=http://127.0.0.1:9 scripts/rocksdb.sh"
grep -q "there is no libclang.so" "$work/said"
say "ok"
