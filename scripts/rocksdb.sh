#!/usr/bin/env bash
# Sees to it that RocksDB can be compiled: a C++ compiler, and libclang with its headers, by which the crate's bindings are made.
set -euo pipefail
say() { echo "rocksdb: $*" >&2; }

# bindgen looks for the library where these look.
has_clang() {
  [[ -n ${LIBCLANG_PATH:-} ]] || ldconfig -p 2>/dev/null | grep -q 'libclang[-.]' || compgen -G '/usr/lib/llvm-*/lib/libclang*.so*' >/dev/null \
    || compgen -G '/opt/homebrew/opt/llvm/lib/libclang.dylib' >/dev/null || [[ -e /Library/Developer/CommandLineTools/usr/lib/libclang.dylib ]]
}
ready() { command -v c++ >/dev/null && has_clang; }

ready && exit 0
if command -v apt-get >/dev/null && ((EUID == 0)); then
  say "installing Debian's g++ and libclang-dev"
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends g++ libclang-dev >/dev/null
fi
ready && exit 0
say "RocksDB needs a C++ compiler and libclang (Debian: apt-get install g++ libclang-dev); 'make test ROCKSDB=no' leaves it out"
exit 1
