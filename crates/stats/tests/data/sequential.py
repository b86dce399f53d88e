#!/usr/bin/env python3
"""Writes sequential.json beside this file: which order statistics bound the median at each look, by another way than
the code's: what each look may spend is SciPy's logarithm, and the chance to miss for the first time at a look is counted
in whole paths of the coin, as Python's integers; without earlier looks it is SciPy's binomial distribution.

    pip install scipy==1.17.1 && python3 crates/stats/tests/data/sequential.py
"""
import json, pathlib
from fractions import Fraction
import numpy as np
from scipy import special, stats

ALPHA = 0.05

def ranks(most):
    found, paths, spent = [0], {0: 1}, Fraction(0)
    for n in range(1, most + 1):
        grown = {}
        for count, ways in paths.items():
            grown[count] = grown.get(count, 0) + ways
            grown[count + 1] = grown.get(count + 1, 0) + ways
        paths = grown
        may = ALPHA * special.log1p((np.e - 1) * n / most)
        rank = 0
        while 2 * rank < n:
            more = Fraction(paths.get(rank, 0) + paths.get(n - rank, 0), 2**n)
            if float(spent + more) > may:
                break
            spent += more
            paths.pop(rank, None), paths.pop(n - rank, None)
            rank += 1
        if rank and not any(found):
            # Nobody has missed before the first look that can: the binomial distribution by itself.
            assert abs(float(spent) - 2 * stats.binom.cdf(rank - 1, n, 0.5)) < 1e-12
        found.append(rank)
    assert float(spent) <= ALPHA
    return found

where = pathlib.Path(__file__).with_suffix(".json")
where.write_text(json.dumps({"ranks": {str(most): ranks(most) for most in (5, 6, 10, 30, 100, 500)}}) + "\n")
