#!/usr/bin/env python3
"""The batch answer for a day of sales, and whether a job's output equals it.

    oracle.py DIR                                            print the counts of the day
    oracle.py DIR --alerts out/alerts --late out/late        and compare alert for alert, late line for late line

DIR holds pos-*.jsonl and opening_stock.csv. The rule is applied to the whole day at once, in DuckDB SQL and Python, and shares nothing with
the engine. Exit code: 0 equal (or nothing compared), 1 different, 2 the day cannot be read.

One limit: a line counts as late here if it was uploaded more than --max-upload-delay-ms after its sale. A job also calls a line late that
arrives behind the watermark, which depends on the order in which it reads the files. On a day whose files are further out of order than the
job's bound, without late uploads, the two differ by design.
"""

import argparse
import itertools
import json
import sys
from collections import Counter
from pathlib import Path

import duckdb

LISTED = 20
ALERT = {"kind": str, "store_id": int, "sku": str, "since": int, "alert_ts": int, "level": int, "rule_version": int}
LATE = {"basket_id": str, "store_id": int, "sku": str, "qty": int, "event_ts": int, "uploaded_at": int, "watermark": int}


class BadDay(Exception):
    """The input cannot be read, or has no single answer."""


# --- the answer


def load(day):
    """A database with the tables `upload` (in file order by rowid), `opening` and `basket` (first copies of `upload`)."""
    files = sorted(str(path) for path in Path(day).glob("pos-*.jsonl"))
    if not files:
        raise BadDay(f"reading {day}: there is no file pos-*.jsonl in it")
    stock = Path(day) / "opening_stock.csv"
    if not stock.is_file():
        raise BadDay(f"reading {stock}: there is no such file")
    db = duckdb.connect()
    db.execute(
        """CREATE TABLE upload AS SELECT * FROM read_json($files, format = 'newline_delimited', filename = 'file', columns = {
             basket_id: 'VARCHAR', store_id: 'BIGINT', business_date: 'VARCHAR', event_ts: 'BIGINT', uploaded_at: 'BIGINT',
             lines: 'STRUCT(sku VARCHAR, qty BIGINT)[]'})""",
        {"files": files},
    )
    db.execute(
        """CREATE TABLE opening AS SELECT store_id, sku, opening FROM read_csv($stock, header = true, delim = ',', quote = '"',
             types = {store_id: 'BIGINT', sku: 'VARCHAR', opening: 'BIGINT'})""",
        {"stock": str(stock)},
    )
    db.execute("CREATE TABLE basket AS SELECT * FROM upload QUALIFY row_number() OVER (PARTITION BY basket_id ORDER BY upload.rowid) = 1")
    return db


def check(db, rule):
    """Refuses rows that are not of the format, and a day whose answer would hang on the order of reading."""
    row = db.execute(
        """SELECT file, basket_id FROM upload WHERE basket_id IS NULL OR store_id IS NULL OR business_date IS NULL OR event_ts IS NULL
             OR uploaded_at IS NULL OR lines IS NULL OR len(list_filter(lines, lambda l: l.sku IS NULL OR l.qty IS NULL)) > 0 LIMIT 1"""
    ).fetchone()
    if row:
        raise BadDay(f"{row[0]}: basket {row[1]} lacks a field")
    row = db.execute("SELECT store_id, sku FROM opening GROUP BY ALL HAVING count(*) > 1 LIMIT 1").fetchone()
    if row:
        raise BadDay(f"opening_stock.csv: store {row[0]}, SKU {row[1]} is in it twice")
    row = db.execute(
        """SELECT basket_id FROM upload WHERE basket_id IN (SELECT basket_id FROM upload GROUP BY ALL HAVING count(*) > 1)
           GROUP BY basket_id
           HAVING count(DISTINCT {s: store_id, d: business_date, e: event_ts, l: lines, late: uploaded_at - event_ts > $delay}) > 1
           LIMIT 1""",
        {"delay": rule.max_upload_delay_ms},
    ).fetchone()
    if row:
        raise BadDay(f"basket {row[0]}: its copies differ in more than uploaded_at, or only some of them are late")


