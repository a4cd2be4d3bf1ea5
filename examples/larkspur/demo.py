#!/usr/bin/env python3
"""The demo: a day of sales goes through the stock-out job, the job is killed twice with SIGKILL, and no alert is lost or doubled.

It generates the day, starts `tidemill run job.yaml`, kills it when about 40 % of the baskets are read, starts the same command again, kills
it at about 70 %, lets the third start finish, and asks the oracle for the batch answer. Exit code 0 only if every alert and every late line
is there once, and if what was visible at each kill was part of the answer.
"""

import argparse
import json
import queue
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
KILLS = (0.4, 0.7)
# A start has to say something within this time; it logs its progress every second.
SILENCE_S = 120


class Failed(Exception):
    """The demo cannot go on, or did not show what it should."""


def main():
    options = arguments()
    work = options.work.resolve()
    begun = time.monotonic()
    try:
        prepare(options, work)
        answer = oracle(options, work)
        total = answer["counts"]["uploads"]
        say(f"the batch answer: {answer['counts']['alerts']:,} alerts, {answer['counts']['late_lines']:,} late lines")
        for number, fraction in enumerate(KILLS, 1):
            run_and_kill(options, work, number, round(fraction * total), total)
            check_visible(oracle(options, work, compare=True))
        run_to_the_end(options, work, len(KILLS) + 1)
        say("comparing with the batch answer:")
        equal = print_oracle(options, work)
    except Failed as failure:
        print(f"error: {failure}", file=sys.stderr)
        return 1
    say(f"{'every alert and every late line is there once' if equal else 'NOT EQUAL'}; {time.monotonic() - begun:.0f} s in all")
    return 0 if equal else 1


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tidemill", type=Path, required=True, metavar="BIN")
    parser.add_argument("--larkspur", type=Path, required=True, metavar="BIN", help="the generator")
    parser.add_argument("--python", type=Path, required=True, metavar="BIN", help="a Python that has duckdb, for the oracle")
    parser.add_argument("--guests", type=Path, required=True, metavar="DIR", help="folder of the built components")
    parser.add_argument("--work", type=Path, required=True, metavar="DIR", help="folder for the day, the job and its output")
    parser.add_argument("--seed", type=int, default=29)
    return parser.parse_args()


def prepare(options, work):
    """Makes the work folder as on the first day: what an earlier demo left there is removed."""
    work.mkdir(parents=True, exist_ok=True)
    for name in ("data", "out", "tidemill-data"):
        shutil.rmtree(work / name, ignore_errors=True)
    spec = (HERE / "job.yaml").read_text(encoding="utf-8")
    spec = spec.replace("../../target/guests/", f"{options.guests.resolve()}/")
    (work / "job.yaml").write_text(spec, encoding="utf-8")
    say("generating the day")
    command = [options.larkspur.resolve(), "generate", work / "data", "--seed", str(options.seed)]
    if subprocess.run(command, check=False).returncode != 0:
        raise Failed("the generator failed, see above")


# --- starts of the job


