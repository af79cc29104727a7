"""What the tables hold against Keras 3.15.1 (pip install keras==3.15.1): images and boxes."""

import functools
import os
import unittest.mock

os.environ["KERAS_BACKEND"] = "jax"

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
from keras import ops  # noqa: E402
from keras.src.backend.common import dtypes  # noqa: E402
from keras.src.backend.jax import image as backend  # noqa: E402
from keras.src.layers.preprocessing.image_preprocessing.bounding_boxes import converters, iou  # noqa: E402

# Beside JAX, Keras takes float64 for float32 otherwise.
dtypes.BIT64_TO_BIT32_DTYPE["float64"] = "float64"

image = ops.image
grayscale, ssim = image.rgb_to_grayscale, image.ssim
psnr = ops.psnr


def blurred(x, vertical, horizontal):
    """keras.ops.image.gaussian_blur of a window of 5 x 3; it takes extents and deviations the other way round."""
    return backend.gaussian_blur(x, (3, 5), jnp.stack([horizontal, vertical]), data_format="channels_last")


def edges(x):
    return backend.sobel_edges(x, data_format="channels_last")


def affine(x, m, **options):
    """keras.ops.image.affine_transform, whose last two numbers are 0."""
    m = jnp.concatenate([m, jnp.zeros((*m.shape[:-1], 2), m.dtype)], -1)
    return image.affine_transform(x, m, data_format="channels_last", **options)


def projected(x, m, order=1, mode="constant", cval=0.0):
    """One image at the places of a projection, of which Keras' perspective_transform is made."""
    column, row = jnp.meshgrid(jnp.arange(x.shape[1]), jnp.arange(x.shape[0]))
    k = m[6] * column + m[7] * row + 1
    places = [(m[3] * column + m[4] * row + m[5]) / k, (m[0] * column + m[1] * row + m[2]) / k]
    one = functools.partial(jax.scipy.ndimage.map_coordinates, coordinates=places, order=order, mode=mode, cval=cval)
    return jax.vmap(one, -1, -1)(x)


def seen(x, start, end):
    """In the operands' dtype; Keras' own computes the places in float32."""
    return projected(x, backend.compute_homography_matrix(start[None], end[None])[0])


def in_own_dtype(f):
    """A function of boxes that does not convert them to float32."""

    def run(x, *arguments, **options):
        convert = functools.partial(converters.convert_format, dtype=str(x.dtype))
        with unittest.mock.patch.object(converters, "convert_format", convert):
            return f(x, *arguments, **options)

    return run


convert_format = in_own_dtype(lambda x, *given, **options: converters.convert_format(x, *given, **options))
compute_iou = in_own_dtype(iou.compute_iou)
compute_ciou = in_own_dtype(iou.compute_ciou)
encode = in_own_dtype(converters.encode_box_to_deltas)
decode = in_own_dtype(converters.decode_deltas_to_boxes)


def clipped(x, height, width, kind="xyxy"):
    return converters.clip_to_image_size({"boxes": x}, height, width, kind)["boxes"]


def clipped_with_labels(x, labels, height, width):
    both = converters.clip_to_image_size({"boxes": x, "labels": labels}, height, width)
    return both["boxes"], both["labels"]


crop = converters.crop
pad = converters.pad