def upgrade(dump):
    """What the first version had come to when the second took over: (store_id, sku) -> (level, STOCK_OUT sent, BOOK_ERROR sent)."""
    stock = {}
    for number, line in enumerate(Path(dump).read_text().splitlines(), 1):
        try:
            row = json.loads(line)
            store_id, sku = row["key"]
            stock[store_id, sku] = (row["value"]["level"], row["value"]["stock_out"], row["value"]["book_error"])
        except (ValueError, KeyError, TypeError) as error:
            raise BadDay(f"{dump}:{number}: this is no line of a dump of the state stock: {error}") from None
    return stock


def upgraded(key, opening, course, alerts, stock):
    """The alerts of one key as (kind, since, alert_ts, level, rule_version), if the second version took over at this stock.

    Whatever the first version has sent is marked in its stock; the second also tells of each sale, applied by it, that leaves one unit."""
    level, *sent = stock.get(key, (opening, False, False))
    versions = dict(zip(("STOCK_OUT", "BOOK_ERROR"), (1 if done else 2 for done in sent)))
    found = [(*alert, versions[alert[0]]) for alert in alerts]
    now, applied = opening, opening == level
    for at, units in course:
        before, now = now, now - units
        if applied and before > 1 and now == 1:
            found.append(("LOW_STOCK", at, at, now, 2))
        applied = applied or now == level
    return found


def answer(db, rule):
    """The expected alerts, and the counts of the day's on-time lines and alerts."""
    alerts, counts = [], Counter()
    stock = upgrade(rule.upgraded_at) if rule.upgraded_at else None
    for (store_id, sku, opening), rows in itertools.groupby(sales(db, rule), key=lambda row: row[:3]):
        course = []
        for *_, event_ts, units, lines in rows:
            course.append((event_ts, units))
            counts["lines"] += lines
        found = alerts_of(opening, course, rule)
        counts["keys"] += 1
        kinds = [alert[0] for alert in found]
        counts.update(kinds)
        if "BOOK_ERROR" in kinds:
            counts["opened_empty" if opening <= 0 else "after_stock_out" if "STOCK_OUT" in kinds else "within_window"] += 1
        if stock is None:
            versioned = [(*alert, rule.rule_version) for alert in found]
        else:
            versioned = upgraded((store_id, sku), opening, course, found, stock)
            counts["LOW_STOCK"] += sum(alert[0] == "LOW_STOCK" for alert in versioned)
        alerts += [(kind, store_id, sku, *rest) for kind, *rest in versioned]
    return alerts, counts


def sales(db, rule):
    """Rows (store_id, sku, opening, event_ts, units, lines) by key and time: all on-time units of a key at one event time are one sale."""
    return db.execute(
        """SELECT store_id, sku, coalesce(opening, 0), event_ts, units, n FROM (
             SELECT store_id, line.sku AS sku, event_ts, sum(line.qty)::BIGINT AS units, count(*) AS n
             FROM (SELECT store_id, event_ts, unnest(lines) AS line FROM basket
                   WHERE business_date = $date AND uploaded_at - event_ts <= $delay)
             GROUP BY ALL)
           LEFT JOIN opening USING (store_id, sku) ORDER BY store_id, sku, event_ts""",
        {"date": rule.business_date, "delay": rule.max_upload_delay_ms},
    ).fetchall()


def alerts_of(opening, course, rule):
    """The alerts of one key as (kind, since, alert_ts, level); `course` has its sales as (event_ts, units), oldest first."""
    alerts, level = [], opening
    emptied, confirmed, booked = None, False, False
    for at, units in [*course, (None, 0)]:
        # Strictly before: a sale at the deadline itself comes first. After the last sale every deadline passes.
        if emptied is not None and not confirmed and (at is None or emptied + rule.confirm_ms < at):
            confirmed = True
            alerts.append(("STOCK_OUT", emptied, emptied + rule.confirm_ms, level))
        if at is None:
            break
        before, level = level, level - units
        if before <= 0:
            emptied = None
            if not booked:
                booked = True
                alerts.append(("BOOK_ERROR", at, at, level))
        elif level <= 0:
            emptied = at
    return alerts


