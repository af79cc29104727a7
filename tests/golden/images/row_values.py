#!/usr/bin/env python3
"""Writes values.txt: what Keras' image layers make of two images.

    python3 tests/golden/images/row_values.py

needs JAX 0.10.2 and Keras 3.15.1. row_values_test.cpp makes the same images and holds data:: functions against these: "bytes"
are whole numbers of 0 to 255 (computed as float32, unrounded), "floats" lie between 0 and 1. What a layer draws is given
to it. A line "<case>/<bytes or floats> | <values>" for each.
"""

import os
import pathlib

os.environ["KERAS_BACKEND"] = "jax"

import jax.numpy as jnp
import keras
import numpy as np

L = keras.layers
ADAPTIVE = L.ContrastLimitedAdaptiveHistogramEqualization
HEIGHT, WIDTH = 7, 9


def image():
    y, x, c = np.meshgrid(np.arange(HEIGHT), np.arange(WIDTH), np.arange(3), indexing="ij")
    return ((37 * y + 91 * x * x + 53 * c + 7 * y * x) % 251).astype("float32")


def with_range(layer, *arguments, **options):
    return lambda top: layer(*arguments, value_range=(0, top), **options)


def given(make, transformation):
    """A layer with what it would have drawn; functions are of white."""

    def run(x, top):
        values = {name: value(top) if callable(value) else jnp.asarray(value) for name, value in transformation.items()}
        return make(top).transform_images(x, values)

    return run


def of_unit(run):
    """In units of white, which Keras' saturation takes for granted."""
    return lambda x, top: run(x / top, 1) * top


def sampled(layer, transformation):
    return lambda x, top: layer._transform_images(x, transformation, layer.interpolation)


def rotated(x, top, **options):
    layer = L.RandomRotation(0.5, **options)
    one, none = jnp.ones(1, "float32"), jnp.zeros(1, "float32")
    matrix = layer._compute_affine_matrix(0.5, 0.5, 40 * one, none, none, one, none, none, HEIGHT, WIDTH)
    return layer._transform_images(x, {"rotation_matrix": matrix}, layer.interpolation)


CORNERS = np.array([[[0, 0], [8, 0], [0, 6], [8, 6]]], "float32")
MOVED = np.array([[[1, 0.5], [7.5, -1], [-0.5, 5], [8.25, 6.5]]], "float32")
SHAPE = (1, HEIGHT, WIDTH, 3)
zoomed = {"height_zoom": jnp.array([[1.25]]), "width_zoom": jnp.array([[0.75]]), "input_shape": SHAPE}
sheared = {"shear_factor": jnp.array([[0.25, -0.125]]), "input_shape": SHAPE}
seen = {
    "apply_perspective": jnp.array([True]),
    "start_points": jnp.array(CORNERS),
    "end_points": jnp.array(MOVED),
    "input_shape": SHAPE,
}

CASES = {
    "brightness": given(with_range(L.RandomBrightness, 0.5), {"rgb_delta": lambda top: np.float32(0.25 * top)}),
    "contrast": given(with_range(L.RandomContrast, 0.5), {"contrast_factor": np.float32(1.5)}),
    "saturation": of_unit(given(with_range(L.RandomSaturation, 0.5), {"factor": np.array([1.5], "float32")})),
    "hue": given(with_range(L.RandomHue, 0.5), {"factor": np.array([0.125], "float32")}),
    "faded": given(with_range(L.RandomColorDegeneration, 0.5), {"factor": np.float32(0.625)}),
    "grey": lambda x, top: L.RandomGrayscale(1.0).transform_images(x, jnp.ones((1, 1, 1, 1), bool)),
    "inverted": given(with_range(L.RandomInvert, 1.0), {"apply_inversion": np.array([True])}),
    "posterized": given(with_range(L.RandomPosterization, 3), {"shift_factor": np.array([5], "uint8")}),
    "solarized": given(
        with_range(L.Solarization, 0.5, 0.5),
        {"additions": np.float32(0.125 * 255), "thresholds": np.float32(0.5 * 255)},
    ),
    "auto_contrast": lambda x, top: L.AutoContrast(value_range=(0, top)).transform_images(x),
    "equalized": lambda x, top: L.Equalization(value_range=(0, top)).transform_images(x, None),
    "equalized_64": lambda x, top: L.Equalization(value_range=(0, top), bins=64).transform_images(x, None),
    "adaptive": lambda x, top: ADAPTIVE(value_range=(0, top), tile_grid_size=(2, 3), clip_limit=20.0).transform_images(x),
    "adaptive_unlimited": lambda x, top: ADAPTIVE(
        value_range=(0, top), tile_grid_size=(3, 2), clip_limit=0.0
    ).transform_images(x),
    "sharpened": given(with_range(L.RandomSharpness, 0.5), {"factor": np.array([0.75], "float32")}),
    "blurred": given(
        with_range(L.RandomGaussianBlur, 1.0, kernel_size=(3, 5)),
        {"should_apply_blur": np.array([True]), "blur_factor": np.array([0.75, 1.25], "float32")},
    ),
    "rotated": rotated,
    "rotated_nearest": lambda x, top: rotated(x, top, interpolation="nearest", fill_mode="wrap"),
    "zoomed": sampled(L.RandomZoom(0.5, 0.5), zoomed),
    "zoomed_constant": sampled(L.RandomZoom(0.5, 0.5, fill_mode="constant", fill_value=0.5), zoomed),
    "sheared": sampled(L.RandomShear(0.5, 0.5, fill_mode="nearest"), sheared),
    "perspective": sampled(L.RandomPerspective(), seen),
}


def main():
    lines = ["# Keras 3.15.1's values, by row_values.py"]
    for name, run in CASES.items():
        for kind, x, top in (("bytes", image(), 255), ("floats", (image() + np.float32(0.5)) / np.float32(256), 1)):
            y = np.asarray(run(jnp.asarray(x)[None], top), "float32")
            assert y.shape == SHAPE, (name, y.shape)
            lines.append(f"{name}/{kind} | " + " ".join(f"{value:.9g}" for value in y.ravel()))
    pathlib.Path(__file__).with_name("values.txt").write_text("\n".join(lines) + "\n")
    print(f"{len(lines) - 1} cases")


if __name__ == "__main__":
    main()
