//! Settings of real interfaces, set, looked at by other programs, and put back, in network namespaces of their own.
//! Needs root and `ip`, `tc` and `ethtool`; says so and passes where they are missing.
//!
//! ```text
//!   namespace a               namespace b
//!   link0 ── veth, 4 queues ── link0
//! ```

use std::collections::BTreeMap;

use linerate_host::settings::{SettingError, Settings};
use linerate_machine::setting;
use namespaces::{LINK, Pair, within};

mod namespaces;

/// The two machines of the picture above.
fn pair(test: &str) -> Option<Pair> {
    Pair::make(
        test,
        "queues='numtxqueues 4 numrxqueues 4'
         ip -n $A link add $LINK $queues type veth peer name $LINK $queues netns $B
         ip -n $A addr add 10.97.0.1/24 dev $LINK; ip -n $A addr add fd97::1/64 dev $LINK
         ip -n $A link set $LINK up; ip -n $B link set $LINK up",
    )
}

/// What a command line prints in a namespace, with a /sys of that namespace.
#[track_caller]
fn shown_in(pair: &Pair, namespace: &str, command: &str) -> String {
    pair.must(&format!("ip netns exec {namespace} sh -c '{command}'"))
}

/// Every setting and its value.
fn all(settings: &Settings) -> BTreeMap<String, String> {
    settings.names().into_iter().map(|name| (name.clone(), settings.get(&name).unwrap())).collect()
}

#[test]
fn each_is_set_and_seen_by_others_and_put_back() {
    let Some(pair) = pair("settings of a veth") else { return };
    let queue = |file: &str| format!("cat /sys/class/net/{LINK}/queues/{file}");
    let feature = |name: &str| format!("ethtool -k {LINK} | grep \"^\\s*{name}:\"");
    let link = format!("ip -d link show {LINK}");
    let qdisc = format!("tc -d qdisc show dev {LINK}");
    // Setting, value, what is read back, where others see it and what they must see.
    let table: &[(&str, &str, &str, String, &str)] = &[
        ("mtu", "9000", "9000", link.clone(), " mtu 9000 "),
        ("queue_length", "77", "77", link.clone(), " qlen 77"),
        ("gso_max_size", "32K", "32768", link.clone(), " gso_max_size 32768 "),
        ("qdisc", "pfifo_fast", "pfifo_fast", qdisc.clone(), "qdisc pfifo_fast 7"),
        ("qdisc", "pfifo limit 7", "pfifo limit 7", qdisc.clone(), "limit 7p"),
        ("qdisc", "pfifo", "pfifo limit 1000", qdisc.clone(), "limit 1000p"),
        ("qdisc", "bfifo limit 9K", "bfifo limit 9K", qdisc.clone(), "limit 9Kb"),
        ("qdisc", "mq", "mq", qdisc.clone(), "qdisc mq 7"),
        (
            "qdisc",
            "tbf rate 100mbit burst 32k limit 64k",
            "tbf rate 100M burst 32K limit 64K",
            qdisc.clone(),
            "rate 100Mbit burst 32Kb/1 ",
        ),
        ("qdisc", "tbf rate 410M burst 100000 limit 1M", "tbf rate 410M burst 100000 limit 1M", qdisc, "rate 410Mbit"),
        ("gro", "on", "on", feature("generic-receive-offload"), ": on"),
        ("gso", "off", "off", feature("generic-segmentation-offload"), ": off"),
        ("tso", "off", "off", feature("tcp-segmentation-offload"), ": off"),
        ("tso", "only:tx-tcp-segmentation", "only:tx-tcp-segmentation", feature("tx-tcp6-segmentation"), ": off"),
        ("tx_checksum", "off", "off", feature("tx-checksumming"), ": off"),
        ("sg", "off", "off", feature("scatter-gather"), ": off"),
        ("udp_segmentation", "off", "off", feature("tx-udp-segmentation"), ": off"),
        ("udp_gro_forwarding", "on", "on", feature("rx-udp-gro-forwarding"), ": on"),
        ("gro_list", "on", "on", feature("rx-gro-list"), ": on"),
        ("feature.tx-nocache-copy", "on", "on", feature("tx-nocache-copy"), ": on"),
        ("channels.rx", "2", "2", format!("ethtool -l {LINK} | tail -4"), "RX:\t\t2"),
        ("channels.tx", "3", "3", format!("ethtool -l {LINK} | tail -4"), "TX:\t\t3"),
        ("rps.1", "1", "1", queue("rx-1/rps_cpus"), "2"),
        ("rps.all", "0-1", "0-1", queue("rx-3/rps_cpus"), "3"),
        ("rps.all", "0=0 1=1", "0=0 1=1 2=none 3=none", queue("rx-1/rps_cpus"), "2"),
        ("xps.0", "1", "1", queue("tx-0/xps_cpus"), "2"),
        // The kernel rounds up to a power of two: asked 1000, kept 1024.
        ("rfs.rps_flow_cnt", "1000", "1024", queue("rx-2/rps_flow_cnt"), "1024"),
        ("napi_defer_hard_irqs", "5", "5", format!("cat /sys/class/net/{LINK}/napi_defer_hard_irqs"), "5"),
        ("gro_flush_timeout", "20us", "20us", format!("cat /sys/class/net/{LINK}/gro_flush_timeout"), "20000"),
        ("sysctl.net.ipv4.tcp_wmem", "4K 16K 1M", "4096 16384 1048576", "sysctl net.ipv4.tcp_wmem".into(), "1048576"),
        ("sysctl.net.ipv4.conf.link0.rp_filter", "2", "2", "cat /proc/sys/net/ipv4/conf/link0/rp_filter".into(), "2"),
        ("sysctl.net.ipv6.conf.link0.hop_limit", "9", "9", "sysctl net.ipv6.conf.link0.hop_limit".into(), "= 9"),
    ];
    let other_end = || {
        let files = "gro_flush_timeout napi_defer_hard_irqs mtu tx_queue_len queues/rx-1/rps_cpus";
        shown_in(&pair, &pair.b, &format!("cd /sys/class/net/{LINK}; cat {files}; tc qdisc show dev {LINK}"))
    };
    let elsewhere = other_end();
    within(&pair.a, || {
        let settings = Settings::new(Some(LINK));
        let before = all(&settings);
        for (name, value, read_back, command, seen) in table {
            let original = settings.get(name).unwrap();
            settings.set(name, value).unwrap_or_else(|error| panic!("{name} = {value}: {error}"));
            assert_eq!(settings.get(name).as_deref(), Ok(*read_back), "{name} = {value}");
            let shown = shown_in(&pair, &pair.a, command);
            assert!(shown.contains(seen), "{name} = {value}: {shown}");
            settings.set(name, &original).unwrap_or_else(|error| panic!("{name} back to {original}: {error}"));
            assert_eq!(settings.get(name), Ok(original), "{name} is not put back");
        }
        let after = all(&settings);
        let changed: Vec<_> = before.iter().filter(|(name, value)| after.get(*name) != Some(value)).collect();
        // Channels that were off for a moment: the kernel forgets their CPUs (netif_reset_xps_queues).
        assert!(changed.is_empty(), "{changed:?} became other than they were");
        assert_eq!(before.len(), after.len());
    });
    assert_eq!(other_end(), elsewhere, "the interface of the same name in the other namespace was touched");
}

