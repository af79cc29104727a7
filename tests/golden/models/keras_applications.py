"""Writes applications.txt: what classifiers of keras.applications make of one image, in float64, for
keras_applications_test.cpp: a line each of name and logits of 5 classes. Weights and images are formulas of path and place,
which both sides know; paths are Keras' names. Names given are those alone that are written anew. With --counts it prints how many weights each size has of 1000 classes.

    python tests/golden/models/keras_applications.py      needs Keras 3.15.1 and JAX 0.10.2
"""

import gc
import os
import pathlib
import sys

os.environ["KERAS_BACKEND"] = "jax"

import jax

jax.config.update("jax_enable_x64", True)

import keras
import numpy as np
from keras.src.backend.common import dtypes

dtypes.BIT64_TO_BIT32_DTYPE["float64"] = "float64"  # Keras computes some things in float32 otherwise

A = keras.applications
SIZES = {
    "convnext_base": A.ConvNeXtBase, "convnext_large": A.ConvNeXtLarge, "convnext_small": A.ConvNeXtSmall,
    "convnext_tiny": A.ConvNeXtTiny, "convnext_xlarge": A.ConvNeXtXLarge,
    "densenet121": A.DenseNet121, "densenet169": A.DenseNet169, "densenet201": A.DenseNet201,
    **{f"efficientnet_b{i}": getattr(A, f"EfficientNetB{i}") for i in range(8)},
    **{f"efficientnet_v2_{i.lower()}": getattr(A, f"EfficientNetV2{i}") for i in ("B0", "B1", "B2", "B3", "L", "M", "S")},
    "inception_resnet_v2": A.InceptionResNetV2, "inception_v3": A.InceptionV3,
    "nasnet_large": A.NASNetLarge, "nasnet_mobile": A.NASNetMobile, "mobilenet": A.MobileNet, "mobilenet_v2": A.MobileNetV2,
    "mobilenet_v3_large": A.MobileNetV3Large, "mobilenet_v3_small": A.MobileNetV3Small,
    "resnet101_v2": A.ResNet101V2, "resnet152_v2": A.ResNet152V2, "resnet50_v2": A.ResNet50V2,
    "vgg16": A.VGG16, "vgg19": A.VGG19, "xception": A.Xception,
}
#: Those that are compared: the image's size, options, and what Keras' own preprocessing divides by.
COMPARED = {
    "convnext_tiny": (32, {"include_preprocessing": False}, 1),
    "densenet121": (33, {}, 1),
    "efficientnet_b0": (37, {}, 1 / 255),
    "efficientnet_v2_b0": (32, {"include_preprocessing": False}, 1),
    "inception_resnet_v2": (76, {}, 1),
    "inception_v3": (76, {}, 1),
    "mobilenet": (37, {"alpha": 0.5}, 1),
    "mobilenet_v2": (37, {"alpha": 1.4}, 1),
    "mobilenet_v3_large": (37, {"include_preprocessing": False, "alpha": 0.75}, 1),
    "mobilenet_v3_small": (40, {"include_preprocessing": False}, 1),
    "nasnet_mobile": (37, {}, 1),
    "resnet50_v2": (37, {}, 1),
    "vgg16": (32, {}, 1),
    "xception": (72, {}, 1),
}
HEADS = ("predictions", "conv_preds", "logits", "head_dense")


def spread(count, seed):
    """Numbers of [-1, 1) that nothing can be told of: a hash of place and seed."""
    x = (np.arange(count, dtype=np.uint64) * 2654435761 + seed) % 2**32
    for _ in range(2):
        x ^= x >> 16
        x = x * 0x45D9F3B % 2**32
    x ^= x >> 16
    return x.astype(np.float64) / 2**31 - 1


def weight(path, shape):
    seed = 0
    for c in path.encode():
        seed = (seed * 31 + c) % 2**32
    values = spread(int(np.prod(shape)), seed)
    leaf = path.split("/")[-1]
    if leaf in ("gamma", "moving_variance"):
        return (1 + 0.1 * values).reshape(shape)
    if leaf in ("bias", "beta", "moving_mean"):
        return (0.1 * values).reshape(shape)
    ends = shape[:-2] if shape[-1] == 1 else shape[:-1]
    return (values * np.sqrt(6 / np.prod(ends))).reshape(shape)


def layers_of(model):
    for layer in model.layers:
        yield from layers_of(layer) if isinstance(layer, keras.Model) else [layer]


def logits(name):
    size, options, scale = COMPARED[name]
    keras.config.set_floatx("float64")
    model = SIZES[name](weights=None, input_shape=(size, size, 3), classes=5, classifier_activation=None, **options)
    for layer in layers_of(model):
        if isinstance(layer, keras.layers.Normalization):
            continue
        own = layer.name.removeprefix(model.name + "_")
        for variable in layer.variables:
            leaf = variable.path.split("/")[-1]
            if leaf in ("seed_generator_state",):
                continue
            leaf = "gamma" if "layer_scale" in own else leaf  # which has no name in Keras
            variable.assign(weight(f"{'head' if own in HEADS else own}/{leaf}", tuple(variable.shape)))
    image = spread(size * size * 3, 7).reshape(1, size, size, 3)
    return np.ravel(model(image / scale, training=False))


def main():
    if "--counts" in sys.argv:
        for name, make in SIZES.items():
            keras.config.set_floatx("float16")
            print(name, f"{make(weights=None).count_params():,}".replace(",", "'"), flush=True)
            keras.utils.clear_session()
            gc.collect()
        return
    path = pathlib.Path(__file__).with_name("applications.txt")
    lines = {line.split(" ")[0]: line for line in path.read_text().splitlines()} if path.exists() else {}
    for name in sys.argv[1:] or COMPARED:
        lines[name] = " ".join([name, *(repr(float(v)) for v in logits(name))])
        print(lines[name], flush=True)
        path.write_text("\n".join(lines[known] for known in COMPARED if known in lines) + "\n")
        keras.utils.clear_session()


if __name__ == "__main__":
    main()
