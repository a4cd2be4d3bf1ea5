#!/usr/bin/env bash
# The stock-out job on Apache Flink 2.3.0 and on Tidemill, on the same files, in alternation: compare.sh TIDEMILL GUESTS_DIR WORK_DIR
# Both run with parallelism 2 and checkpoints every 10 s, with state in memory or, if BACKEND is rocksdb, in RocksDB, with 512 MiB for it.
# Needs Java 17 and python3; the first run fetches Flink.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tidemill=$(realpath "$1") guests=$(realpath "$2")
mkdir -p "$3"
work=$(realpath "$3")
runs=${RUNS:-3} lines=${LINES_IN_DAY:-1200000} keys=${KEYS_IN_DAY:-121450} backend=${BACKEND:-hashmap}
case $backend in
  hashmap) state='backend: memory' ;;
  rocksdb) state='backend: rocksdb, memory: 512MiB' ;;
  *) echo "BACKEND is hashmap or rocksdb, not $backend" >&2; exit 2 ;;
esac

"$here/run.sh" setup
[ -e "$work/data/opening_stock.csv" ] || "$here/run.sh" data "$work/data" "$lines" "$keys" 2 >/dev/null
sed -e "s#\.\./\.\./target/guests#$guests#; s#data/pos-\*#data/pos/pos-*#; s/interval: 1s/interval: 10s/; s/backend: memory/$state/; /max_rate/d" \
  "$here/../../../examples/larkspur/job.yaml" >"$work/job.yaml"

now() { date +%s.%N; }
seconds() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.2f", b - a }'; }
median() { printf '%s\n' "$@" | sort -n | awk '{ a[NR] = $1 } END { print a[int((NR + 1) / 2)] }'; }
count() { find "$1" -type f "${@:2}" -exec cat {} + | wc -l; }

flink_wall=() flink_net=() ours=()
for ((run = 1; run <= runs; run++)); do
  # Both write checkpoints durably: neither may wait for what the other has left to be written.
  sync
  begin=$(now)
  answer=$("$here/run.sh" job "$work/data" "$backend" 2 "$work/flink")
  flink_wall+=("$(seconds "$begin" "$(now)")")
  flink_net+=("$(sed 's/.*net_runtime_ms=//' <<<"$answer" | awk '{ printf "%.2f", $1 / 1000 }')")
  rm -rf "$work/out" "$work/tidemill-data/stock-out/checkpoints"
  sync
  begin=$(now)
  (cd "$work" && "$tidemill" run job.yaml >tidemill.log 2>&1)
  ours+=("$(seconds "$begin" "$(now)")")
  echo "run $run: Flink ${flink_wall[-1]} s whole process, ${flink_net[-1]} s net; Tidemill ${ours[-1]} s whole process"
done
flink_alerts=$(count "$work/flink/alerts" ! -name '.*.inprogress*') our_alerts=$(count "$work/out/alerts" -name 'part-*')
echo "alerts: Flink $flink_alerts, Tidemill $our_alerts"
wall=$(median "${flink_wall[@]}") net=$(median "${flink_net[@]}") mine=$(median "${ours[@]}")
awk -v wall="$wall" -v net="$net" -v mine="$mine" -v lines="$lines" 'BEGIN {
  printf "medians: Flink %.2f s whole process (%.0f lines/s), %.2f s net (%.0f lines/s); Tidemill %.2f s whole process (%.0f lines/s)\n",
    wall, lines / wall, net, lines / net, mine, lines / mine
  printf "ratio: %.1f by whole process, %.1f against Flink'"'"'s net run time\n", wall / mine, net / mine }'
[ "$flink_alerts" = "$our_alerts" ]
