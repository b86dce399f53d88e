//! The kernel copies packets between the MAC's memory and theirs, because the MAC cannot address it.
//! Knows a profile's stacks.

use super::case::{Case, Side, percent};
use super::{Finding, Rule, Sureness};
use crate::profile::functions::functions;

/// From this share of the CPUs' busy time on.
const SHARE: f64 = 0.05;
/// A profile of fewer busy samples tells no share as small as that.
const SAMPLES: u64 = 200;

pub(super) const RULE: Rule = Rule {
    name: "bounce-buffers",
    says: "The kernel copies each packet once more, through bounce buffers that the MAC can address, and is out of CPU time.",
    rests_on: "A profile in which 5 % of the busy samples, of 200 at least, are in swiotlb's functions or under them, on a machine \
               out of CPU time (a CPU 95 % busy, or its threads).",
    source: "Linux Documentation/core-api/swiotlb.rst; field report on bounce buffers in the DMA layer (QCA9558, 2015).",
    suggests: &[],
    find,
};

fn find(case: &Case<'_>) -> Option<Finding> {
    if !case.is_troubled() {
        return None;
    }
    case.sides().into_iter().rev().find_map(|side| {
        let (_, clauses) = side.out_of_cpu(case)?;
        let (bounced, busy) = samples(side)?;
        let share = bounced as f64 / busy as f64;
        if busy < SAMPLES || share < SHARE {
            return None;
        }
        let sentence = format!("The {}'s kernel copies packets through bounce buffers.", side.end);
        Some(
            RULE.finds(case, Some(side.end), Sureness::Likely, share.min(1.0), sentence)
                .because(format!("{bounced} of {busy} busy samples are in swiotlb, {}", percent(share)))
                .because_of(clauses)
                .wrong_if(
                    "It is wrong if a kernel booted with memory that the MAC can address (mem=, or a driver with a wider \
                     DMA mask) is no faster.",
                )
                .explains(&["sender-cpu", "receiver-cpu", "softirq-cpu", "host-limits", "receiver-starved"]),
        )
    })
}

/// Samples of the side's profile that are in swiotlb's functions or under them, and all that are not idle.
fn samples(side: Side<'_>) -> Option<(u64, u64)> {
    let profile = side.machine.profile.as_ref()?;
    let driver = side.nic().and_then(|nic| nic.driver.as_deref());
    let busy = functions(profile, driver).iter().fold(0_u64, |sum, one| sum.saturating_add(one.samples));
    let is_swiotlb = |name: &Option<String>| name.as_ref().is_some_and(|name| name.starts_with("swiotlb_"));
    let bounced =
        profile.taken.stacks.iter().filter(|stack| {
            profile.taken.frames(stack).any(|function| function.is_kernel() && is_swiotlb(&function.name))
        });
    Some((bounced.fold(0_u64, |sum, stack| sum.saturating_add(stack.samples)), busy))
}
