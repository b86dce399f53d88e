# `cargo xtask packages` fills in the version and the checksums, and adds the version to this file's name.
SUMMARY = "The agent of linerate: generates, receives and counts test traffic"
DESCRIPTION = "One static program that linerate drives over ssh, a serial line or TCP. It is prebuilt, for this machine."
SECTION = "console/network"
LICENSE = "MIT | Apache-2.0"
LIC_FILES_CHKSUM = "\
    file://LICENSE-MIT;md5=@LICENSE_MIT_MD5@ \
    file://LICENSE-APACHE;md5=@LICENSE_APACHE_MD5@ \
"

# Where the release's linerate-agents-@VERSION@.tar.gz is: a folder of this machine, or an address. There is no default.
LINERATE_RELEASE ?= ""
SRC_URI = "${LINERATE_RELEASE}/linerate-agents-@VERSION@.tar.gz"
SRC_URI[sha256sum] = "@AGENTS_SHA256@"
S = "${WORKDIR}/linerate-agents-@VERSION@"

def linerate_agent(d):
    """Which of the agents runs on the machine that is built for; None: none does."""
    machine = d.getVar("TARGET_ARCH")
    tune = (d.getVar("TUNE_FEATURES") or "").split()
    if machine == "arm":
        # The agent for ARMv7 needs a floating-point unit; the one for ARMv5 runs on all of them.
        is_v7 = any(one.startswith(("armv7", "armv8", "cortexa")) for one in tune)
        return "armv7" if is_v7 and "callconvention-hard" in tune else "armv5"
    same = ("x86_64", "aarch64", "mips", "mipsel", "powerpc", "riscv64")
    return machine if machine in same else None

python () {
    if not d.getVar("LINERATE_RELEASE"):
        raise bb.parse.SkipRecipe("set LINERATE_RELEASE to where linerate-agents-@VERSION@.tar.gz is, like file:///srv/linerate")
    if linerate_agent(d) is None:
        raise bb.parse.SkipRecipe("linerate has no agent for %s" % d.getVar("TARGET_ARCH"))
}

LINERATE_AGENT = "${@linerate_agent(d)}"

# It is built and stripped already, and static: none of these checks is about such a program.
INHIBIT_PACKAGE_STRIP = "1"
INHIBIT_PACKAGE_DEBUG_SPLIT = "1"
INSANE_SKIP:${PN} += "already-stripped ldflags"

do_configure[noexec] = "1"
do_compile[noexec] = "1"

do_install() {
    install -d ${D}${bindir}
    install -m 0755 ${S}/linerate-agent-${LINERATE_AGENT} ${D}${bindir}/linerate-agent
}
