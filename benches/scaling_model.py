"""What a training step of a gpt takes on many devices: time, memory, traffic. A model on paper, of numbers that are given
to it; `scaling.py` measures them here, and says how well it foretells what can be measured.

Bytes and messages are those of Lockstep's exchange: a sum over n devices sends each its block from all (n - 1 messages),
adds in order, and sends the sums to all (n - 1 messages more), so each device sends 2 (n - 1) / n of the payload.
"""

import dataclasses
import math


@dataclasses.dataclass(frozen=True)
class Link:
    latency: float  # seconds a message
    bandwidth: float  # bytes a second that one device sends, while it receives as many


@dataclasses.dataclass(frozen=True)
class Machine:
    flops: float  # of one device, of products that a step makes, not its peak
    memory_bandwidth: float  # bytes a second
    memory: float  # bytes
    inside: Link  # between devices of one host
    between: Link  # between hosts, a device's share
    devices_a_host: int


@dataclasses.dataclass(frozen=True)
class Gpt:
    depth: int
    width: int
    vocabulary: int = 50304
    tokens: int = 2048  # of a sequence

    def parameters(self):
        return 12 * self.depth * self.width**2 + (2 * self.vocabulary + self.tokens) * self.width

    def flops(self, sequences):
        """Of one step: forward and twice that backward; products of all layers, attention's, the head's."""
        tokens = sequences * self.tokens
        layer = 24 * self.width**2 + 4 * self.tokens * self.width
        return 3 * tokens * (self.depth * layer + 2 * self.width * self.vocabulary)


@dataclasses.dataclass(frozen=True)
class Layout:
    data: int = 1
    tensor: int = 1
    pipeline: int = 1
    zero: int = 0  # 1: slots are cut over the data axis; 2: gradients too; 3: parameters too
    microbatches: int = 1
    overlap: float = 0.0  # the part of the backward pass behind which gradients may travel

    @property
    def devices(self):
        return self.data * self.tensor * self.pipeline


@dataclasses.dataclass(frozen=True)
class Widths:
    """Bytes a number."""

    parameter: int = 4
    gradient: int = 4
    slots: int = 8  # both of Adam's
    activation: int = 2
    partial_sum: int = 4  # on the wire, also of narrow floats


@dataclasses.dataclass(frozen=True)
class Prediction:
    compute: float  # seconds, the pipeline's idle part left out
    idle: float
    optimizer: float
    exposed: float  # exchange that nothing hides
    hidden: float
    traffic: float  # bytes that one device sends a step
    memory: dict  # bytes of one device, by what they hold

    @property
    def step(self):
        return self.compute + self.idle + self.optimizer + self.exposed

    @property
    def memory_bytes(self):
        return sum(self.memory.values())


def exchange(machine, group, payload, stride=1):
    """Seconds and bytes sent by one device of one phase (each device has a block for every other) among `group` devices,
    `stride` apart, of `payload` bytes in all blocks together."""
    if group == 1 or payload == 0:
        return 0.0, 0.0
    near = max(1, min(group, machine.devices_a_host // stride))
    block = payload / group
    inside = (near - 1) * (machine.inside.latency + block / machine.inside.bandwidth)
    between = (group - near) * (machine.between.latency + block / machine.between.bandwidth)
    return max(inside, between), block * (group - 1)


def activations(gpt, layout, sequences, widths):
    """Bytes of one device: each layer's input for each microbatch on its way, and one layer's values while it is
    recomputed: 16 numbers a token and feature, which is what plans of small gpts come to (`scaling.py plans`)."""
    tokens = sequences * gpt.tokens / layout.microbatches
    on_its_way = min(layout.pipeline, layout.microbatches)
    inputs = gpt.depth / layout.pipeline * tokens * gpt.width * widths.activation * on_its_way
    one_layer = 16 * widths.activation * tokens * gpt.width / layout.tensor
    head = tokens * gpt.vocabulary * (widths.activation + 4) / layout.tensor
    return inputs + one_layer + head


def predict(machine, gpt, layout, batch, widths=Widths(), recomputes=True):
    """A step of `batch` sequences in all. `recomputes`: each layer's forward pass is made again for its backward one."""
    sequences = batch / layout.data  # of a replica
    work = gpt.flops(batch) / layout.devices * (4 / 3 if recomputes else 1)
    compute = work / machine.flops
    idle = compute * (layout.pipeline - 1) / layout.microbatches
    own = gpt.parameters() / layout.tensor / layout.pipeline
    seconds = traffic = hidden_seconds = 0.0

    def add(group, payload, times, stride, hides=False):
        nonlocal seconds, traffic, hidden_seconds
        took, sent = exchange(machine, group, payload, stride)
        traffic += sent * times
        if hides:
            hidden_seconds += took * times
        else:
            seconds += took * times

    # Tensor: two sums a layer forward, two backward, two more where the forward pass is made again.
    values = sequences * gpt.tokens / layout.microbatches * gpt.width
    sums = (6 if recomputes else 4) * gpt.depth / layout.pipeline * layout.microbatches
    add(layout.tensor, values * widths.partial_sum, sums, 1)
    add(layout.tensor, values * widths.activation, sums, 1)
    # Pipeline: a message each way for each microbatch, to the next stage.
    if layout.pipeline > 1:
        hop = values * widths.activation / layout.tensor
        link = machine.inside if layout.tensor * layout.pipeline <= machine.devices_a_host else machine.between
        seconds += 2 * layout.microbatches * (link.latency + hop / link.bandwidth)
        traffic += 2 * layout.microbatches * hop
    # Data: gradients are summed by blocks; what was updated (parameters, or with ZeRO's third stage what is used) returns.
    stride = layout.tensor * layout.pipeline
    add(layout.data, own * widths.gradient, 1, stride, hides=True)
    fetches = 2 * layout.microbatches if layout.zero == 3 else 1
    add(layout.data, own * (widths.activation if layout.zero == 3 else widths.parameter), fetches, stride, hides=True)
    backward = compute * 2 / 3
    hidden = min(hidden_seconds, layout.overlap * backward)

    cut = layout.data
    updated = own / (cut if layout.zero >= 1 else 1)
    optimizer = updated * (2 * widths.parameter + widths.gradient + 2 * widths.slots) / machine.memory_bandwidth
    gradients = own * widths.gradient / (cut if layout.zero >= 2 else 1)
    values = activations(gpt, layout, sequences, widths)
    memory = {
        "parameters": own * widths.parameter / (cut if layout.zero >= 3 else 1),
        "slots": own * widths.slots / (cut if layout.zero >= 1 else 1),
        # Within one microbatch gradients take the place of activations; over several they are added up beside them.
        "gradients and activations": gradients + values if layout.microbatches > 1 else max(gradients, values),
    }
    return Prediction(compute, idle, optimizer, seconds + hidden_seconds - hidden, hidden, traffic, memory)


def efficiency(machine, gpt, layout, batch, **given):
    """Of the step's time, the part in which the device makes what one device alone would have to make."""
    ideal = gpt.flops(batch) / layout.devices / machine.flops
    return ideal / predict(machine, gpt, layout, batch, **given).step


def powers(most):
    return [2**i for i in range(int(math.log2(most)) + 1)]
