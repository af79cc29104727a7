"""What the Python module gives, against what C++ computed: python3 module_test.py EXAMPLES RUN."""

import gc
import json
import pathlib
import sys
import threading
import unittest

import ml_dtypes
import numpy as np

import lockstep

examples, run_folder = (pathlib.Path(argument) for argument in sys.argv[1:3])


def numpy_dtype(name):
    return np.dtype(ml_dtypes.bfloat16) if name == "bfloat16" else np.dtype(name)


def stored(name, part, i, type):
    data = (examples / f"{name}.{part}.{i}").read_bytes()
    return np.frombuffer(data, numpy_dtype(type.dtype)).reshape(type.shape)


def aligned(shape, dtype):
    """An array at a multiple of 64 bytes."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = np.zeros(size + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + size].view(dtype).reshape(shape)


class Functions(unittest.TestCase):
    def check_same(self, given, name, i, type):
        expected = stored(name, "out", i, type)
        self.assertEqual(given.dtype, expected.dtype)
        self.assertEqual(given.shape, expected.shape)
        self.assertEqual(given.tobytes(), expected.tobytes())

    def test_a_model_gives_the_bytes_of_cpp(self):
        f = lockstep.load(examples / "mlp.function")
        self.assertEqual(f.inputs[0].shape, (4, 5))
        self.assertEqual(f.inputs[0].dtype, "float32")
        self.assertEqual(repr(f.outputs), "f32[4,3]")
        self.assertEqual(f.written_by, lockstep.__version__)
        self.assertIn("dot_general", f.program)
        x = stored("mlp", "in", 0, f.inputs[0])
        self.check_same(f(x), "mlp", 0, f.outputs)
        # However it lies, and whatever it is.
        self.check_same(f(np.asfortranarray(x)), "mlp", 0, f.outputs)
        self.check_same(f(x[::-1][::-1]), "mlp", 0, f.outputs)
        self.check_same(f(x.astype(">f4")), "mlp", 0, f.outputs)
        self.check_same(f(x.tolist()), "mlp", 0, f.outputs)
        self.check_same(f(lockstep.array(x)), "mlp", 0, f.outputs)
        self.check_same(lockstep.load(str(examples / "mlp.function"))(x), "mlp", 0, f.outputs)

    def test_bfloat16(self):
        f = lockstep.load(examples / "narrow.function")
        y = f(stored("narrow", "in", 0, f.inputs[0]))
        self.assertEqual(y.dtype, ml_dtypes.bfloat16)
        self.check_same(y, "narrow", 0, f.outputs)
        self.check_same(f(stored("narrow", "in", 0, f.inputs[0]).astype("float32").tolist()), "narrow", 0, f.outputs)

    def test_without_ml_dtypes_bfloat16_is_an_error_that_says_so(self):
        f = lockstep.load(examples / "narrow.function")
        x = stored("narrow", "in", 0, f.inputs[0])
        kept, sys.modules["ml_dtypes"] = sys.modules["ml_dtypes"], None
        try:
            with self.assertRaisesRegex(lockstep.DtypeError, "install ml_dtypes"):
                f(x)
        finally:
            sys.modules["ml_dtypes"] = kept

    def test_trees_and_every_dtype(self):
        f = lockstep.load(examples / "tree.function")
        named, pair = f.inputs
        self.assertEqual(len(f.inputs), 2)
        arguments = {key: stored("tree", "in", i, type) for i, (key, type) in enumerate(sorted(named.items()))}
        items = [stored("tree", "in", len(named) + i, type) for i, type in enumerate(pair)]
        turned, sums = f(arguments, items)
        self.assertEqual(sorted(turned), sorted(named))
        for i, key in enumerate(sorted(named)):
            self.check_same(turned[key], "tree", i, f.outputs[0][key])
            np.testing.assert_array_equal(turned[key], arguments[key][::-1])
        for i in range(2):
            self.check_same(sums[i], "tree", len(named) + i, f.outputs[1][i])
        # A tuple is a list; a number takes the dtype that is expected.
        again = f(arguments, (1.5, [1, 2]))
        self.assertEqual(again[1][0].tobytes(), sums[0].tobytes())

    def test_errors_are_exceptions_of_the_same_names(self):
        f = lockstep.load(examples / "mlp.function")
        with self.assertRaisesRegex(lockstep.StateError, "takes 1 arguments, 2 are given"):
            f(np.zeros((4, 5), "float32"), 1)
        with self.assertRaisesRegex(lockstep.ShapeError, r"f32\[4,6\]"):
            f(np.zeros((4, 6), "float32"))
        with self.assertRaisesRegex(lockstep.StateError, "structure"):
            f({"x": np.zeros((4, 5), "float32")})
        with self.assertRaisesRegex(lockstep.StateError, "no str"):
            f({1: np.zeros((4, 5), "float32")})
        with self.assertRaises(lockstep.Error):
            f(np.array(["a"]))
        with self.assertRaisesRegex(lockstep.DataError, "missing.function"):
            lockstep.load(examples / "missing.function")
        self.assertTrue(issubclass(lockstep.ShapeError, lockstep.Error))
        self.assertTrue(issubclass(lockstep.Error, RuntimeError))

    def test_results_cannot_be_written_and_outlive_the_function(self):
        f = lockstep.load(examples / "mlp.function")
        y = f(stored("mlp", "in", 0, f.inputs[0]))
        self.assertFalse(y.flags.writeable)
        outputs = f.outputs
        del f
        gc.collect()
        self.check_same(y, "mlp", 0, outputs)

    def test_threads_share_a_function(self):
        f = lockstep.load(examples / "mlp.function")
        x = stored("mlp", "in", 0, f.inputs[0])
        results = [None] * 8

        def call(i):
            for _ in range(20):
                results[i] = f(x).tobytes()

        threads = [threading.Thread(target=call, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(set(results), {stored("mlp", "out", 0, f.outputs).tobytes()})


class Arrays(unittest.TestCase):
    def test_aligned_memory_is_shared_other_memory_is_copied(self):
        x = aligned((3, 4), np.float32)
        x[:] = np.arange(12).reshape(3, 4)
        a = lockstep.array(x)
        self.assertEqual(a.numpy().ctypes.data, x.ctypes.data)
        self.assertFalse(a.numpy().flags.writeable)
        np.testing.assert_array_equal(lockstep.array(x.T).numpy(), x.T)
        self.assertNotEqual(lockstep.array(x.T).numpy().ctypes.data, x.ctypes.data)
        self.assertEqual(a.shape, (3, 4))
        self.assertEqual(a.dtype, "float32")
        self.assertEqual(repr(a), "f32[3,4]")
        np.testing.assert_array_equal(np.asarray(a), x)
        np.testing.assert_array_equal(np.asarray(a, dtype="int32"), x.astype("int32"))

    def test_an_array_keeps_the_memory_it_is_over(self):
        x = aligned((1000,), np.float64)
        x[:] = 7
        a = lockstep.array(x)
        del x
        gc.collect()
        view = a.numpy()
        del a
        gc.collect()
        self.assertEqual(view.sum(), 7000)

    def test_memory_is_given_back(self):
        x = aligned((4,), np.float32)
        base = x.base
        while base.base is not None:
            base = base.base
        before = sys.getrefcount(base)
        views = [lockstep.array(x).numpy() for _ in range(10)]
        del views, x
        gc.collect()
        self.assertLessEqual(sys.getrefcount(base), before)

    def test_dlpack_with_numpy(self):
        for shape in [(), (3,), (2, 0), (2, 3)]:
            x = np.ones(shape, "float32")
            back = np.from_dlpack(lockstep.array(x))
            np.testing.assert_array_equal(back, x)
        a = lockstep.array(np.arange(4.0))
        self.assertEqual(a.__dlpack_device__(), (1, 0))
        shared = np.from_dlpack(a)
        if not shared.flags.writeable:  # DLPack 1.x
            self.assertEqual(shared.ctypes.data, a.numpy().ctypes.data)
        old = a.__dlpack__()  # without a version: memory of its own
        self.assertIn("dltensor", repr(old))
        del old
        new = a.__dlpack__(max_version=(1, 0))
        self.assertIn("dltensor_versioned", repr(new))

    def check_other_library(self, make, take):
        x = np.arange(6, dtype="float32").reshape(2, 3)
        np.testing.assert_array_equal(lockstep.array(make(x)).numpy(), x)
        np.testing.assert_array_equal(np.asarray(take(lockstep.array(x))), x)

    def test_dlpack_with_torch(self):
        try:
            import torch
        except ImportError:
            self.skipTest("no torch")
        self.check_other_library(torch.tensor, torch.from_dlpack)
        narrow = torch.arange(4).to(torch.bfloat16)
        self.assertEqual(lockstep.array(narrow).dtype, "bfloat16")
        self.assertTrue(torch.equal(torch.from_dlpack(lockstep.array(narrow)), narrow))
        with self.assertRaises(lockstep.DtypeError):
            lockstep.array(torch.zeros(4, dtype=torch.float8_e5m2))

    def test_dlpack_with_jax(self):
        try:
            import jax
        except ImportError:
            self.skipTest("no JAX")
        self.check_other_library(jax.numpy.asarray, jax.dlpack.from_dlpack)


class Runs(unittest.TestCase):
    def setUp(self):
        self.run_ = lockstep.Run(run_folder)

    def test_manifest_metrics_and_fingerprint(self):
        self.assertEqual(self.run_.path, run_folder)
        self.assertEqual(self.run_.manifest["model"], "mlp")
        self.assertEqual(self.run_.manifest, json.loads((run_folder / "manifest.json").read_text()))
        metrics = self.run_.metrics
        self.assertEqual(metrics["step"].dtype, np.int64)
        lines = (run_folder / "metrics.csv").read_text().splitlines()
        self.assertEqual(list(metrics), lines[0].split(","))
        for i, line in enumerate(lines[1:]):
            for name, cell in zip(metrics, line.split(",")):
                self.assertTrue(metrics[name][i] == float(cell) if cell else np.isnan(metrics[name][i]))
        self.assertEqual(self.run_.steps, [3, 6])
        self.assertEqual(self.run_.fingerprint, json.loads((run_folder / "result.json").read_text())["fingerprint"])

    def test_weights_and_predictions(self):
        weights = self.run_.weights()
        self.assertTrue(any(path.endswith("kernel") for path in weights))
        earlier = self.run_.weights(step=3)
        self.assertEqual(set(weights), set(earlier))
        self.assertTrue(any(weights[p].tobytes() != earlier[p].tobytes() for p in weights))
        with self.assertRaisesRegex(lockstep.CheckpointError, "5"):
            self.run_.weights(step=5)
        x = np.random.default_rng(0).normal(size=(5, 4, 4, 1)).astype("float32")
        y = self.run_.predict(x)
        self.assertEqual(y.shape, (5, 10))
        self.assertEqual(y.tobytes(), self.run_.predict(x, step=6).tobytes())
        self.assertNotEqual(y.tobytes(), self.run_.predict(x, step=3).tobytes())

    def test_no_run_is_an_error(self):
        with self.assertRaises(lockstep.DataError):
            lockstep.Run(examples)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