def late_lines(db, rule):
    """The expected late lines without their watermark."""
    return db.execute(
        """SELECT basket_id, store_id, line.sku, line.qty, event_ts, uploaded_at
           FROM (SELECT *, unnest(lines) AS line FROM basket WHERE business_date = $date AND uploaded_at - event_ts > $delay)""",
        {"date": rule.business_date, "delay": rule.max_upload_delay_ms},
    ).fetchall()


def other_firsts(db):
    """(basket_id, uploaded_at) -> uploaded_at of the copy taken as first, for copies that another order of reading the files puts first."""
    rows = db.execute(
        """SELECT basket_id, f.uploaded_at, basket.uploaded_at FROM basket JOIN (
             SELECT basket_id, uploaded_at FROM upload QUALIFY row_number() OVER (PARTITION BY basket_id, file ORDER BY upload.rowid) = 1
           ) f USING (basket_id) WHERE f.uploaded_at <> basket.uploaded_at"""
    ).fetchall()
    return {(basket_id, other): first for basket_id, other, first in rows}


# --- the comparison


def compare(expected, found, unreadable):
    """Missing, duplicate and unexpected records of `found` against `expected`, both multisets of tuples."""
    return {
        "expected": expected.total(),
        "found": found.total() + len(unreadable),
        "missing": sorted((expected - found).elements()),
        "duplicate": sorted(record for record in (found - expected).elements() if record in expected),
        "unexpected": sorted(record for record in found.elements() if record not in expected) + unreadable,
    }


def read_output(folder, fields):
    """The records of a folder's visible *.jsonl files as a multiset of tuples, and the lines that are no such record."""
    records, unreadable = Counter(), []
    # Hidden files belong to no completed checkpoint.
    for path in sorted(path for path in Path(folder).glob("*.jsonl") if not path.name.startswith(".")):
        for number, line in enumerate(path.read_bytes().splitlines(keepends=True), 1):
            try:
                records[record_of(line, fields)] += 1
            except ValueError as error:
                text = line.decode("utf-8", "replace").rstrip("\n")
                unreadable.append((f"{path}:{number}", str(error), text[:200]))
    return records, unreadable


def record_of(line, fields):
    """One line of output as a tuple in the order of `fields`."""
    if not line.endswith(b"\n"):
        raise ValueError("the line has no end")
    try:
        record = json.loads(line)
    except ValueError as error:
        raise ValueError(f"not JSON: {error}") from None
    if not isinstance(record, dict) or record.keys() != fields.keys():
        raise ValueError(f"the fields are not {', '.join(fields)}")
    for field, kind in fields.items():
        # bool is an int to Python, not to a reader of the output.
        if type(record[field]) is not kind:
            raise ValueError(f"{field} is not {'a string' if kind is str else 'an integer'}")
    return tuple(record[field] for field in fields)


def compare_alerts(expected, folder):
    found, unreadable = read_output(folder, ALERT)
    return compare(Counter(expected), found, unreadable)


def compare_late(expected, firsts, folder):
    """Late lines but for their watermark, which hangs on the order of reading."""
    read, unreadable = read_output(folder, LATE)
    found = Counter()
    for (basket_id, store_id, sku, qty, event_ts, uploaded_at, _), number in read.items():
        found[basket_id, store_id, sku, qty, event_ts, firsts.get((basket_id, uploaded_at), uploaded_at)] += number
    return compare(Counter(expected), found, unreadable)


# --- the command


