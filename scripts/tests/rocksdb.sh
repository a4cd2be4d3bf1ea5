#!/usr/bin/env bash
# Which file scripts/rocksdb.sh takes for libclang, in folders that a test has made. scripts/tests/debian.sh tries the whole script.
set -euo pipefail
source "$(dirname "$0")/../rocksdb.sh"
unset LIBCLANG_PATH LD_LIBRARY_PATH LIBRARY_PATH
export LLVM_CONFIG_PATH=/bin/false
if [[ $OSTYPE != linux* ]]; then
  echo "rocksdb: other names on this system, not tested"
  exit 0
fi
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
bits=$(($(getconf LONG_BIT) / 32))

# Makes files with the first bytes of a library of so many (1: 32, 2: 64) bits.
library() {
  local class=$1 path
  shift
  for path; do
    mkdir -p "$root/${path%/*}"
    printf "\x7fELF\\x0$class" >"$root/$path"
  done
}

# Asserts that this file is taken, or none.
takes() {
  local found
  found=$(find_libclang | head -1)
  [[ $found == "${1:+$root/$1}" ]] || { echo "rocksdb: took '${found#"$root"/}' and not '$1'" >&2; exit 1; }
}

library "$bits" usr/lib/x86_64-linux-gnu/libclang-cpp.so.14 usr/lib/llvm-14/lib/libclang-cpp.so usr/lib/libclangTooling.so usr/lib/libclang.a
takes ''
library $((3 - bits)) usr/lib/libclang.so
ln -s libclang.so.9 "$root/usr/lib/llvm-14/lib/libclang.so"
echo "no library at all" >"$root/usr/lib/x86_64-linux-gnu/libclang.so.99"
takes ''
library "$bits" "usr/local/lib/libclang.so"
takes usr/local/lib/libclang.so
library "$bits" usr/lib/llvm-9/lib/libclang-9.so
takes usr/lib/llvm-9/lib/libclang-9.so
library "$bits" usr/lib/x86_64-linux-gnu/libclang-14.so.14.0.6 usr/lib/llvm-14/lib/libclang-14.so.1
takes usr/lib/x86_64-linux-gnu/libclang-14.so.14.0.6
library "$bits" usr/lib64/libclang.so.15
takes usr/lib64/libclang.so.15
library "$bits" "opt/my clang/libclang.so"
LIBCLANG_PATH="$root/opt/my clang" takes "opt/my clang/libclang.so"
LIBCLANG_PATH="$root/opt/my clang/libclang.so" takes "opt/my clang/libclang.so"
LIBCLANG_PATH="$root/opt" takes ''
LIBCLANG_PATH='' takes ''

[[ $(number_of "$root/usr/lib64/libclang.so.15") == 15 && $(number_of "$root/usr/lib/llvm-9/lib/libclang-9.so") == 9 ]]
CXX=/bin/false probe && exit 1
[[ $reason == "the C++ compiler /bin/false cannot compile"* ]] || { echo "rocksdb: $reason" >&2; exit 1; }
echo "rocksdb: ok"
