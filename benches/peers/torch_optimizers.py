"""The optimizers of benches/optimizer_step.cpp in PyTorch: Adafactor and Muon are torch.optim's, the others, which it has
not, rules over lists of tensors, compiled whole where that is asked.
"""

import torch


def zeros(weights):
    return [torch.zeros_like(w) for w in weights]


def lion(w, g, m, rate=1e-4, b1=0.9, b2=0.99, decay=1e-3):
    for p, d, mu in zip(w, g, m):
        p.sub_(rate * (torch.sign(b1 * mu + (1 - b1) * d) + decay * p))
        mu.copy_(b2 * mu + (1 - b2) * d)


def corrected(count, b1=0.9, b2=0.999):
    count.add_(1)
    return 1 - b1**count, 1 - b2**count


def adabelief(w, g, m, s, count, rate=1e-3, b1=0.9, b2=0.999, epsilon=1e-16):
    first, second = corrected(count)
    for p, d, mu, nu in zip(w, g, m, s):
        mu.copy_(b1 * mu + (1 - b1) * d)
        nu.copy_(b2 * nu + (1 - b2) * torch.square(d - mu) + epsilon)
        p.sub_(rate * (mu / first) / (torch.sqrt(nu / second) + epsilon))


def lamb(w, g, m, s, count, rate=1e-3, b1=0.9, b2=0.999, epsilon=1e-6, decay=1e-2):
    first, second = corrected(count)
    for p, d, mu, nu in zip(w, g, m, s):
        mu.copy_(b1 * mu + (1 - b1) * d)
        nu.copy_(b2 * nu + (1 - b2) * torch.square(d))
        u = (mu / first) / (torch.sqrt(nu / second) + epsilon) + decay * p
        p.sub_(rate * torch.linalg.norm(p) / torch.linalg.norm(u) * u)


def make(workload, weights, gradients, compiled):
    """step(), which makes one update of the weights in place."""
    if workload in ("adafactor_weights", "muon_weights"):
        for w, g in zip(weights, gradients):
            w.grad = g
        matrices = [w for w in weights if w.dim() == 2]
        if workload == "muon_weights":
            optimizers = [torch.optim.Muon(matrices, 1e-3, weight_decay=0.0),
                          torch.optim.NAdam([w for w in weights if w.dim() == 1], 1e-3)]
        else:
            optimizers = [torch.optim.Adafactor(weights, 1e-3)]

        def both():
            for optimizer in optimizers:
                optimizer.step()

        return torch.compile(both) if compiled else both
    w, count = [p.detach() for p in weights], torch.zeros(())
    state = {"lion_weights": (lion, [zeros(w)]),
             "adabelief_weights": (adabelief, [zeros(w), zeros(w), count]),
             "lamb_weights": (lamb, [zeros(w), zeros(w), count])}
    rule, slots = state[workload]
    rule = torch.compile(rule) if compiled else rule
    return lambda: rule(w, gradients, *slots)