/// An ifb has a queue and a lock of its own, as drivers of NICs do and a veth does not.
#[test]
fn the_limit_of_bytes_in_a_transmit_queue() {
    let Some(pair) = pair("byte queue limits") else { return };
    pair.must("ip -n $A link add ifb9 type ifb");
    let file = "cat /sys/class/net/ifb9/queues/tx-0/byte_queue_limits/limit_max";
    let shown = || shown_in(&pair, &pair.a, &format!("{file} || true"));
    let Ok(original) = shown().parse::<u32>() else {
        eprintln!("SKIPPED the_limit_of_bytes_in_a_transmit_queue: a kernel without byte queue limits");
        return;
    };
    within(&pair.a, || {
        let settings = Settings::new(Some("ifb9"));
        assert_eq!(settings.get("bql.limit_max"), Ok(original.to_string()));
        settings.set("bql.limit_max", "3028").unwrap();
        assert_eq!((settings.get("bql.limit_max").as_deref(), shown().as_str()), (Ok("3028"), "3028"));
        settings.set("bql.limit_max", &original.to_string()).unwrap();
        let veth = Settings::new(Some(LINK));
        assert!(!veth.names().contains(&"bql.limit_max".to_owned()), "nobody tells what it has sent");
    });
    assert_eq!(shown(), original.to_string());
}

