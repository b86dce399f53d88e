//! Something on the way doubles packets.
//! Knows numbers that arrived twice, and segments that arrived more often than they were sent.

use super::case::{Case, percent};
use super::{Finding, Rule, Sureness};

pub(super) const RULE: Rule = Rule {
    name: "duplicates",
    says: "Packets arrive twice: something on the way doubles them (a bond, a mirror port, a loop, a wireless link).",
    rests_on: "At least 0.1 % of the datagrams, and 10 of them, arrived again; or more of TCP's data segments arrived than were sent.",
    source: "RFC 5560 (one-way packet duplication).",
    suggests: &[],
    find,
};

fn find(case: &Case<'_>) -> Option<Finding> {
    let (copies, share) = case.duplicated()?;
    let noun = case.noun();
    let sentence = format!("Packets arrive twice: {} of the {noun} were doubled on the way.", percent(share));
    Some(
        RULE.finds(case, None, Sureness::Likely, 0.9, sentence)
            .because(format!("{copies} copies arrived beside the first ones"))
            .wrong_if("It is wrong if the sender's interface counts as many more packets than it was given: then it sends them.")
            .explains(&["contradiction", "reordering"]),
    )
}
