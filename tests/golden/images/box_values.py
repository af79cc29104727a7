#!/usr/bin/env python3
"""Writes box_values.txt: what Keras' image layers make of boxes, in each format of boxes.

    python3 tests/golden/images/box_values.py

needs JAX 0.10.2 and Keras 3.15.1. box_values_test.cpp holds data:: functions against these. A line "<case>/<format> | <boxes> |
<labels>" for each. A turn is of places whose pixels' middles have whole numbers there, of edges here: half a pixel is taken
off before it, and added behind it.
"""

import os
import pathlib

os.environ["KERAS_BACKEND"] = "jax"

import keras
import numpy as np
from keras.src.layers.preprocessing.image_preprocessing.bounding_boxes import converters

HEIGHT, WIDTH = 7, 9
BOXES = np.array([[[1, 2, 4, 5.5], [0, 0, 9, 7], [6, 1, 8.5, 3], [7.5, 6, 9, 7], [2, 2, 3, 3]]], "float32")
LABELS = np.array([[3, 0, 1, 2, 5]], "int32")
SHAPE = (1, HEIGHT, WIDTH, 3)
FORMATS = "xyxy yxyx xywh center_xywh center_yxhw rel_xyxy rel_yxyx rel_xywh rel_center_xywh".split()
L = keras.layers


def converted(boxes, source, target, height=HEIGHT, width=WIDTH):
    return np.asarray(converters.convert_format(boxes, source=source, target=target, height=height, width=width))


def by_layer(make, transformation):
    def run(form):
        given = {"boxes": converted(BOXES, "xyxy", form), "labels": LABELS}
        result = make(form).transform_bounding_boxes(given, transformation)
        return np.asarray(result["boxes"]), np.asarray(result["labels"])

    return run


def turned(form):
    one, none = np.ones(1, "float32"), np.zeros(1, "float32")
    boxes = converters.affine_transform(
        boxes=BOXES - 0.5, angle=40 * one, translate_x=none, translate_y=none, scale=one, shear_x=none, shear_y=none,
        height=HEIGHT, width=WIDTH,
    )
    given = {"boxes": np.asarray(boxes) + 0.5, "labels": LABELS}
    held = converters.clip_to_image_size(given, height=HEIGHT, width=WIDTH, bounding_box_format="xyxy")
    return converted(held["boxes"], "xyxy", form), np.asarray(held["labels"])


CASES = {
    "flipped": by_layer(
        lambda form: L.RandomFlip("horizontal", bounding_box_format=form, data_format="channels_last"),
        {"flips": np.ones((1, 1, 1, 1), bool)[..., 0], "input_shape": SHAPE},
    ),
    "moved": by_layer(
        lambda form: L.RandomTranslation(0.5, 0.5, bounding_box_format=form, data_format="channels_last"),
        {"translations": np.array([[2.25, -3.5]], "float32"), "input_shape": SHAPE},
    ),
    "resized": by_layer(
        lambda form: L.Resizing(14, 3, bounding_box_format=form, data_format="channels_last"), (HEIGHT, WIDTH)
    ),
    "turned": turned,
}


def main():
    lines = ["# Keras 3.15.1's values, by box_values.py"]
    for name, run in CASES.items():
        for form in FORMATS:
            boxes, labels = run(form)
            numbers = " ".join(f"{value:.9g}" for value in boxes.ravel())
            lines.append(f"{name}/{form} | {numbers} | " + " ".join(str(int(label)) for label in labels.ravel()))
    pathlib.Path(__file__).with_name("box_values.txt").write_text("\n".join(lines) + "\n")
    print(f"{len(lines) - 1} cases")


if __name__ == "__main__":
    main()