class Start:
    """One start of the job: a process and the log lines that it writes."""

    def __init__(self, options, work, number):
        self.began = time.monotonic()
        self.log = work / f"start-{number}.log"
        self.records = 0
        self.checkpoint = None
        self.resumed = False
        self._lines = queue.Queue()
        say(f"start {number}: tidemill run job.yaml")
        command = [options.tidemill.resolve(), "run", "job.yaml", "--log-format", "json"]
        self.process = subprocess.Popen(command, cwd=work, stderr=subprocess.PIPE)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        with self.log.open("wb") as log:
            for line in self.process.stderr:
                log.write(line)
                log.flush()
                self._lines.put(line)
        self._lines.put(None)

    def follow(self):
        """Yields after each log line that tells progress, until the log ends."""
        while True:
            try:
                line = self._lines.get(timeout=SILENCE_S)
            except queue.Empty:
                raise Failed(f"the job has written no log line for {SILENCE_S} s, see {self.log}") from None
            if line is None:
                return
            event = event_of(line)
            message = event.get("message", "")
            if message.startswith("resumed from checkpoint"):
                self.resumed = True
                say(f"  after {self.age():.2f} s: {message}")
            if message == "progress":
                self.records = event.get("records_in", self.records)
                self.checkpoint = event.get("checkpoint", self.checkpoint)
                yield

    def age(self):
        return time.monotonic() - self.began

    def last_words(self):
        """The end of the log, and where all of it is."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join([*lines[-5:], f"(log: {self.log})"])

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


def event_of(line):
    """The fields of a JSON log line, wherever the log format puts them; nothing for a line that is none."""
    try:
        event = json.loads(line)
    except ValueError:
        return {}
    if not isinstance(event, dict):
        return {}
    return {**event, **event.get("fields", {})}


def run_and_kill(options, work, number, records, total):
    """Starts the job and kills it when it has read this many baskets."""
    start = Start(options, work, number)
    try:
        for _ in start.follow():
            if start.records >= records:
                break
        else:
            code = start.process.wait()
            raise Failed(f"the job ended by itself with exit code {code} before {records:,} baskets were read\n{start.last_words()}")
    finally:
        start.kill()
    check_resumed(start, number)
    say(f"  after {start.age():.1f} s: SIGKILL, {start.records:,} of {total:,} baskets read ({start.records / total:.0%})")
    say(f"  on disk: {visible(work / 'out/alerts'):,} committed alerts, {hidden(work / 'out')} hidden parts; last checkpoint {start.checkpoint}")


def run_to_the_end(options, work, number):
    start = Start(options, work, number)
    try:
        for _ in start.follow():
            pass
        code = start.process.wait()
    finally:
        start.kill()
    if code != 0:
        raise Failed(f"the job ended with exit code {code}\n{start.last_words()}")
    check_resumed(start, number)
    say(f"  after {start.age():.1f} s: finished; {visible(work / 'out/alerts'):,} committed alerts, {hidden(work / 'out')} hidden parts")
    if hidden(work / "out"):
        raise Failed("the finished job left hidden parts")


def check_resumed(start, number):
    """Every start but the first has a checkpoint to come back to, and says so."""
    if start.resumed != (number > 1):
        raise Failed(f"start {number} {'resumed from a checkpoint' if start.resumed else 'did not resume from a checkpoint'}, see {start.log}")


def visible(folder):
    """Lines that `cat folder/*.jsonl` shows."""
    return sum(path.read_bytes().count(b"\n") for path in folder.glob("*.jsonl") if not path.name.startswith("."))


def hidden(folder):
    """Parts in progress or waiting for their checkpoint."""
    return sum(path.is_file() for path in folder.glob("*/.part-*"))


# --- the oracle


def oracle_command(options, work, compare):
    command = [options.python, HERE / "oracle.py", work / "data"]
    return command + (["--alerts", work / "out/alerts", "--late", work / "out/late"] if compare else [])


def oracle(options, work, compare=False):
    """What the oracle says, as data."""
    result = subprocess.run([*oracle_command(options, work, compare), "--json"], stdout=subprocess.PIPE, check=False)
    # 1 means that the output differs, which it does for as long as the day lasts.
    if result.returncode not in (0, 1):
        raise Failed("the oracle failed, see above")
    return json.loads(result.stdout)


def check_visible(answer):
    """At a kill, what is visible must be part of the answer, each record once."""
    for name in ("alerts", "late"):
        duplicate, unexpected = answer[name]["duplicate"], answer[name]["unexpected"]
        if duplicate or unexpected:
            first = (duplicate + unexpected)[0]
            raise Failed(f"{len(duplicate)} duplicate and {len(unexpected)} unexpected records are visible in out/{name}, as {first}")
    say(f"  checked: all {answer['alerts']['found']:,} alerts and {answer['late']['found']:,} late lines are in the answer, each once")


def print_oracle(options, work):
    """Prints the comparison; whether all is equal."""
    return subprocess.run(oracle_command(options, work, compare=True), check=False).returncode == 0


def say(text):
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
