"""Tests of the oracle on days small enough to work out by hand: python -m unittest test_oracle (needs duckdb)."""

import contextlib
import io
import json
import tempfile
import unittest
from pathlib import Path

import oracle

MINUTE = 60_000
NOON = 1_786_795_200_000
DEADLINE = NOON + 30 * MINUTE


def basket(name, minutes, lines, *, delay=1_000, date="2026-08-15", store=1):
    """A basket sold `minutes` after noon; lines as (sku, qty)."""
    at = NOON + int(minutes * MINUTE)
    return {
        "basket_id": name,
        "store_id": store,
        "till_id": 1,
        "business_date": date,
        "event_ts": at,
        "uploaded_at": at + delay,
        "lines": [{"sku": sku, "qty": qty} for sku, qty in lines],
    }


class Day(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = Path(folder.name)
        self.alerts = self.dir / "alerts"
        self.late = self.dir / "late"
        self.alerts.mkdir()
        self.late.mkdir()

    def write(self, openings, *files):
        """Writes a day: openings by SKU of store 1, and baskets by file."""
        rows = "".join(f"1,{sku},{opening}\n" for sku, opening in openings.items())
        (self.dir / "opening_stock.csv").write_text("store_id,sku,opening\n" + rows)
        for number, baskets in enumerate(files):
            text = "".join(json.dumps(basket) + "\n" for basket in baskets)
            (self.dir / f"pos-{number}.jsonl").write_text(text)

    def run_oracle(self, *options):
        """Exit code and printed text."""
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            code = oracle.main([str(self.dir), *options])
        return code, out.getvalue()

    def expected(self, *options):
        """What the oracle finds missing from empty folders, which is all that it expects."""
        code, text = self.run_oracle("--alerts", str(self.alerts), "--late", str(self.late), "--json", *options)
        result = json.loads(text)
        missing = result["alerts"]["missing"] + result["late"]["missing"]
        self.assertEqual(code, 1 if missing else 0)
        return result["alerts"]["missing"], result["late"]["missing"], result["counts"]


class Rule(Day):
    def check(self, openings, baskets, alerts):
        """Alerts as (kind, sku, since, alert_ts in minutes after noon, level)."""
        self.write(openings, baskets)
        found, _, counts = self.expected()
        minutes = [(kind, sku, (since - NOON) / MINUTE, (at - NOON) / MINUTE, level) for kind, _, sku, since, at, level, _ in found]
        self.assertEqual(sorted(minutes), sorted(alerts))
        return counts

    def test_last_unit_sold_and_no_more(self):
        self.check({"A": 2}, [basket("1", 0, [("A", 1)]), basket("2", 5, [("A", 1)])], [("STOCK_OUT", "A", 5, 35, 0)])

    def test_one_left(self):
        self.check({"A": 2}, [basket("1", 0, [("A", 1)])], [])

    def test_oversold(self):
        self.check({"A": 2}, [basket("1", 0, [("A", 5)])], [("STOCK_OUT", "A", 0, 30, -3)])

    def test_opened_empty(self):
        sold = [basket("1", 0, [("A", 1), ("B", 2), ("C", 1)]), basket("2", 1, [("A", 1)])]
        counts = self.check(
            {"A": 0, "B": -2},
            sold,
            [("BOOK_ERROR", "A", 0, 0, -1), ("BOOK_ERROR", "B", 0, 0, -4), ("BOOK_ERROR", "C", 0, 0, -1)],
        )
        self.assertEqual(counts["book_error_opened_empty"], 3)

    def test_sale_within_the_window_cancels(self):
        sold = [basket("1", 0, [("A", 1)]), basket("2", 29, [("A", 1)]), basket("3", 31, [("A", 1)])]
        counts = self.check({"A": 1}, sold, [("BOOK_ERROR", "A", 29, 29, -1)])
        self.assertEqual(counts["book_error_within_window"], 1)

    def test_sale_at_the_deadline_cancels(self):
        self.check({"A": 1}, [basket("1", 0, [("A", 1)]), basket("2", 30, [("A", 2)])], [("BOOK_ERROR", "A", 30, 30, -2)])

    def test_sale_after_the_deadline(self):
        sold = [basket("1", 0, [("A", 1)]), basket("2", 30 + 1 / MINUTE, [("A", 1)])]
        self.write({"A": 1}, sold)
        alerts, _, counts = self.expected()
        after = DEADLINE + 1
        self.assertEqual(alerts, [["BOOK_ERROR", 1, "A", after, after, -1, 1], ["STOCK_OUT", 1, "A", NOON, DEADLINE, 0, 1]])
        self.assertEqual(counts["book_error_after_stock_out"], 1)

    def test_lines_of_one_moment_are_one_sale(self):
        sold = [basket("1", 0, [("A", 1), ("A", 1)]), basket("2", 0, [("A", 1)], delay=60_000)]
        self.check({"A": 1}, sold, [("STOCK_OUT", "A", 0, 30, -2)])

    def test_event_time_order_and_not_arrival_order(self):
        self.check({"A": 3}, [basket("2", 1, [("A", 1)]), basket("1", 0, [("A", 3)])], [("BOOK_ERROR", "A", 1, 1, -1)])

    def test_copies_late_lines_and_other_dates_do_not_count(self):
        sold = [
            basket("1", 0, [("A", 1)]),
            basket("1", 0, [("A", 1)], delay=80_000),
            basket("2", 10, [("A", 1)], delay=5 * MINUTE + 1),
            basket("3", 10, [("A", 1)], date="2026-08-14"),
        ]
        counts = self.check({"A": 1}, sold, [("STOCK_OUT", "A", 0, 30, 0)])
        self.assertEqual([counts[name] for name in ("uploads", "copies", "other_dates", "late_lines")], [4, 1, 1, 1])

    def test_uploaded_at_the_bound_is_on_time(self):
        counts = self.check({"A": 1}, [basket("1", 0, [("A", 1)], delay=5 * MINUTE)], [("STOCK_OUT", "A", 0, 30, 0)])
        self.assertEqual(counts["late_lines"], 0)

    def test_options(self):
        self.write({"A": 1}, [basket("1", 0, [("A", 1)], date="2026-08-16"), basket("2", 5, [("A", 1)], date="2026-08-16")])
        options = ["--business-date", "2026-08-16", "--confirm-ms", "60000", "--rule-version", "2"]
        alerts, _, _ = self.expected(*options)
        self.assertEqual([alert[0] for alert in alerts], ["BOOK_ERROR", "STOCK_OUT"])
        self.assertEqual(alerts[1], ["STOCK_OUT", 1, "A", NOON, NOON + MINUTE, 0, 2])


class Input(Day):
    def check_refused(self, words):
        code, text = self.run_oracle()
        self.assertEqual(code, 2)
        self.assertIn(words, text)

    def test_an_upgrade_in_between(self):
        """The second version tells of the sales that it applies, and signs what the first has not sent."""
        day = [basket("1", 0, [("A", 2), ("B", 2), ("C", 1)]), basket("2", 40, [("A", 1), ("B", 1), ("C", 1)]), basket("3", 50, [("A", 1)])]
        self.write({"A": 3, "B": 3, "C": 3}, day)
        dump = self.dir / "stock.jsonl"
        # The first version had applied the first sale of A, and both of B, whose STOCK_OUT it had sent; nothing of C.
        stock = {"A": {"level": 1, "stock_out": False, "book_error": False}, "B": {"level": 0, "stock_out": True, "book_error": False}}
        dump.write_text("".join(json.dumps({"key": [1, sku], "value": value}) + "\n" for sku, value in stock.items()))
        found, _, counts = self.expected("--upgraded-at", str(dump))
        versions = sorted((kind, sku, level, version) for kind, _, sku, _, _, level, version in found)
        expected = [("BOOK_ERROR", "A", -1, 2), ("LOW_STOCK", "C", 1, 2), ("STOCK_OUT", "B", 0, 1)]
        self.assertEqual((versions, counts["low_stock"]), (expected, 1))
        dump.write_text("{}\n")
        self.assertEqual(self.run_oracle("--upgraded-at", str(dump))[0], 2)

    def test_empty_files_and_no_lines(self):
        self.write({"A": 1}, [], [basket("1", 0, [])])
        self.assertEqual(self.expected()[:2], ([], []))

    def test_only_an_empty_file(self):
        self.write({"A": 1}, [])
        self.assertEqual(self.expected()[:2], ([], []))

    def test_no_files(self):
        self.check_refused("no file pos-*.jsonl")

    def test_key_twice_in_the_table(self):
        self.write({"A": 1}, [])
        with (self.dir / "opening_stock.csv").open("a") as table:
            table.write("1,A,2\n")
        self.check_refused("store 1, SKU A is in it twice")

    def test_missing_field(self):
        self.write({"A": 1}, [{key: value for key, value in basket("1", 0, [("A", 1)]).items() if key != "event_ts"}])
        self.check_refused("basket 1 lacks a field")

    def test_copies_that_differ(self):
        self.write({"A": 1}, [basket("1", 0, [("A", 1)]), basket("1", 0, [("A", 2)])])
        self.check_refused("basket 1: its copies differ")

    def test_unknown_fields_are_ignored(self):
        self.write({"A": 1}, [{**basket("1", 0, [("A", 1)]), "cashier": "x"}])
        self.assertEqual(len(self.expected()[0]), 1)


class Comparison(Day):
    def setUp(self):
        super().setUp()
        late = basket("L", 0, [("A", 1), ("B", 2)], delay=120 * MINUTE)
        again = basket("L", 0, [("A", 1), ("B", 2)], delay=130 * MINUTE)
        third = basket("L", 0, [("A", 1), ("B", 2)], delay=140 * MINUTE)
        self.write({"A": 1, "B": 1}, [basket("1", 0, [("A", 1), ("B", 1)]), late], [again, third])
        self.out = [
            {"kind": "STOCK_OUT", "store_id": 1, "sku": sku, "since": NOON, "alert_ts": DEADLINE, "level": 0, "rule_version": 1}
            for sku in "AB"
        ]

    def late_line(self, sku, qty, minutes=120, **changes):
        line = {"basket_id": "L", "store_id": 1, "sku": sku, "qty": qty, "event_ts": NOON, "uploaded_at": NOON + minutes * MINUTE}
        return {**line, "watermark": -(2**63), **changes}

    def check_alerts(self, lines, **differences):
        """Compares a part with these lines (records, or text as it is); differences as numbers by kind."""
        text = "".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines)
        (self.alerts / "part-1-0.jsonl").write_text(text)
        code, text = self.run_oracle("--alerts", str(self.alerts), "--json")
        self.check_result(code, json.loads(text)["alerts"], differences)

    def check_late(self, lines, **differences):
        (self.late / "part-1-0.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        code, text = self.run_oracle("--late", str(self.late), "--json")
        self.check_result(code, json.loads(text)["late"], differences)

    def check_result(self, code, result, differences):
        found = {kind: len(result[kind]) for kind in ("missing", "duplicate", "unexpected") if result[kind]}
        self.assertEqual(found, differences, result)
        self.assertEqual(code, 1 if differences else 0)

    def test_equal(self):
        self.check_alerts(self.out)

    def test_missing(self):
        self.check_alerts(self.out[:1], missing=1)

    def test_duplicate(self):
        self.check_alerts([*self.out, *self.out[:1], *self.out[:1]], duplicate=2)

    def test_duplicate_in_another_part(self):
        (self.alerts / "part-2-0.jsonl").write_text(json.dumps(self.out[0]) + "\n")
        self.check_alerts(self.out, duplicate=1)

    def test_every_field_counts(self):
        for field in ("kind", "store_id", "sku", "since", "alert_ts", "level", "rule_version"):
            changed = "X" if field in ("kind", "sku") else 7
            self.check_alerts([self.out[0], {**self.out[1], field: changed}], missing=1, unexpected=1)

    def test_types_are_exact(self):
        for changed in (0.0, False, "0", None):
            self.check_alerts([self.out[0], {**self.out[1], "level": changed}], missing=1, unexpected=1)

    def test_fields_are_exact(self):
        self.check_alerts([{**self.out[0], "more": 1}, self.out[1]], missing=1, unexpected=1)

    def test_half_written_lines(self):
        whole = json.dumps(self.out[1]) + "\n"
        self.check_alerts([self.out[0], whole[:40]], missing=1, unexpected=1)
        self.check_alerts([self.out[0], whole[:-1]], missing=1, unexpected=1)
        self.check_alerts([self.out[0], whole[:40] + "\n"], missing=1, unexpected=1)

    def test_hidden_parts_are_not_read(self):
        (self.alerts / ".part-2-0.jsonl").write_text("half")
        self.check_alerts(self.out)

    def test_late_lines_but_for_the_watermark(self):
        self.check_late([self.late_line("A", 1), self.late_line("B", 2, watermark=NOON)])
        self.check_late([self.late_line("A", 1), self.late_line("B", 2, watermark="x")], missing=1, unexpected=1)
        self.check_late([self.late_line("A", 1), self.late_line("B", 1)], missing=1, unexpected=1)

    def test_late_copy_that_any_order_of_reading_puts_first(self):
        self.check_late([self.late_line("A", 1, 130), self.late_line("B", 2, 130)])
        self.check_late([self.late_line("A", 1, 140), self.late_line("B", 2, 140)], missing=2, unexpected=2)
        both = [self.late_line(sku, qty, minutes) for sku, qty in (("A", 1), ("B", 2)) for minutes in (120, 130)]
        self.check_late(both, duplicate=2)

    def test_equal_late_lines_are_counted(self):
        self.write({}, [basket("L", 0, [("A", 1), ("A", 1)], delay=120 * MINUTE)])
        (self.dir / "pos-1.jsonl").unlink()
        self.check_late([self.late_line("A", 1)], missing=1)
        self.check_late([self.late_line("A", 1)] * 2)
        self.check_late([self.late_line("A", 1)] * 3, duplicate=1)

    def test_report_lists_twenty_and_then_a_number(self):
        lines = [{**self.out[0], "level": level} for level in range(1, 26)]
        (self.alerts / "part-1-0.jsonl").write_text("".join(json.dumps(line) + "\n" for line in [*self.out, *lines]))
        code, text = self.run_oracle("--alerts", str(self.alerts))
        self.assertEqual(code, 1)
        self.assertIn("alerts: 27 found, 2 expected; missing 0, duplicate 0, unexpected 25\n", text)
        self.assertEqual(text.count("  unexpected: ["), 20)
        self.assertIn("  unexpected: and 5 more\n", text)


if __name__ == "__main__":
    unittest.main()
