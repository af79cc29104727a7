"""What compare.py makes of measurements: which rows count, and what each is compared with in the table and the plot."""

import json
import math
import pathlib
import re
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "benches"))

import compare
import tables

SAYS_FIRST = """
import json, sys, time
said = {"first_call_s": 0.1, "first_loss_at": time.monotonic(), "losses": [1.0], "memory_mib": 1, "versions": {}}
time.sleep(0.2)  # the other steps
print(json.dumps(said), flush=True)
sys.stdin.read()
"""


def row(ms, counts=True, losses=(2.0, 1.0)):
    return {"median_ms": ms, "counts": counts, "noisy": not counts, "samples": 5, "losses": list(losses),
            "first_call_s": 0.5, "start_s": 1.0, "memory_mib": 10}


def result(rows):
    return {"machine": [], "rows": rows, "absent": {}, "loss_spread": None, "bf16_loss_spread": None}


ROWS = {
    "lockstep": row(8.0), "lockstep V=8": row(9.0), "lockstep 1 device": row(15.2), "lockstep bf16": row(3.0),
    "jax": row(20.0), "torch compiled": row(10.0), "libtorch": row(1.0, counts=False),
    "torch autocast": row(6.0), "torch compiled autocast": row(4.0),
}


class Baselines(unittest.TestCase):
    def test_each_precision_has_its_own_fastest_peer_that_counts(self):
        self.assertEqual(tables.best_peers(ROWS), {False: "torch compiled", True: "torch compiled autocast"})

    def test_table_and_plot_show_the_same_ratios(self):
        text, drawn = tables.table({"gpt": result(ROWS)}), tables.plot({"gpt": result(ROWS)})
        for name, ratio in {"lockstep": "0.80", "lockstep V=8": "0.90", "lockstep bf16": "0.75"}.items():
            line = next(l for l in text.splitlines() if l.startswith(f"  {name:22} "))
            self.assertIn(f" {ratio} of torch compiled", line)
            self.assertRegex(drawn, f">{re.escape(name)}</text><rect[^>]*/><text[^>]*>{re.escape(ratio)} ")
        self.assertNotIn(">libtorch<", drawn)

    def test_own_ratios(self):
        self.assertIn("two devices 1.90 times as fast as one", tables.table({"gpt": result(ROWS)}))
        self.assertIn("V=8 takes 1.12 of lockstep's time", tables.table({"gpt": result(ROWS)}))
        self.assertEqual(tables.own_ratios({"lockstep": row(8.0), "lockstep V=8": row(9.0, counts=False)}), [])

    def test_without_a_peer_there_is_no_ratio(self):
        alone = result({"lockstep": row(8.0)})
        self.assertNotIn(" of ", tables.table({"gpt": alone}))
        self.assertIn(">8.00 ms<", tables.plot({"gpt": alone}))


class Losses(unittest.TestCase):
    def test_largest_difference_in_one_precision(self):
        rows = {"lockstep": row(1), "jax": row(1, losses=(2.0, 1.1)), "torch autocast": row(1, losses=(2.4, 1.0))}
        self.assertAlmostEqual(tables.losses_agree(rows, False), 0.1)
        self.assertAlmostEqual(tables.losses_agree(rows, True), 0.2)

    def test_what_is_not_a_number_agrees_with_nothing(self):
        rows = {"lockstep": row(1), "jax": row(1), "keras": row(1, losses=(2.0, math.nan))}
        self.assertEqual(tables.losses_agree(rows, False), math.inf)

    def test_nothing_to_compare(self):
        self.assertIsNone(tables.losses_agree({"jax": row(1)}, False))
        self.assertIsNone(tables.losses_agree({"lockstep": row(1)}, True))


class Rows(unittest.TestCase):
    def setUp(self):
        self.begin = time.monotonic()
        self.process = compare.Process("fake", [sys.executable, "-c", SAYS_FIRST])

    def tearDown(self):
        self.process.close()

    def test_few_or_scattered_samples_do_not_count(self):
        for samples, rounds, counts in (([], 9, False), ([1.0], 1, False), ([1.0] * 2, 3, False), ([1.0] * 3, 3, True),
                                        ([1.0] * 4, 9, False), ([1.0] * 5, 9, True), ([1.0, 1.2, 1.2], 3, False)):
            self.process.samples = samples
            self.assertEqual(self.process.row(rounds)["counts"], counts, (samples, rounds))

    def test_a_program_built_before_what_is_read_today_is_named(self):
        with self.assertRaisesRegex(RuntimeError, "^old did not say first_loss_at: build .* again$"):
            compare.Process("old", [sys.executable, "-c", SAYS_FIRST.replace("first_loss_at", "start")])

    def test_start_ends_with_the_first_loss(self):
        self.assertGreater(self.process.start_s, 0)
        self.assertLessEqual(self.process.start_s, time.monotonic() - self.begin - 0.2)
        json.dumps(self.process.row(3))


if __name__ == "__main__":
    unittest.main()
