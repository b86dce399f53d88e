//! What ttcp can be the other end of.
//! Knows no connections.

use linerate_trial::spec::{Direction, Spec, Workload};

use super::datagram::MARK_LEN;

/// Whether a ttcp can take part in this trial; or one sentence about what it cannot do.
pub fn check_client(spec: &Spec) -> Result<(), String> {
    let cannot = |what: &str, instead: &str| Err(format!("ttcp has no {what}; {instead}"));
    if !spec.workload.is_stream() {
        return cannot(spec.workload.name(), "choose tcp-stream or udp-stream, or a target with linerate's agent");
    }
    if spec.direction == Direction::Both {
        return cannot("both directions at once", "choose direction=rx or direction=tx");
    }
    if spec.streams > 1 {
        return cannot("parallel streams", "choose streams=1");
    }
    if spec.probe {
        return cannot("probe beside a stream", "leave probe out, or choose a target with linerate's agent");
    }
    if spec.workload == Workload::UdpStream && spec.message_octets() as usize <= MARK_LEN {
        return cannot("datagrams below 5 octets, which end a stream", "choose message_size=5, or more");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ttcp_has_not_is_said() {
        #[track_caller]
        fn check(workload: Workload, change: impl FnOnce(&mut Spec), contains: &str) {
            let mut spec = Spec::new(workload);
            change(&mut spec);
            let sentence = check_client(&spec).unwrap_err();
            assert!(sentence.contains(contains), "{sentence}");
        }
        check(Workload::UdpRr, |_| {}, "ttcp has no udp-rr; choose tcp-stream");
        check(Workload::TcpStream, |s| s.direction = Direction::Both, "direction=rx or direction=tx");
        check(Workload::TcpStream, |s| s.streams = 2, "streams=1");
        check(Workload::UdpStream, |s| s.probe = true, "leave probe out");
        check(Workload::UdpStream, |s| s.message_size = Some(4), "message_size=5");
        assert_eq!(check_client(&Spec::new(Workload::UdpStream)), Ok(()));
    }
}
