#!/usr/bin/env python3
"""Writes reference.json beside this file: what SciPy says of samples that the tests of `stats` judge too.

    pip install scipy==1.17.1 && python3 crates/stats/tests/data/reference.py

p values are SciPy's: mannwhitneyu(method="exact") where there are no ties, else permutation_test over every
permutation; wilcoxon(method="exact"), or every sign by hand where there are ties; beyond 60 values the asymptotic
ones with continuity correction. Shift and interval are put together here from all pairs, sorted, and the exact
distribution by counting, the way R's wilcox.test(conf.int=TRUE) does it.
"""
import itertools, json, pathlib
import numpy as np
import scipy
from scipy import stats

rng = np.random.default_rng(20261121)

def counts_u(n, m):
    """Ways to each U, by the recurrence of Mann and Whitney (1947)."""
    table = {}
    def ways(n, m):
        if (n, m) not in table:
            row = np.zeros(n * m + 1)
            if n == 0 or m == 0:
                row[0] = 1
            else:
                row[m:] += ways(n - 1, m)
                row[: n * (m - 1) + 1] += ways(n, m - 1)
            table[n, m] = row
        return table[n, m]
    return ways(n, m)

def counts_w(n):
    row = np.array([1.0])
    for rank in range(1, n + 1):
        longer = np.zeros(len(row) + rank)
        longer[: len(row)] += row
        longer[rank:] += row
        row = longer
    return row

def interval(values, counts, deviation):
    values = np.sort(values)
    if counts is not None:
        below = np.cumsum(counts) / counts.sum()
        k = int(np.searchsorted(below, 0.025, side="right"))
    else:
        k = int(np.floor(len(values) / 2 - stats.norm.isf(0.025) * deviation))
    return [float(values[k - 1]), float(values[len(values) - k])] if k > 0 else None

def two(name, x, y):
    n, m = len(x), len(y)
    ties = len(set(x) | set(y)) < n + m
    if n + m > 60:
        p = stats.mannwhitneyu(x, y, method="asymptotic").pvalue
    elif not ties:
        p = stats.mannwhitneyu(x, y, method="exact").pvalue
    else:
        ranks = stats.rankdata(np.concatenate([x, y]))
        statistic = lambda a, b: b.sum()
        p = stats.permutation_test((ranks[:n], ranks[n:]), statistic, n_resamples=np.inf, vectorized=False).pvalue
    differences = np.subtract.outer(y, x).ravel()
    deviation = np.sqrt(n * m * (n + m + 1) / 12)
    ends = interval(differences, counts_u(n, m) if n + m <= 60 else None, deviation)
    return {"name": name, "baseline": list(x), "candidate": list(y), "p": float(p),
            "estimate": float(np.median(differences)), "interval": ends}

def pairs(name, d):
    n = len(d)
    moved = d[d != 0]
    if len(moved) > 60:
        p = stats.wilcoxon(moved, correction=True, method="asymptotic").pvalue
    elif len(set(np.abs(moved))) == len(moved):
        p = stats.wilcoxon(moved, method="exact").pvalue
    else:
        ranks = stats.rankdata(np.abs(moved))
        sums = np.array([np.dot(ranks, signs) for signs in itertools.product([0, 1], repeat=len(moved))])
        seen = ranks[moved > 0].sum()
        p = min(1.0, 2 * min((sums <= seen).mean(), (sums >= seen).mean()))
    means = np.array([(d[i] + d[j]) / 2 for i in range(n) for j in range(i, n)])
    deviation = np.sqrt(n * (n + 1) * (2 * n + 1) / 24)
    ends = interval(means, counts_w(n) if n <= 60 else None, deviation)
    return {"name": name, "differences": list(d), "p": float(p), "estimate": float(np.median(means)), "interval": ends}

def normal(n, at=0.0): return rng.normal(at, 1.0, n).round(6)
def skewed(n, by=1.0): return (rng.lognormal(0, 0.8, n) * by).round(6)
def whole(n, at): return rng.poisson(at, n).astype(float)

reference = {
    "made_by": f"crates/stats/tests/data/reference.py with SciPy {scipy.__version__}",
    "two_samples": [
        two("three against three", normal(3), normal(3, 5)),
        two("five against five", normal(5), normal(5, 1)),
        two("four against seven", skewed(4), skewed(7, 2)),
        two("ten against ten", normal(10, 100), normal(10, 103)),
        two("ten against twelve, nothing between", skewed(10), skewed(12)),
        two("thirty against thirty", normal(30), normal(30, 0.4)),
        two("counts with ties", whole(6, 3), whole(7, 5)),
        two("nearly all alike", np.array([0, 0, 0, 0, 1.0]), np.array([0, 0, 2.0, 3.0, 0])),
        two("forty against fifty", skewed(40), skewed(50, 1.2)),
        two("many counts with ties", whole(40, 4), whole(45, 5)),
    ],
    "pairs": [
        pairs("five", normal(5, 1)),
        pairs("eight", normal(8, 0.7)),
        pairs("twelve with ties and zeros", whole(12, 2) - 1),
        pairs("thirty", skewed(30) - 1),
        pairs("seventy", normal(70, 0.3)),
        pairs("a hundred with ties and zeros", whole(100, 2) - 2),
    ],
    "normal": [{"z": float(z), "below": float(stats.norm.cdf(z))} for z in [-6.0, -3.3, -1.96, 0.0, 0.5, 2.2]],
    "holm": {"p": [0.01, 0.04, 0.03, 0.005, 0.6], "adjusted": [0.04, 0.09, 0.09, 0.025, 0.6]},
}
path = pathlib.Path(__file__).with_name("reference.json")
path.write_text(json.dumps(reference, indent=1) + "\n")
