//! Frames on machines that lack something: the next way is taken, or a sentence says what is missing.
//! Knows no rates. What is missing is taken away: capabilities(7), by setpriv(1), and what a kernel answers, by [`MissingFeature`].

use std::process::{Command, Output, Stdio};

use linerate_lab::{MissingFeature, Shape};
use linerate_results::record::Record;

use super::rig::{Rig, flow};

/// Runs a short trial into a target that has not these capabilities.
fn run(rig: &Rig, lacking: &str, options: &[&str]) -> Output {
    let target = format!(
        "exec:nsenter --net={} setpriv --bounding-set={lacking} {} agent --stdio",
        rig.lab.target.path().display(),
        env!("CARGO_BIN_EXE_linerate")
    );
    finish(rig, &target, &[], options)
}

/// Runs a short trial between two ends whose kernel lacks all of these.
fn run_on(rig: &Rig, lacks: &[MissingFeature], options: &[&str]) -> Output {
    finish(rig, &format!("netns:{}", rig.lab.target.path().display()), lacks, options)
}

fn finish(rig: &Rig, target: &str, lacks: &[MissingFeature], options: &[&str]) -> Output {
    let mut command = Command::new("timeout");
    command.args(["60", env!("CARGO_BIN_EXE_linerate"), "run", "frames", "--json", "--quiet"]);
    let store = std::env::temp_dir().join(format!("linerate-truth-{}-refused.sqlite", std::process::id()));
    command.arg("--store").arg(&store);
    command.args(["--target", target, "--host", &format!("netns:{}", rig.lab.host.path().display())]);
    command.args(["--set", "bytes=10K"]);
    for option in options {
        command.args(["--set", option]);
    }
    if !lacks.is_empty() {
        MissingFeature::all(lacks, &mut command);
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
    for (direction, want) in [("rx", ["af-xdp", "packet-ring"]), ("tx", ["af-xdp", "xdp"])] {
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

/// Frames go below IP: what sockets hear of each other explains none of them, nor what an end cannot do.
#[test]
fn what_an_end_cannot_do_is_not_laid_to_the_network() {
    let Some(rig) = Rig::up("frames_filter", &Shape::unshaped()) else { return };
    const NO_TCP: &str = "add table ip f; add chain ip f i { type filter hook input priority 0; }; add rule ip f i meta l4proto tcp drop";
    let mut filter = Command::new("nsenter");
    filter.arg(format!("--net={}", rig.lab.target.path().display())).args(["nft", NO_TCP]);
    assert!(filter.status().unwrap().success());
    for (options, want) in [
        (["sender_api=af-xdp", "streams=3"], "each stream takes a queue, and "),
        (["frame_size=2000", "direction=rx"], "frames of 2000 bytes are more than "),
    ] {
        let ran = run_on(&rig, &[], &options);
        let complaint = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert!(complaint.contains(want) && !complaint.contains("TCP"), "{complaint}");
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

/// Sysctls of the link in both namespaces, which a trial of frames changes and puts back.
fn settings(rig: &Rig) -> Vec<String> {
    let of = || -> std::io::Result<Vec<String>> {
        let names = ["ipv4/neigh/eth0/mcast_solicit", "ipv4/neigh/eth0/ucast_solicit", "ipv4/conf/eth0/arp_ignore"];
        names.into_iter().map(|name| std::fs::read_to_string(format!("/proc/sys/net/{name}"))).collect()
    };
    [rig.lab.target.run(of).unwrap(), rig.lab.host.run(of).unwrap()].concat()
}

#[test]
fn a_kernel_that_lacks_something_takes_the_next_way_and_says_which() {
    let Some(rig) = Rig::up("frames_lacking", &Shape::unshaped()) else { return };
    let before = settings(&rig);
    let check = |lacks: &[MissingFeature], options: &[&str], want: [&str; 2]| {
        let ran = run_on(&rig, lacks, &[&["direction=both"][..], options].concat());
        let complaint = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert!(ran.status.success(), "{lacks:?}: {complaint}");
        let record: Record = serde_json::from_slice(&ran.stdout).unwrap();
        let figures = flow(&record);
        let used = [&figures.sender_api, &figures.receiver_api].map(|api| api.as_ref().unwrap().name.clone());
        assert_eq!(used, want, "{lacks:?} {options:?}");
        assert_eq!(figures.packets_lost, Some(0), "{lacks:?}");
        assert_eq!(figures.packets_sent, figures.packets_received, "{lacks:?}");
        assert_eq!(settings(&rig), before, "{lacks:?}");
    };
    check(&[MissingFeature::LiveFrames], &[], ["af-xdp", "xdp"]);
    check(&[MissingFeature::LiveFrames], &["rate=40kpps"], ["packet-sendmmsg", "xdp"]);
    // The queue's only socket receives.
    check(&[MissingFeature::LiveFrames], &["receiver_api=af-xdp"], ["packet-sendmmsg", "af-xdp"]);
    check(&[MissingFeature::LiveFrames, MissingFeature::AfXdp], &[], ["packet-sendmmsg", "xdp"]);
    // Without a program at its other end a veth takes no frames of programs, either; AF_XDP needs none to send.
    check(&[MissingFeature::Xdp], &[], ["af-xdp", "packet-ring"]);
    check(&[MissingFeature::Bpf], &[], ["af-xdp", "packet-ring"]);
    check(&[MissingFeature::BpfRights], &[], ["af-xdp", "packet-ring"]);
    check(
        &[MissingFeature::Bpf, MissingFeature::PacketRing, MissingFeature::AfXdp, MissingFeature::QdiscBypass],
        &[],
        ["packet-sendmmsg", "packet-recvmmsg"],
    );
    check(&[MissingFeature::Xdp], &["timestamps=application"], ["af-xdp", "packet-recvmmsg"]);
    check(&[MissingFeature::Bpf], &["sender_api=af-xdp"], ["af-xdp", "packet-ring"]);
}

#[test]
fn what_a_kernel_lacks_and_was_asked_for_by_name_is_a_sentence() {
    let Some(rig) = Rig::up("frames_lacking_by_name", &Shape::unshaped()) else { return };
    let before = settings(&rig);
    let check = |lack: MissingFeature, option: &str, want: &str| {
        let ran = run_on(&rig, &[lack], &[option]);
        let complaint = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert_eq!(ran.status.code(), Some(2), "{lack:?} {option}: {complaint}");
        assert!(complaint.contains(want) && complaint.contains(" or "), "{lack:?} {option}: {complaint}");
        assert_eq!(settings(&rig), before, "{lack:?} {option}");
    };
    check(MissingFeature::LiveFrames, "sender_api=live-frames", "which came with Linux 5.18");
    check(MissingFeature::Bpf, "sender_api=live-frames", "CONFIG_BPF_SYSCALL");
    check(MissingFeature::BpfRights, "sender_api=live-frames", "CAP_BPF");
    check(MissingFeature::Xdp, "receiver_api=xdp", "takes no XDP program");
    check(MissingFeature::Bpf, "receiver_api=xdp", "CONFIG_BPF_SYSCALL");
    check(MissingFeature::Bpf, "receiver_api=af-xdp", "CONFIG_BPF_SYSCALL");
    check(MissingFeature::AfXdp, "sender_api=af-xdp", "this kernel has no AF_XDP");
    check(MissingFeature::AfXdp, "receiver_api=af-xdp", "this kernel has no AF_XDP");
    check(MissingFeature::PacketRing, "receiver_api=packet-ring", "no TPACKET_V3 (Linux 3.2 has)");
    check(MissingFeature::QdiscBypass, "sender_api=packet-bypass", "no PACKET_QDISC_BYPASS (Linux 3.14 has)");
}
