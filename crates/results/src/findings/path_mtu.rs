//! Datagrams are cut into fragments because the way carries less than the sender's link.
//! Knows what the sender's kernel takes the way to carry; datagrams that its own link does not carry whole are no finding.

use linerate_trial::event::{Event, EventKind};
use linerate_trial::spec::Workload;

use super::case::Case;
use super::{Finding, Rule, Sureness};

pub(super) const RULE: Rule = Rule {
    name: "path-mtu",
    says: "The way carries smaller packets than the sender's link, and each datagram travels as several fragments: one of them \
           lost is all of it lost.",
    rests_on: "The path MTU that the sender's kernel had at the trial's end is smaller than its interface's MTU, and a datagram with its \
               headers fits the latter and not the former. Sure where an ICMP error came in the trial, or the MTU was changed in it.",
    source: "RFC 1191, RFC 8201 (path MTU discovery); RFC 8900 (fragmentation considered fragile); ip(7), IP_MTU.",
    suggests: &["message_size"],
    find,
};

fn find(case: &Case<'_>) -> Option<Finding> {
    let (path, link, message) = case.fragmented_by_path()?;
    let end = case.sender.end;
    let headers = case.ip_version().udp_headers();
    let fragments = case.ip_version().fragments(message + 8, path)?;
    let is_set =
        |event: &&Event| event.end == Some(end) && matches!(event.what, EventKind::MtuChanged { to, .. } if to == path);
    let set_to = case.events().find(is_set);
    let told = ["Icmp InDestUnreachs", "Icmp6 InPktTooBigs"].iter().any(|name| case.sender.counter(name) > Some(0));
    let said = match set_to {
        Some(event) => event.to_string(),
        None if told => "a router on the way said so (ICMP)".to_owned(),
        None => format!("a router had said so before (ICMP), or the {end}'s own route does (ip route get)"),
    };
    // What nobody said in this trial was true when it was said.
    let sure = if told || set_to.is_some() { Sureness::Sure } else { Sureness::Likely };
    let sentence = format!(
        "The way from the {end} carries packets of at most {path} bytes, though its link carries {link}: each datagram travels as \
         {fragments} fragments."
    );
    Some(
        RULE.finds(case, None, sure, 0.3, sentence)
            .because(format!("{said}, and datagrams of {message} bytes need {}", message + headers))
            .attempt("message_size", path.saturating_sub(headers).to_string(), "loss")
            .wrong_if("It is wrong if ping -M do -s with larger packets is answered."),
    )
}

/// The path MTU, the link's, and octets of a datagram that only the latter carries whole.
impl Case<'_> {
    pub(super) fn fragmented_by_path(&self) -> Option<(u32, u32, u32)> {
        let path = self.flow()?.path_mtu.filter(|_| self.is(Workload::UdpStream))?;
        let link = self.sender.nic()?.mtu?;
        let message = self.asked.as_ref()?.message_octets();
        let packet = message.saturating_add(self.ip_version().udp_headers());
        (path < link && (path + 1..=link).contains(&packet)).then_some((path, link, message))
    }
}
