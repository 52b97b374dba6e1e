"""The published ways of reading a summation tree off a kernel, written anew from their description, on NumPy.

usage: schedule_peer.py [seconds]           a curve ends at the first size that takes longer (default 2)

basic      all pairs: n(n-1)/2 calls give l(i,j), the leaves under the lowest common ancestor; pairs are sorted by l, and clusters joined
recursive  the first leaf of a set against the others of the set; groups of equal l are the subtrees beside its path, smallest first, and are read
           the same way. A group that is larger than any tree inside it says is part of a node of many children

A call is one sum of n terms: +M at i, -M at j, e elsewhere. Processor seconds of one process, those inside NumPy apart.
"""

import sys
import time

import numpy as np

MASK = np.float32(2.0**60)
UNIT = np.float32(2.0**-20)
SIZES = (64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768)


class Kernel:
    """l(i, j) of an operation of NumPy; counts calls and the seconds inside them."""

    def __init__(self, name, n):
        self.n, self.calls, self.seconds = n, 0, 0.0
        self.terms = np.full(n, UNIT, np.float32)
        ones = np.ones(n, np.float32)
        if name == "sum":
            self.run = lambda: np.sum(self.terms)
        elif name == "dot":
            self.run = lambda: np.dot(self.terms, ones)
        elif name == "GEMV":
            matrix = np.ones((n, n), np.float32)
            self.run = lambda: (self.terms @ matrix)[0]
        else:
            left, right = np.ones((n, n), np.float32), np.ones((n, n), np.float32)

            def product():
                left[0] = self.terms
                return (left @ right)[0, 0]

            self.run = product

    def leaves(self, i, j):
        self.terms[i], self.terms[j] = MASK, -MASK
        start = time.process_time()
        out = self.run()
        self.seconds += time.process_time() - start
        self.calls += 1
        self.terms[i] = self.terms[j] = UNIT
        return self.n - round(float(out) / float(UNIT))


def basic(kernel):
    n = kernel.n
    pairs = sorted((kernel.leaves(i, j), i, j) for i in range(n) for j in range(i + 1, n))
    parent, node, joined = list(range(n)), list(range(n)), []

    def root(x):
        while parent[x] != x:
            parent[x] = x = parent[parent[x]]
        return x

    for leaves, i, j in pairs:
        a, b = root(i), root(j)
        if a == b:
            continue
        joined.append((leaves, node[a], node[b]))
        parent[b] = a
        node[a] = n + len(joined) - 1
    return joined


def recursive(kernel):
    """Nested tuples of leaves. The depth of Python's stack follows that of the groups, not that of the chain."""

    def read(leaves):
        first = leaves[0]
        if len(leaves) == 1:
            return first, 1
        groups = {}
        for other in leaves[1:]:
            groups.setdefault(kernel.leaves(first, other), []).append(other)
        tree, last = first, 1
        for last in sorted(groups):
            beside, inside = read(groups[last])
            if inside == len(groups[last]):
                tree = (tree, beside)
            else: # the group's own root is this very node
                tree = (tree, *beside)
        return tree, last

    return read(list(range(kernel.n)))[0]


def sets_of_pairs(n, joined):
    sets = [frozenset([leaf]) for leaf in range(n)]
    for leaves, a, b in joined:
        sets.append(sets[a] | sets[b])
    return {sets[n + k] for k, (leaves, _, _) in enumerate(joined) if len(sets[n + k]) == leaves}


def sets_of_tree(tree, found):
    if isinstance(tree, int):
        return frozenset([tree])
    here = frozenset().union(*[sets_of_tree(part, found) for part in tree])
    found.add(here)
    return here


def agree(name, n):
    """Both ways must read the same tree."""
    found = set()
    sets_of_tree(recursive(Kernel(name, n)), found)
    return found == sets_of_pairs(n, basic(Kernel(name, n)))


def main(arguments):
    limit = float(arguments[0]) if arguments else 2.0
    sys.setrecursionlimit(100000)
    for name in ("sum", "dot", "GEMV", "GEMM"):
        if not agree(name, 60):
            sys.exit(f"{name}: the two ways read different trees")
        for algorithm in (basic, recursive):
            for n in SIZES:
                if name == "GEMM" and n > 1024 or name == "GEMV" and n > 4096:
                    break
                kernel = Kernel(name, n)
                kernel.run()
                start = time.process_time()
                algorithm(kernel)
                spent = time.process_time() - start
                print(
                    f"peer {algorithm.__name__:<9} {name:<4} {n:6d} terms  {kernel.calls:8d} calls  {1e3 * spent:10.2f} ms, "
                    f"{1e3 * kernel.seconds:10.2f} ms of it in NumPy",
                    flush=True,
                )
                if spent > limit:
                    break


if __name__ == "__main__":
    main(sys.argv[1:])
