"""Runs the code of a BitBake recipe for every machine, with as little as it needs of BitBake.

recipe.py RECIPE ARCHIVE UNPACKED MACHINE...: checksums, the choice of the agent, and what do_install puts where.
"""

import hashlib
import os
import re
import subprocess
import sys
import tempfile
import types

recipe, archive, unpacked, *built = sys.argv[1:]
text = open(recipe).read()


class SkipRecipe(Exception):
    """As BitBake's: this recipe is not for this machine."""


class Data:
    """As BitBake's d: variables by name."""

    def __init__(self, **values):
        self.values = values

    def getVar(self, name):
        return self.values.get(name)


def part(pattern):
    found = re.search(pattern, text, re.MULTILINE | re.DOTALL)
    assert found, "%s has no %s" % (recipe, pattern)
    return found.group(1)


def digest(kind, path):
    return hashlib.new(kind, open(path, "rb").read()).hexdigest()


assert part(r'^SRC_URI\[sha256sum\] = "(\w+)"$') == digest("sha256", archive), "another checksum of the archive"
for name, md5 in re.findall(r"file://(LICENSE\S+);md5=(\w+)", text):
    assert md5 == digest("md5", os.path.join(unpacked, name)), "another checksum of " + name

bb = types.SimpleNamespace(parse=types.SimpleNamespace(SkipRecipe=SkipRecipe))
names = {"bb": bb}
exec(compile("def linerate_agent" + part(r"^def linerate_agent(.*?)^(?=\S)"), recipe, "exec"), names)
anonymous = "def anonymous(d):\n" + part(r"^python \(\) \{\n(.*?)^\}")
exec(compile(anonymous, recipe, "exec"), names)
install = part(r"^do_install\(\) \{\n(.*?)^\}")

MACHINES = [
    ("x86_64", "m64 core2", "x86_64"),
    ("aarch64", "aarch64 crc", "aarch64"),
    ("arm", "arm vfp cortexa9 neon thumb callconvention-hard", "armv7"),
    ("arm", "arm armv7a vfp callconvention-hard", "armv7"),
    ("arm", "arm armv7a vfp", "armv5"),
    ("arm", "arm armv6 vfp callconvention-hard", "armv5"),
    ("arm", "arm armv5 thumb dsp", "armv5"),
    ("mips", "o32 bigendian mips32r2", "mips"),
    ("mipsel", "o32 mips32r2", "mipsel"),
    ("powerpc", "m32 fpu-hard", "powerpc"),
    ("riscv64", "riscv64", "riscv64"),
]
for arch, tune, expected in MACHINES:
    d = Data(TARGET_ARCH=arch, TUNE_FEATURES=tune, LINERATE_RELEASE="file:///srv")
    names["anonymous"](d)
    agent = names["linerate_agent"](d)
    assert agent == expected, "%s (%s): %s" % (arch, tune, agent)
    if agent not in built:
        continue
    with tempfile.TemporaryDirectory() as image:
        values = {"D": image, "bindir": "/usr/bin", "S": unpacked, "LINERATE_AGENT": agent}
        script = re.sub(r"\$\{(\w+)\}", lambda name: values[name.group(1)], install)
        subprocess.run(["sh", "-eu", "-c", script], check=True)
        there = os.path.join(image, "usr/bin/linerate-agent")
        assert digest("sha256", there) == digest("sha256", os.path.join(unpacked, "linerate-agent-" + agent)), agent
        assert os.stat(there).st_mode & 0o777 == 0o755

for values in [{"TARGET_ARCH": "s390x", "LINERATE_RELEASE": "file:///srv"}, {"TARGET_ARCH": "x86_64"}]:
    try:
        names["anonymous"](Data(**values))
    except SkipRecipe:
        continue
    raise AssertionError("not skipped: %s" % values)
