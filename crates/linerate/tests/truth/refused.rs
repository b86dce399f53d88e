//! Frames on machines that lack something: the next way is taken, or a sentence says what is missing.
//! Knows no rates. What is missing is taken away: capabilities(7), by setpriv(1).

use std::process::{Command, Output, Stdio};

use linerate_lab::Shape;
use linerate_results::record::Record;

use super::rig::{Rig, flow};

/// Runs a short trial into a target that has not these capabilities.
fn run(rig: &Rig, lacking: &str, options: &[&str]) -> Output {
    let target = format!(
        "exec:nsenter --net={} setpriv --bounding-set={lacking} {} agent --stdio",
        rig.lab.target_netns().display(),
        env!("CARGO_BIN_EXE_linerate")
    );
    let mut command = Command::new("timeout");
    command.args(["60", env!("CARGO_BIN_EXE_linerate"), "run", "frames", "--json", "--quiet"]);
    let store = std::env::temp_dir().join(format!("linerate-truth-{}-refused.sqlite", std::process::id()));
    command.arg("--store").arg(&store);
    command.args(["--target", &target, "--host", &format!("netns:{}", rig.lab.host_netns().display())]);
    command.args(["--set", "bytes=10K"]);
    for option in options {
        command.args(["--set", option]);
    }
    let ran = command.stdin(Stdio::null()).output().unwrap();
    for suffix in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(format!("{}{suffix}", store.display()));
    }
    ran
}

#[test]
fn without_bpf_frames_go_by_sockets_and_what_is_asked_for_by_name_is_refused() {
    let Some(rig) = Rig::up("frames_refused", &Shape::unshaped()) else { return };
    const NO_BPF: &str = "-bpf,-sys_admin";
    for (direction, want) in [("rx", ["packet-sendmmsg", "packet-ring"]), ("tx", ["packet-sendmmsg", "xdp"])] {
        let ran = run(&rig, NO_BPF, &[&format!("direction={direction}")]);
        let complaint = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert!(ran.status.success(), "{complaint}");
        let record: Record = serde_json::from_slice(&ran.stdout).unwrap();
        let figures = flow(&record);
        let used = [&figures.sender_api, &figures.receiver_api].map(|api| api.as_ref().unwrap().name.clone());
        assert_eq!(used, want, "{direction}");
        assert_eq!(figures.packets_lost, Some(0), "{direction}");
    }
    for (options, want) in [
        (
            ["direction=rx", "receiver_api=xdp"],
            "receiver_api xdp is not to be had here: BPF programs are not allowed here",
        ),
        (
            ["direction=tx", "sender_api=live-frames"],
            "sender_api live-frames is not to be had here: BPF programs are not",
        ),
    ] {
        let ran = run(&rig, NO_BPF, &options);
        let complaint = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert_eq!(ran.status.code(), Some(2), "{complaint}");
        assert!(complaint.contains(want) && complaint.contains("choose packet-"), "{complaint}");
    }
}

#[test]
fn without_raw_sockets_there_are_no_frames() {
    let Some(rig) = Rig::up("frames_no_raw", &Shape::unshaped()) else { return };
    let ran = run(&rig, "-net_raw", &["direction=rx"]);
    let complaint = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert_eq!(ran.status.code(), Some(2), "{complaint}");
    assert!(complaint.contains("CAP_NET_RAW"), "{complaint}");
}

#[test]
fn what_cannot_be_both_is_a_sentence() {
    let Some(rig) = Rig::up("frames_both", &Shape::unshaped()) else { return };
    for (options, want) in [
        (["sender_api=live-frames", "rate=100kpps", "burst=4"], "it spaces frames evenly; leave spacing and burst out"),
        (
            ["receiver_api=xdp", "timestamps=application", "rate=100kpps"],
            "its times are the kernel's; leave timestamps out",
        ),
        (["receiver_api=packet-ring", "timestamps=hardware", "rate=10kpps"], "leave timestamps out, or choose"),
        (["sender_api=live-frames", "frame_size=9018", "rate=10kpps"], "too large for a BPF program"),
    ] {
        // The host has all that it needs; the target sends in none.
        let options: Vec<&str> = options.into_iter().chain(["direction=rx"]).collect();
        let ran = run(&rig, "+all", &options);
        let complaint = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert_eq!(ran.status.code(), Some(2), "{options:?}: {complaint}");
        assert!(complaint.contains(want), "{options:?}: {complaint}");
    }
}
