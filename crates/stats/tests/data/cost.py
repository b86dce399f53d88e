#!/usr/bin/env python3
"""Writes cost.json beside this file: what SciPy says of the fits that the tests of `stats::cost` make too.

    pip install scipy==1.17.1 && python3 crates/stats/tests/data/cost.py

curve_fit with sigma proportional to the mean cost of each size, and absolute_sigma=False; intervals by Student's t; the
prediction's variance is that of the line and that of one trial, whose error is a share of its cost.
"""
import json, pathlib
import numpy as np
import scipy
from scipy import optimize, stats

rng = np.random.default_rng(20261122)

def case(name, sizes, repeats, packet, byte, noise):
    x = np.repeat(np.array(sizes, float), repeats)
    y = ((packet + byte * x) * (1 + noise * rng.normal(size=len(x)))).round(6)
    sigma = np.array([y[x == size].mean() for size in x])
    line = lambda x, a, b: a + b * x
    best, covariance = optimize.curve_fit(line, x, y, p0=[1, 0.001], sigma=sigma, absolute_sigma=False, ftol=1e-15, xtol=1e-15, gtol=1e-15)
    t = stats.t.ppf(0.975, len(x) - 2)
    deviation = np.sqrt(np.diag(covariance))
    around = lambda value, deviation: [float(value), float(value - t * deviation), float(value + t * deviation)]
    at = np.array([1.0, 1000.0])
    scatter = (((y - line(x, *best)) / sigma) ** 2).sum() / (len(x) - 2)
    value = at @ best
    return {"name": name, "trials": [[float(a), float(b)] for a, b in zip(x, y)],
            "per_packet": around(best[0], deviation[0]), "per_byte": around(best[1], deviation[1]),
            "at_1000": around(value, np.sqrt(at @ covariance @ at + scatter * value**2))}

reference = {
    "made_by": f"crates/stats/tests/data/cost.py with SciPy {scipy.__version__}",
    "cases": [
        case("five sizes, five times", [64, 256, 512, 1024, 1472], 5, 4.1, 0.0009, 0.02),
        case("three sizes, three times", [64, 512, 1472], 3, 60.0, 0.011, 0.03),
        case("six sizes, once", [64, 128, 256, 512, 1024, 1472], 1, 0.9, 0.0004, 0.01),
        case("a quiet machine", [100, 400, 1400], 4, 2.0, 0.002, 0.001),
    ],
}
path = pathlib.Path(__file__).with_name("cost.json")
path.write_text(json.dumps(reference, indent=1) + "\n")
