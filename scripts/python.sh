#!/usr/bin/env bash
# Makes a Python environment with the packages of a requirements file: python.sh DIR REQUIREMENTS
# Works with a Python that has venv, with one that has only pip, and, on Debian as root, with one that has neither.
set -euo pipefail
dir=$1 requirements=$2

fresh() { rm -rf "$dir" && python3 -m venv "$@" "$dir" >/dev/null 2>&1; }

if fresh; then
  "$dir/bin/python" -m pip install --quiet --requirement "$requirements"
elif python3 -m pip --version >/dev/null 2>&1 && fresh --without-pip; then
  python3 -m pip --python "$dir/bin/python" install --quiet --requirement "$requirements"
elif command -v apt-get >/dev/null && ((EUID == 0)); then
  apt-get update -qq && apt-get install -y -qq --no-install-recommends python3-venv >/dev/null
  fresh
  "$dir/bin/python" -m pip install --quiet --requirement "$requirements"
else
  echo "python.sh: this Python can make no environment: install its venv module (Debian: apt-get install python3-venv)" >&2
  exit 1
fi
touch "$dir/bin/python"
