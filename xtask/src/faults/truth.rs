//! What is right to say of each family: the findings that are its cause, those that are true besides, and the words that a
//! sentence must have. A row a family, so that names are changed here alone.

/// On which machine the cause is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Where {
    /// A finding that names a machine must name the case's.
    There,
    /// Between the ends, or wherever it shows.
    Any,
}

/// What is right to say.
#[derive(Clone, Copy, Debug)]
pub(super) struct Truth {
    pub(super) family: &'static str,
    pub(super) is_healthy: bool,
    /// Any of these is the cause: a rule's name, or `name/words` where its sentence must have the words. Of a healthy world: what may be named as its limit.
    pub(super) first: &'static [&'static str],
    /// True besides, and no cause: may be stated as sure.
    pub(super) also: &'static [&'static str],
    pub(super) place: Where,
    /// Where the trial cannot begin: of each group, one of its words (small letters, parted by `|`) must be said.
    /// `{at}` is the machine that the fault is at.
    pub(super) words: &'static [&'static str],
    /// Where nothing was lost there is no finding: then one of these words in what is said first is the answer.
    pub(super) told: &'static str,
}

const fn fault(
    family: &'static str,
    first: &'static [&'static str],
    also: &'static [&'static str],
    place: Where,
) -> Truth {
    Truth { family, is_healthy: false, first, also, place, words: &[], told: "" }
}