def report(counts, comparisons):
    """Prints what people read."""
    print(f"on-time lines of {counts['business_date']}: {counts['on_time_lines']:,} over {counts['sold_keys']:,} store-SKUs")
    print(f"opening stock: {counts['store_skus']:,} store-SKUs, {counts['opened_at_or_below_zero']:,} of them at zero or below")
    low_stock = f" + LOW_STOCK {counts['low_stock']:,}" if counts["low_stock"] else ""
    print(f"expected alerts: {counts['alerts']:,} = STOCK_OUT {counts['stock_out']:,} + BOOK_ERROR {counts['book_error']:,}{low_stock}")
    print(f"expected late lines: {counts['late_lines']:,}")
    print(
        f"BOOK_ERROR: {counts['book_error_opened_empty']:,} on store-SKUs that opened at zero or below,"
        f" {counts['book_error_after_stock_out']:,} after a STOCK_OUT, {counts['book_error_within_window']:,} within the confirm window"
    )
    print(f"baskets: {counts['uploads']:,} uploads, {counts['copies']:,} of them later copies, {counts['other_dates']:,} of other business dates")
    for name, result in comparisons.items():
        differences = ", ".join(f"{kind} {len(result[kind]):,}" for kind in ("missing", "duplicate", "unexpected"))
        print(f"{name}: {result['found']:,} found, {result['expected']:,} expected; {differences}")
        for kind in ("missing", "duplicate", "unexpected"):
            for record in result[kind][:LISTED]:
                print(f"  {kind}: {json.dumps(record)}")
            if len(result[kind]) > LISTED:
                print(f"  {kind}: and {len(result[kind]) - LISTED:,} more")


def summary(db, rule, alerts, counted, late):
    """The counts of the day by the names that --json prints."""

    def one(query, **values):
        return db.execute(query, values).fetchone()[0]

    return {
        "business_date": rule.business_date,
        "store_skus": one("SELECT count(*) FROM opening"),
        "opened_at_or_below_zero": one("SELECT count(*) FROM opening WHERE opening <= 0"),
        "on_time_lines": counted["lines"],
        "sold_keys": counted["keys"],
        "late_lines": len(late),
        "alerts": len(alerts),
        "stock_out": counted["STOCK_OUT"],
        "book_error": counted["BOOK_ERROR"],
        "low_stock": counted["LOW_STOCK"],
        "book_error_opened_empty": counted["opened_empty"],
        "book_error_after_stock_out": counted["after_stock_out"],
        "book_error_within_window": counted["within_window"],
        "uploads": one("SELECT count(*) FROM upload"),
        "copies": one("SELECT (SELECT count(*) FROM upload) - (SELECT count(*) FROM basket)"),
        "other_dates": one("SELECT count(*) FROM upload WHERE business_date <> $date", date=rule.business_date),
    }


def arguments(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("day", metavar="DIR", help="folder with pos-*.jsonl and opening_stock.csv")
    parser.add_argument("--alerts", metavar="DIR", help="folder of the job's alerts, *.jsonl")
    parser.add_argument("--late", metavar="DIR", help="folder of the job's late lines, *.jsonl")
    parser.add_argument("--business-date", default="2026-08-15", metavar="DATE")
    parser.add_argument("--confirm-ms", type=int, default=30 * 60_000, metavar="MS", help="default: 30 minutes")
    parser.add_argument("--max-upload-delay-ms", type=int, default=5 * 60_000, metavar="MS", help="default: 5 minutes")
    parser.add_argument("--rule-version", type=int, default=1, metavar="N")
    parser.add_argument("--upgraded-at", metavar="FILE", help="the state stock (savepoint dump) at which stock_out_v2 took over from stock_out")
    parser.add_argument("--json", action="store_true", help="print one JSON object, the records that differ in full")
    return parser.parse_args(argv)


def main(argv=None):
    rule = arguments(argv)
    try:
        db = load(rule.day)
        check(db, rule)
        alerts, counted = answer(db, rule)
    except (BadDay, duckdb.Error, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    late = late_lines(db, rule)
    counts = summary(db, rule, alerts, counted, late)
    comparisons = {}
    if rule.alerts:
        comparisons["alerts"] = compare_alerts(alerts, rule.alerts)
    if rule.late:
        comparisons["late"] = compare_late(late, other_firsts(db), rule.late)
    if rule.json:
        print(json.dumps({"counts": counts, **comparisons}))
    else:
        report(counts, comparisons)
    equal = not any(result[kind] for result in comparisons.values() for kind in ("missing", "duplicate", "unexpected"))
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