/// The /sys of this process shows its own namespace, which has a `lo` of the same number and address.
#[test]
fn the_interface_of_the_namespace_is_meant_not_that_of_the_process() {
    let Some(pair) = pair("interfaces of one name") else { return };
    let own = || std::fs::read_to_string("/sys/class/net/lo/gro_flush_timeout").unwrap();
    let before = own();
    within(&pair.a, || {
        let settings = Settings::new(Some("lo"));
        settings.set("gro_flush_timeout", "12345ns").unwrap();
        assert_eq!(settings.get("gro_flush_timeout").as_deref(), Ok("12345ns"));
    });
    assert_eq!(shown_in(&pair, &pair.a, "cat /sys/class/net/lo/gro_flush_timeout"), "12345");
    assert_eq!(own(), before);
}

/// A veth polls by NAPI while it has GRO; only then is there something to put on a thread.
#[test]
fn a_thread_polls_when_it_is_told_to() {
    let Some(pair) = pair("napi.threaded") else { return };
    within(&pair.a, || {
        let settings = Settings::new(Some(LINK));
        settings.set("gro", "on").unwrap();
        for (value, seen) in [("on", "1"), ("off", "0")] {
            settings.set("napi.threaded", value).unwrap();
            assert_eq!(settings.get("napi.threaded").as_deref(), Ok(value));
            assert_eq!(shown_in(&pair, &pair.a, &format!("cat /sys/class/net/{LINK}/threaded")), seen);
        }
    });
}

/// What kernels before 5.6 have instead of netlink, which this one has too.
#[test]
fn the_older_way_sets_the_same() {
    use linerate_host::sys::ethtool::{Ethtool, IoctlWords};

    let Some(pair) = pair("the ioctl of ethtool") else { return };
    within(&pair.a, || {
        let settings = Settings::new(Some(LINK));
        let older = Ethtool::new(LINK).unwrap();
        let mut words = older.words(IoctlWords::Channels).unwrap();
        assert_eq!(words, [4, 4, 0, 0, 4, 4, 0, 0]);
        words[4] = 2;
        older.set_words(IoctlWords::Channels, &words).unwrap();
        assert_eq!(settings.get("channels.rx").as_deref(), Ok("2"));
        for (words, name) in [
            (IoctlWords::Value(0x16), "tx_checksum"),
            (IoctlWords::Value(0x18), "sg"),
            (IoctlWords::Value(0x23), "gso"),
            (IoctlWords::Value(0x2b), "gro"),
        ] {
            for (word, value) in [(0, "off"), (1, "on")] {
                older.set_words(words, &[word]).unwrap();
                assert_eq!(older.words(words).unwrap(), [word], "{name}");
                assert_eq!(settings.get(name).as_deref(), Ok(value), "{name}");
            }
        }
        let refused = older.set_words(IoctlWords::Rings, &[0; 8]).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EOPNOTSUPP));
        assert!(older.set_words(IoctlWords::Rings, &[0; 3]).is_err(), "too few");
    });
}

/// Whatever is read can be written, and changes nothing: that is what puts settings back.
#[test]
fn every_value_is_taken_back_as_it_was_told() {
    let Some(pair) = pair("every setting of a veth") else { return };
    within(&pair.a, || {
        let settings = Settings::new(Some(LINK));
        let before = all(&settings);
        for name in ["mtu", "queue_length", "qdisc", "gro", "tso", "rps.all", "rps.0", "xps.all", "channels.rx"] {
            assert!(before.contains_key(name), "{name} is not among {:?}", before.keys());
        }
        for (name, value) in &before {
            assert_eq!(setting::canonical(name, value).as_ref(), Ok(value), "{name}");
            settings.set(name, value).unwrap_or_else(|error| panic!("{name} = {value}: {error}"));
        }
        assert_eq!(all(&settings), before);
    });
}