const fn refused(family: &'static str, words: &'static [&'static str]) -> Truth {
    Truth {
        family,
        is_healthy: false,
        first: &["nothing-comes-through"],
        also: &[],
        place: Where::Any,
        words,
        told: "",
    }
}

const fn healthy(family: &'static str, limits: &'static [&'static str]) -> Truth {
    Truth { family, is_healthy: true, first: limits, also: &[], place: Where::Any, words: &[], told: "" }
}

/// What limits any transfer that goes as fast as it can: no fault, and true of these worlds without offloads.
pub(super) const LIMITS: [&str; 11] = [
    "sender-cpu",
    "receiver-cpu",
    "softirq-cpu",
    "segmentation",
    "checksum-offload",
    "unaligned",
    "application-limited",
    "link-full",
    "send-buffer",
    "receive-window",
    "far-path",
];

/// What names the rate that a slow part of the way carries: true of whatever reaches it.
pub(super) const RATES: [&str; 3] = ["bottleneck", "shaper", "link-full"];

/// What is true where other programs want the CPUs.
pub(super) const CROWDED: [&str; 11] = [
    "steal",
    "sender-cpu",
    "sender-starved",
    "receiver-cpu",
    "softirq-cpu",
    "receiver-starved",
    "receive-buffer",
    "host-limits",
    "others-cpu",
    "cpu-wait",
    "stall",
];

/// Loss between the ends, under either name.
const LOSSY: &[&str] = &["lossy-path", BETWEEN];
const BETWEEN: &str = "unaccounted/between the two links";
const LOSSY_ALSO: &[&str] = &["reordering", "stall", "outage"];

/// Every family's truth.
#[rustfmt::skip] // a table
const TRUTHS: [Truth; 84] = [
    fault("loss",                  LOSSY,                                   LOSSY_ALSO, Where::Any),
    fault("burst-loss",            LOSSY,                                   LOSSY_ALSO, Where::Any),
    fault("reordering",            &["reordering"],                    &[], Where::Any),
    fault("duplicates",            &["duplicates"],                    &[], Where::Any),
    fault("damage",                &["link-damage", "damage", "stack-drops/checksum"], &["lossy-path"], Where::There),
    fault("hole",                  &["size-hole", "nothing-comes-through/bytes do not pass", "nothing-comes-through/full ones do not"],                     &["flow-died", "stall", "outage", "unaccounted", "nothing-comes-through"], Where::Any),
    fault("slow-link-long-queue",  &["bottleneck"],                    &["lossy-path", "unaccounted"], Where::Any),
    fault("slow-link-short-queue", &["bottleneck", "lossy-path", BETWEEN], &[], Where::Any),
    fault("policer",               &["bottleneck", "lossy-path", BETWEEN], &[], Where::Any),
    fault("outage",                &["outage", "lossy-path/or a short outage", "flow-died/or an outage"],                        &["stall", "requests-lost", "unaccounted", "lossy-path"], Where::Any).or_told("nothing arrived|nothing passed"),
    fault("dead",                  &["flow-died", "outage", "nothing-comes-through/do not arrive"],           &["stall", "requests-lost", "unaccounted", "nothing-comes-through"], Where::Any),
    fault("dead-flows",            &["dead-flows"],                    &["nothing-comes-through"], Where::Any),
    fault("no-fragments",          &["fragments"],                     &["lossy-path", "unaccounted", "nothing-comes-through"], Where::Any),
    fault("deep-queue",            &["bottleneck"],                    &[], Where::Any),
    fault("short-trains",          &["segmentation"],                  &["sender-cpu", "receiver-cpu", "sender-starved", "receiver-starved", "host-limits", "steal"], Where::There),
    fault("egress-limit",          &["unaccounted/before its link", "stack-drops"], &[], Where::There),
    fault("first-syn",             &["retransmission-timeout/first SYN"], &["nothing-comes-through"], Where::Any),
    fault("fragments",             LOSSY,                             &["stack-drops"], Where::Any),
    fault("window",                &["receive-window", "send-buffer", "far-path", "small-buffer"], &[], Where::Any),
    fault("no-window-scaling",     &["receive-window", "far-path"],    &[], Where::Any),
    fault("lossy-far-path",        LOSSY,                                   LOSSY_ALSO, Where::Any),
    fault("requests-lost",         &["requests-lost", "lossy-path", "retransmission-timeout", BETWEEN], &["outage", "stall"], Where::Any),
    fault("shaper",                &["shaper", "qdisc-drops"],         &["host-limits"], Where::There),
    fault("shaper-drops",          &["shaper", "qdisc-drops"],         &[], Where::There),
    fault("small-buffer",          &["small-buffer"],                  &["receive-buffer"], Where::There),
    fault("hog",                   &["receiver-starved", "others-cpu"], &["receive-buffer", "steal"], Where::There),
    fault("real-time-hog",         &["receiver-starved", "others-cpu"], &["receive-buffer", "steal"], Where::There),
    fault("hog-sender",            &["sender-starved"],                &["sender-cpu", "host-limits", "steal", "stall"], Where::There),
    fault("hog-reader",            &["receiver-starved"],              &["receiver-cpu", "receive-window", "host-limits", "steal", "stall"], Where::There),
    fault("hog-requests",          &["cpu-wait"],                      &["stall", "outage"], Where::There),
    fault("quota-receiver",        &["cpu-quota"],                     &["receiver-starved", "receive-buffer", "receiver-cpu", "stall"], Where::There).or_told("throttled|quota"),
    fault("quota-sender",          &["cpu-quota"],                     &["host-limits", "sender-cpu", "stall"], Where::There).or_told("throttled|quota"),
    fault("stopped",               &["agent-stopped"],                 &["receiver-starved", "receive-buffer", "stall", "requests-lost"], Where::There).or_told("did not run"),
    fault("firewall-share",        &["stack-drops", "unaccounted/behind its link"], &["interface-filter"], Where::There),
    fault("firewall-out",          &["stack-drops"],                   &[], Where::There),
    fault("ingress-limit",         &["interface-filter", "stack-drops", "unaccounted/behind its link"], &[], Where::There),
    fault("backlog",               &["softirq-backlog"],               &[], Where::There),
    fault("mtu",                   &["mtu-mismatch", "nothing-comes-through/MTU is"],                  &["transmit-ring", "size-hole"], Where::Any),
    fault("carrier",               &["link-down"],                     &["outage", "stall", "flow-died", "neighbours", "stack-drops"], Where::Any).or_told("link went down|carrier"),
    fault("neighbour",             &["neighbour-changed"],             &["neighbours", "outage", "stall", "unaccounted"], Where::There),
    fault("others-traffic",        &["others-traffic", "shaper", "qdisc-drops"], &[], Where::There),
    fault("router-shaper",         &["bottleneck"],                    &["lossy-path", "unaccounted"], Where::Any),
    fault("filter-out-tcp",        &["stack-drops"],                   &[], Where::There),
    fault("acks-lost",             &["acknowledgements", "nothing-comes-through/answers"], &["outage", "stall", "flow-died", "bottleneck", "lossy-path", "stack-drops", "nothing-comes-through"], Where::There),
    fault("acks-shaped",           &["acknowledgements"],              &["bottleneck"], Where::There),
    fault("path-mtu",              &["path-mtu"],                      &[], Where::Any),
    fault("program",               &["interface-filter", "unaccounted/behind its link"], &["reordering"], Where::There),
    fault("requests-filtered",     &["stack-drops", "nothing-comes-through/input filter"], &["retransmission-timeout", "outage", "stall", "flow-died"], Where::There),
    fault("requests-shaped",       &["shaper", "qdisc-drops"],         &["slow-answers"], Where::There),
    fault("bridge-blocks",         &["outage"],                        &["stall", "lossy-path", "unaccounted", "receive-window"], Where::Any).or_told("nothing arrived|nothing passed"),
    fault("bridge-mtu",            &["nothing-comes-through/bytes do not pass", "nothing-comes-through/MTU"], &["lossy-path", "unaccounted", "transmit-ring"], Where::Any),
    fault("bridge-astray",         &["flow-died", "nothing-comes-through/do not arrive"], &["outage", "stall", "lossy-path", "unaccounted", "nothing-comes-through"], Where::Any),
    fault("two-ports",             &["unaccounted/passes by another interface"], &[], Where::Any),
    fault("lower-shaper",          &["qdisc-drops/by which"],          &[], Where::There),
    fault("requests-often-lost",   &["lossy-path", BETWEEN],           &[], Where::Any),
    fault("deep-bucket",           &["bottleneck"],                    &["lossy-path", "unaccounted"], Where::Any),
    fault("small-segments",        &["small-segments"],                &["receiver-cpu", "sender-cpu", "host-limits", "softirq-cpu", "steal"], Where::Any),
    fault("marks",                 &["congestion-marks"],              &["bottleneck"], Where::Any),
    fault("slows-down",            &["shaper", "qdisc-drops", "bottleneck", "lossy-path"], &["host-limits", "unaccounted"], Where::Any),
    fault("slow-for-a-while",      &["slow-time", "shaper", "qdisc-drops", "bottleneck"], &["host-limits", "lossy-path", "unaccounted"], Where::Any),
    fault("short-outage",          &["lossy-path/once, at about", "outage"], &["stall", "lossy-path"], Where::Any).or_told("nothing arrived|nothing passed|of all that were"),
    refused("firewall-drop",       &["firewall|filter|silently|drops|dropped", "{at}"]),
    refused("firewall-reject",     &["firewall|filter|reject|refuse|prohibited|reset|administratively", "{at}"]),
    refused("no-route",            &["route|unreachable", "{at}"]),
    refused("blackhole",           &["route|blackhole|prohibit|unreachable|forward|on the way|between"]),
    refused("wrong-neighbour",     &["neighbour|hardware address|mac address", "{at}"]),
    refused("interface-down",      &["down|no carrier", "{at}"]),
    refused("no-forwarding",       &["router|forward|hop|gateway|on the way|between"]),
    refused("reverse-path",        &["reverse path|rp_filter|leads to", "{at}"]),
    refused("hole-for-data",       &["bytes|size|mtu|large"]),
    refused("resets",              &["reset", "middlebox|filter|firewall"]),
    refused("router-firewall",     &["router|forward|hop|gateway|on the way|between|firewall|prohibited"]),
    refused("duplicate-address",   &["another machine has|answers for it|too:|hardware address|neighbour"]),
    refused("circle",              &["circle|sends them back|come back|ttl"]),
    refused("no-address",          &["address|subnet", "{at}"]),
    healthy("clean-udp",           &[]),
    healthy("clean-udp-many",      &[]),
    healthy("clean-bursts",        &[]),
    healthy("clean-tcp-paced",     &[]),
    healthy("clean-tcp-greedy",    &LIMITS),
    healthy("clean-requests",      &[]),
    healthy("clean-far",           &["far-path"]),
    healthy("clean-shaped",        &["shaper", "link-full", "bottleneck", "qdisc-drops", "host-limits"]),
    healthy("clean-shaped-udp",    &[]),
];

/// Sentences that fit every trial that cannot begin, and name no cause: small letters, without endpoints.
pub(super) const FITS_ALL: [&str; 6] = [
    "check the cable, the addresses and firewalls between the two ends",
    "check the cable and the other end",
    "the trial failed: the host did not connect",
    "the trial failed: the target did not connect",
    "the host did not connect",
    "the target did not connect",
];

/// Of this family. Every one has a row: a test holds the two lists against each other.
pub(super) fn of(family: &str) -> &'static Truth {
    TRUTHS.iter().find(|truth| truth.family == family).expect("every family has its truth")
}

impl Truth {
    const fn or_told(self, told: &'static str) -> Truth {
        Truth { told, ..self }
    }

    /// Whether a trial of this family cannot begin.
    pub(super) fn is_refused(&self) -> bool {
        !self.words.is_empty()
    }
}
