#!/usr/bin/env bash
# Sees to it that RocksDB can be compiled: a C++ compiler, and libclang with its C headers, by which the crate's bindings are made.
#
# Asks for both, by use: a small C++ program is compiled, and it lets the libclang that the build would take read C headers. On Debian, as root
# or with a sudo that asks no password, what is missing is installed.
set -euo pipefail
say() { echo "rocksdb: $*" >&2; }

# Where the library is looked for; tests put a folder before the paths that begin with /usr.
root=
# Why it cannot be compiled, of the last probe; and the library that was tried.
reason='' library=''

# The libclang that the build takes, the best first: by the rules of the crate clang-sys (its `build/common.rs` and `build/dynamic.rs`), which
# bindgen loads it with. `libclang-cpp` is another library.
find_libclang() {
  local dirs=() names=('libclang.so' 'libclang-*.so' 'libclang.so.*' 'libclang-*.so.*') dir file prefix found
  [[ $OSTYPE != darwin* ]] || names=('libclang.dylib')
  if [[ -v LIBCLANG_PATH ]]; then
    [[ ! -f $LIBCLANG_PATH ]] || { echo "$LIBCLANG_PATH"; return; }
    dirs=("$LIBCLANG_PATH")
  else
    prefix=$("${LLVM_CONFIG_PATH:-llvm-config}" --prefix 2>/dev/null) && dirs+=("$prefix"/{bin,lib,lib64})
    IFS=: read -ra found <<<"${LD_LIBRARY_PATH:-}${LD_LIBRARY_PATH:+:}${LIBRARY_PATH:-}"
    dirs+=("${found[@]}")
    if [[ $OSTYPE == darwin* ]]; then
      prefix=$(xcode-select --print-path 2>/dev/null) && dirs+=("$prefix/Toolchains/XcodeDefault.xctoolchain/usr/lib")
      dirs+=(/usr/local/opt/llvm*/lib/llvm*/lib /Library/Developer/CommandLineTools/usr/lib
        /Applications/Xcode.app/Contents/Developer/Toolchains/XcodeDefault.xctoolchain/usr/lib /usr/local/opt/llvm*/lib)
    else
      dirs+=("$root"/usr/local/llvm*/lib* "$root"/usr/local/lib*/*/* "$root"/usr/local/lib*/* "$root"/usr/local/lib*
        "$root"/usr/lib*/*/* "$root"/usr/lib*/* "$root"/usr/lib*)
    fi
  fi
  # The greatest version wins, then the place that comes first. A file without a version in its name has the least.
  local IFS=
  for dir in "${dirs[@]}"; do
    [[ -d $dir ]] || continue
    for file in "${names[@]/#/$dir/}"; do
      for file in $file; do
        ! is_library "$file" || echo "$(version_of "${file##*/}") $file"
      done
    done
  done | LC_ALL=C sort -s -t' ' -k1,1r | cut -d' ' -f2-
}

# A clang that lends its headers to bindgen.
find_clang() {
  local dirs dir file
  [[ ! -x ${CLANG_PATH:-} ]] || { echo "$CLANG_PATH"; return; }
  IFS=: read -ra dirs <<<"$("${LLVM_CONFIG_PATH:-llvm-config}" --bindir 2>/dev/null || true):$PATH"
  for dir in "${dirs[@]}"; do
    for file in "$dir"/clang "$dir"/clang-[0-9]*; do
      [[ ! -f $file || ! -x $file ]] || { echo "$file"; return; }
    done
  done
}

# A library for this machine; not a link to nothing, nor one of 32 bits beside them.
is_library() {
  [[ -f $1 && $1 != *-cpp.* ]] || return 1
  [[ $OSTYPE == darwin* ]] || [[ $(head -c 5 "$1" | od -An -tx1 | tr -d ' \n') == 7f454c460$(($(getconf LONG_BIT) / 32)) ]]
}

# The version in a file's name, so that texts compare as versions do.
version_of() {
  local text=$1 part parts
  case $1 in
    libclang.so.*) text=${1#libclang.so.} ;;
    libclang-*) text=${1#libclang-} text=${text%???} ;;
    *) text= ;;
  esac
  IFS=. read -ra parts <<<"$text"
  for part in "${parts[@]:0:6}"; do
    [[ $part =~ ^[0-9]+$ ]] || part=0
    printf '%06d' "$((10#$part))"
  done
}