#[test]
fn what_cannot_be_is_said_in_a_sentence() {
    let Some(pair) = pair("refused settings") else { return };
    shown_in(&pair, &pair.a, "ip link add bare type veth");
    let check = |interface: &str, name: &str, value: &str, contains: &[&str]| {
        let error = within(&pair.a, || Settings::new(Some(interface)).set(name, value)).unwrap_err();
        let sentence = error.to_string();
        for part in contains {
            assert!(sentence.contains(part), "{sentence}");
        }
        error
    };
    for name in ["coalesce.rx_usecs", "coalesce.tx_frames", "ring.rx", "ring.tx"] {
        let error = check(LINK, name, "8", &[name, "on link0", "not there", "leave it out"]);
        assert!(matches!(error, SettingError::Absent { .. }), "{error:?}");
    }
    for name in ["pause.rx", "pause.autoneg", "eee", "coalesce.adaptive_rx"] {
        check(LINK, name, "on", &[name, "not there"]);
    }
    check(LINK, "speed", "100", &["speed is not there on link0", "no link modes"]);
    check(LINK, "channels.rx", "9", &["channels.rx cannot be 9 on link0: the driver takes 4 at most"]);
    check(LINK, "lro", "on", &["lro is off on link0, and cannot be changed there"]);
    check(LINK, "feature.no-such-feature", "on", &["no feature of this name"]);
    check(LINK, "qdisc", "default limit 5", &["default has no parameters"]);
    check(LINK, "rps.9", "0", &["no such queue"]);
    check(LINK, "sysctl.net.ipv4.ip_forward", "1", &["could not be put back", "forwarding"]);
    check(LINK, "sysctl.net.core.no_such", "1", &["no such sysctl"]);
    check(LINK, "sysctl.net.ipv4.tcp_congestion_control", "nonsense", &["cannot be nonsense"]);
    // The kernel's own words (extended acknowledgement).
    check(LINK, "mtu", "67", &["10.97.0.1", "use 68 at least"]);
    check("bare", "mtu", "60", &["mtu cannot be 60 on bare", "mtu less than device minimum", "Invalid argument"]);
    // An address that would be gone for good.
    check(LINK, "mtu", "1000", &["takes the address fd97::1 away from link0", "use 1280 at least"]);
    check(LINK, "sysctl.net.ipv6.conf.link0.disable_ipv6", "1", &["takes the address fd97::1 away"]);
    let addresses = shown_in(&pair, &pair.a, &format!("ip -6 addr show dev {LINK}"));
    assert!(addresses.contains("fd97::1/64"), "{addresses}");
    check("no-such-one", "mtu", "1500", &["mtu is not there on no-such-one"]);
    check("no-such-one", "rps.all", "0", &["no such interface"]);
}

/// A queueing discipline that somebody else made is put back if it can be, and left alone if not.
#[test]
fn foreign_qdiscs() {
    let Some(pair) = pair("foreign queueing disciplines") else { return };
    let tc = |arguments: &str| shown_in(&pair, &pair.a, &format!("tc {arguments}"));
    let show = || tc(&format!("-d qdisc show dev {LINK}")).lines().map(without_handles).collect::<Vec<_>>().join("\n");
    for foreign in [
        "tbf rate 33mbit burst 5000 limit 70000",
        "handle 5: tbf rate 33mbit burst 5000 limit 70000",
        "bfifo limit 12345",
        "handle a1: pfifo limit 3",
        "mq",
    ] {
        tc(&format!("qdisc replace dev {LINK} root {foreign}"));
        let before = show();
        within(&pair.a, || {
            let settings = Settings::new(Some(LINK));
            let original = settings.get("qdisc").unwrap();
            settings.set("qdisc", "tbf rate 1G burst 1M limit 1M").unwrap();
            settings.set("qdisc", &original).unwrap();
        });
        assert_eq!(show(), before);
        let handle = foreign.strip_prefix("handle ").and_then(|rest| rest.split(' ').next()).unwrap_or("");
        assert!(tc(&format!("qdisc show dev {LINK}")).contains(handle), "{foreign}");
        tc(&format!("qdisc del dev {LINK} root"));
    }
    for foreign in [
        format!("qdisc replace dev {LINK} root tbf rate 33mbit burst 5000 limit 70000 peakrate 50mbit mtu 1600"),
        format!(
            "qdisc replace dev {LINK} root handle 7: tbf rate 33mbit burst 5000 limit 70000; tc qdisc add dev \
                 {LINK} parent 7:1 pfifo limit 5"
        ),
    ] {
        tc(&foreign);
        let before = show();
        let error = within(&pair.a, || Settings::new(Some(LINK)).set("qdisc", "pfifo_fast")).unwrap_err().to_string();
        assert!(error.contains("left alone because it could not be put back"), "{error}");
        assert_eq!(show(), before);
        tc(&format!("qdisc del dev {LINK} root"));
    }
}

/// `qdisc tbf 8001: root …` as `qdisc tbf root …`: a handle that nobody chose is the kernel's choice.
fn without_handles(line: &str) -> String {
    line.split_whitespace().filter(|word| !word.contains(':')).collect::<Vec<_>>().join(" ")
}
