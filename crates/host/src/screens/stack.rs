//! Counters of IP, UDP and TCP, under the names that records have.
//! Knows which groups are shown whole.

use linerate_machine::screen::{Kind, View};

use crate::counters;

/// Every counter of the groups in `whole`, and of those in `moved` what is not 0: Linux has over a hundred more of TCP.
pub(super) fn read(whole: &[&str], moved: &[&str]) -> View {
    let mut view = View::new(&[("counter", Kind::Text), ("value", Kind::Counter)]);
    let snapshot = counters::snapshot_of_machine();
    let is_of = |groups: &[&str], name: &str| name.split_once(' ').is_some_and(|(group, _)| groups.contains(&group));
    let mut shown: Vec<(&str, u64)> = snapshot
        .counters
        .iter()
        .filter(|(_, name, value)| is_of(whole, name) || *value > 0 && is_of(moved, name))
        .map(|(_, name, value)| (name, value))
        .collect();
    // They come by stage; people find them by name, in the groups that they asked for first.
    let group = |name: &str| whole.iter().chain(moved).position(|group| is_of(&[group], name));
    shown.sort_unstable_by_key(|(name, _)| (group(name), *name));
    view.rows = shown.into_iter().map(|(name, value)| vec![name.into(), value.into()]).collect();
    if view.rows.is_empty() {
        view.missing.push("The kernel's statistics could not be read: see whether /proc is there.".to_owned());
    }
    view
}

#[cfg(test)]
mod tests {
    use linerate_machine::screen::Value;

    use super::*;

    #[test]
    fn groups_stand_in_the_order_in_which_they_are_named() {
        let view = read(&["Ip", "Icmp"], &[]);
        let names: Vec<String> = view.rows.iter().map(|row| row[0].text()).collect();
        let ip = names.iter().take_while(|name| name.starts_with("Ip ")).count();
        assert!(ip > 0 && ip < names.len() && names[ip..].iter().all(|name| name.starts_with("Icmp ")), "{names:?}");
        assert!(names[..ip].is_sorted(), "{names:?}");
    }

    #[test]
    fn datagrams_are_counted() {
        let of = |view: &View| match view.rows.iter().find(|row| row[0] == "Udp InDatagrams".into()).map(|row| &row[1])
        {
            Some(Value::Number(count)) => *count,
            other => panic!("{other:?}"),
        };
        let before = read(&["Udp"], &[]);
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.send_to(b"x", socket.local_addr().unwrap()).unwrap();
        socket.recv(&mut [0; 1]).unwrap();
        let now = read(&["Udp"], &[]);
        assert!(of(&now) > of(&before));
        assert!(now.rows.iter().all(|row| row[0].text().starts_with("Udp ")), "{now:?}");
    }
}