# Compiles a program with the compiler that the crate takes, and lets it ask libclang to read what the bindings are made of.
probe() {
  local dir code=0 clang flags=()
  dir=$(mktemp -d)
  cat >"$dir/probe.cpp" <<'PROBE'
#include <concepts>
#include <cstdio>
#include <dlfcn.h>
#include <string>
template <typename T> auto function(void *library, const char *name) { return reinterpret_cast<T>(dlsym(library, name)); }
int main(int argc, char **argv) {
  static_assert(std::same_as<int, int>);
  if (argc < 3) return 0;
  void *library = dlopen(argv[1], RTLD_NOW);
  if (!library) return std::puts(dlerror()), 2;
  auto index = function<void *(*)(int, int)>(library, "clang_createIndex");
  auto parse = function<void *(*)(void *, const char *, char **, int, void *, unsigned, unsigned)>(library, "clang_parseTranslationUnit");
  auto count = function<unsigned (*)(void *)>(library, "clang_getNumDiagnostics");
  if (!index || !parse || !count) return std::puts("it is no libclang"), 2;
  // Errors are told on standard error by libclang itself.
  void *unit = parse(index(0, 1), argv[2], argv + 3, argc - 3, nullptr, 0, 0);
  return unit && count(unit) == 0 ? 0 : 2;
}
PROBE
  printf '#include <stdbool.h>\n#include <stddef.h>\n#include <stdint.h>\nsize_t size(uint8_t, bool);\n' >"$dir/bindings.h"
  library=$(find_libclang | head -1)
  if ! "${CXX:-c++}" -std=c++20 -o "$dir/probe" "$dir/probe.cpp" -ldl >"$dir/said" 2>&1; then
    reason="the C++ compiler ${CXX:-c++} cannot compile C++20: $(grep -m1 -E 'error|not found' "$dir/said" || head -1 "$dir/said")" code=1
  elif [[ -z $library ]]; then
    reason="there is no libclang.so in any folder in which bindgen looks (LIBCLANG_PATH names one)" code=2
  else
    clang=$(find_clang)
    [[ -z $clang ]] || mapfile -t flags < <("$clang" -E -x c - -v </dev/null 2>&1 | sed -n '/<...> search starts/,/^End/s/^ /-isystem/p')
    "$dir/probe" "$library" "$dir/bindings.h" "${flags[@]}" >"$dir/said" 2>&1 || {
      reason="$library cannot read C headers: $(grep -m1 . "$dir/said" | sed "s|$dir/||")" code=3
    }
  fi
  rm -rf "$dir"
  return $code
}

# The number of the version of the library, if its path tells: its headers are in a package of that number.
number_of() {
  local path
  path=$(readlink -f "$1")
  [[ $path =~ (llvm-|libclang-|libclang\.so\.)([0-9]+) ]] && echo "${BASH_REMATCH[2]}"
}

install() {
  local sudo=()
  ((EUID == 0)) || sudo=(sudo -n)
  say "installing Debian's $*"
  "${sudo[@]}" apt-get update -qq || true
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null || say "apt-get could not install $*"
}

main() {
  local number
  probe && return
  if command -v apt-get >/dev/null && { ((EUID == 0)) || sudo -n true 2>/dev/null; }; then
    install g++ libclang-dev
    probe && return
    # A libclang of another version than Debian's default is taken first, but has no headers.
    if [[ -n $library ]] && number=$(number_of "$library"); then
      install "libclang-common-$number-dev"
      probe && return
    fi
  fi
  say "$reason"
  say "RocksDB needs a C++ compiler and libclang with its headers (Debian: apt-get install g++ libclang-dev); 'ROCKSDB=no' leaves it out"
  exit 1
}

# Read by a test, it only defines.
[[ ${BASH_SOURCE[0]} != "$0" ]] || main
