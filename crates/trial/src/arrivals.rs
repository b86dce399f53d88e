//! Which datagrams of a UDP stream arrived, when, and in what order.
//! Knows no sockets; arrival times are arguments.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::histogram::Histogram;

/// The account of a flow's datagrams at the receiver.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Arrivals {
    /// Different datagrams of the measured part that arrived, late ones included.
    pub received: u64,
    /// Further copies of datagrams of the measured part.
    pub duplicated: u64,
    /// Datagrams of the measured part that arrived after one with a higher number (RFC 4737, section 3).
    pub reordered: u64,
    /// Datagrams of the measured part that arrived after the sender's end mark: not lost, and no part of the
    /// throughput.
    pub late: u64,
    /// Different datagrams over the whole trial, warm-up included.
    pub received_total: u64,
    /// Further copies over the whole trial.
    pub duplicated_total: u64,
    /// How many datagrams the sender's end mark said it sent in all; absent when the mark did not arrive.
    pub sent_by_end_mark: Option<u64>,
    /// Interarrival jitter (RFC 3550, section 6.4.1), seconds, at the end of the measured part.
    pub jitter_s: Option<f64>,
    /// Times between arrivals in the measured part.
    pub gaps: Histogram,
    /// Runs of consecutive numbers that never arrived, over the whole trial: length → how often.
    pub loss_bursts: BTreeMap<u64, u64>,
}
