//! The loss budget: every datagram of a trial at one stage of its path.
//! Knows no machine; the counters of both ends are arguments.
