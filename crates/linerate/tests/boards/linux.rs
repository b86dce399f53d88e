//! The real Ethernet drivers: what they do with traffic, settings, a pulled cable, a killed program.

use linerate_results::record::Record;
use linerate_trial::doubt::DoubtKind;

use crate::lab::{CAMPAIGN, COMMAND, Lab};
use crate::machines::Ran;
use crate::machines::cookbook::{Ends, recipes};

/// Sees that these records are whole, of this driver, and say of themselves that they are of an emulated board.
#[track_caller]
fn check_records(ran: &Ran, records: &[Record], count: usize, driver: &str) {
    ran.check_done();
    assert_eq!(records.len(), count, "{ran:#?}");
    for record in records {
        assert_eq!(record.error, None);
        let nic = record.target.environment.nic.as_ref().expect("the board's port is described");
        assert_eq!(nic.driver.as_deref(), Some(driver));
        let result = record.result.as_ref().expect("a result");
        assert!(result.flow.throughput_bps.is_some_and(|rate| rate > 0.0), "{result:?}");
        assert!(record.target.counters.iter().count() > 0 && record.host.counters.iter().count() > 0);
        // A second of an emulated board on a busy machine may have hardly a tick of its clock: then that is said.
        let is_short = record.doubts.iter().any(|doubt| doubt.kind() == DoubtKind::ShortForCpu);
        assert!(record.target.cpu.is_some() || is_short, "{:?}", record.doubts);
        assert!(record.doubts.iter().any(|doubt| doubt.kind() == DoubtKind::Emulated), "{:?}", record.doubts);
    }
}

/// Sees that the first of these records is of a trial that failed with this sentence, and doubted nevertheless.
#[track_caller]
fn check_failed(records: &[Record], sentence: &str) {
    let error = records[0].error.as_deref().unwrap_or_default();
    assert!(error.contains(sentence), "{error}");
    assert!(records[0].doubts.iter().any(|doubt| doubt.kind() == DoubtKind::Emulated), "{:?}", records[0].doubts);
}

/// TCP and a short sweep of UDP, both directions, both Internet Protocols.
#[track_caller]
fn check_traffic(lab: &Lab, driver: &str) {
    let both_ways = |records: &[Record]| {
        for (version, direction) in [("4", "tx"), ("4", "rx"), ("6", "tx"), ("6", "rx")] {
            let is_it = |record: &&Record| record.asked["ip"] == version && record.direction.name() == direction;
            assert!(records.iter().any(|record| is_it(&record)), "IPv{version}, {direction}");
        }
    };
    let (ran, records) = lab.run("tcp", &["duration=1s", "warmup=0s", "ip=4,6"]);
    check_records(&ran, &records, 4, driver);
    both_ways(&records);
    let (ran, records) = lab.run("udp-sweep", &["duration=1s", "warmup=0s", "ip=4,6", "rate=1M,5M"]);
    check_records(&ran, &records, 8, driver);
    both_ways(&records);
}

/// What a port falls silent by, for trials of frames.
const SILENCE: [&str; 4] = [
    "net/ipv6/conf/eth0/router_solicitations",
    "net/ipv6/conf/eth0/disable_ipv6",
    "net/ipv4/neigh/eth0/mcast_solicit",
    "net/ipv4/conf/eth0/arp_ignore",
];

/// Frames both ways by what `auto` takes at this driver, then by every way of the board's end: what is sent is received or lost to the
/// frame, or a sentence says what the board lacks and what to choose instead. The port is as it was afterwards.
#[track_caller]
fn check_frames(lab: &Lab, driver: &str) {
    let settings = || SILENCE.map(|name| lab.shell(&format!("cat /proc/sys/{name}")));
    let before = settings();
    // Whatever an emulated board can: tens of thousands a second are none of it.
    let always = ["duration=1s", "warmup=100ms", "rate=200pps", "frame_size=64+1518"];
    let (ran, records) = lab.run("frames", &[&always[..], &["direction=tx,rx"]].concat());
    check_records(&ran, &records, 2, driver);
    let ways = [
        ["direction=tx", "sender_api=packet-sendmmsg,packet-bypass,af-xdp"],
        ["direction=rx", "receiver_api=packet-recvmmsg,packet-ring,xdp,af-xdp"],
    ];
    let by_name = ways.iter().flat_map(|way| lab.run("frames", &[&always[..], way].concat()).1);
    let (mut measured, records) = (0, [records, by_name.collect()].concat());
    assert_eq!(records.len(), 2 + 7);
    for record in &records {
        if let Some(error) = &record.error {
            eprintln!("{driver}: {:?}: {error}", record.trial.factors);
            assert!(error.contains("choose packet-"), "{error}");
            continue;
        }
        let flow = &record.result.as_ref().expect("a result").flow;
        let [sent, received, lost] = [flow.packets_sent, flow.packets_received, flow.packets_lost].map(Option::unwrap);
        eprintln!("{driver}: {:?}: {sent} sent, {lost} lost", record.trial.factors);
        assert!(
            sent > 0 && received > 0 && sent == received + lost,
            "{sent} {received} {lost}: {:?}",
            record.trial.factors
        );
        measured += 1;
    }
    // Sockets of packets are there on every kernel since 3.2.
    assert!(measured >= 2 + 4, "{records:#?}");
    assert_eq!(settings(), before);
}

/// The control register of the FEC's receiver (i.MX 6Dual/6Quad reference manual, 23.5 ENET memory map: ENET_RCR), as the
/// board's own kernel reads it.
const ENET_RCR: &str = "devmem 0x02188084";
/// Its bit 5: flow control enable.
const FCE: u32 = 1 << 5;

/// Whether the MAC obeys pause frames, as the board tells it while a trial is under way.
#[track_caller]
fn flow_control(lab: &Lab) -> bool {
    hexadecimal(&lab.shell(ENET_RCR)) & FCE != 0
}

/// The same as linerate shows it: from the driver's dump, and from memory.
#[track_caller]
fn shown_flow_control(lab: &Lab) -> bool {
    let shown = ["registers ENET_RCR", "registers ENET_RCR --allow-dev-mem"].map(|words| {
        let said = lab.target(&words.split(' ').collect::<Vec<_>>()).stdout;
        // The form in which the first report wrote its registers down.
        let word = said.strip_prefix("ENET_RCR:0x02188084 =").and_then(|rest| rest.split_whitespace().next());
        let is_set = hexadecimal(word.unwrap_or_else(|| panic!("no register in {said}"))) & FCE != 0;
        let field = said.lines().find(|line| line.trim_start().starts_with("FCE ")).expect("the field has a line");
        assert_eq!(field.contains("=1"), is_set, "{said}");
        is_set
    });
    assert_eq!(shown[0], shown[1], "the driver's dump and the memory");
    shown[0]
}

#[track_caller]
fn hexadecimal(word: &str) -> u32 {
    let digits = word.strip_prefix("0x").unwrap_or_else(|| panic!("{word:?} is no register"));
    u32::from_str_radix(digits, 16).unwrap()
}

#[test]
fn sabrelite() {
    let Some(lab) = Lab::up("sabrelite") else { return };
    check_traffic(&lab, "fec");
    check_frames(&lab, "fec");
    pause_reaches_the_register(&lab);
    registers_tell_what_changed_meanwhile(&lab);
    report_redone(&lab, 1);
    a_killed_controller_s_settings_are_put_back(&lab);
    a_pulled_cable_is_named_and_the_campaign_goes_on(&lab);
}

/// The cookbook's commands for a field report, on this board.
#[track_caller]
fn report_redone(lab: &Lab, report: u32) {
    let runtime = lab.bench.folder.0.display().to_string();
    let ends = Ends {
        board: lab.endpoint(),
        host: None,
        middle: None,
        duration: "1s",
        variable: Some(("XDG_RUNTIME_DIR", runtime)),
    };
    recipes(report).iter().for_each(|recipe| recipe.run(&lab.bench, &ends));
}

/// The first report's check: what is set is read back, and seen where the MAC obeys it.
#[track_caller]
fn pause_reaches_the_register(lab: &Lab) {
    assert!(flow_control(lab) && shown_flow_control(lab), "the driver negotiates pause at the start");
    let before = ["pause.rx", "pause.tx"].map(|name| lab.setting(name));
    lab.target(&["set", "pause.autoneg=off", "pause.rx=off", "pause.tx=off"]);
    assert_eq!(
        (lab.setting("pause.autoneg").as_str(), shown_flow_control(lab), flow_control(lab)),
        ("off", false, false)
    );
    lab.target(&["restore"]);
    assert_eq!((lab.setting("pause.autoneg").as_str(), shown_flow_control(lab)), ("on", true));

    // For a trial: asked, set and read back are in its record, and the original state is there afterwards. Before and
    // after its traffic the registers are read.
    let off = ["duration=1s", "direction=tx", "registers=on", "target.pause.autoneg=off", "target.pause.rx=off"];
    let (ran, records) = lab.run("tcp-stream", &[&off[..], &["target.pause.tx=off"]].concat());
    check_records(&ran, &records, 1, "fec");
    for name in ["pause.autoneg", "pause.rx", "pause.tx"] {
        let set = records[0].target.settings.iter().find(|one| one.name == name);
        let set = set.unwrap_or_else(|| panic!("{name} is not in the record"));
        assert_eq!((set.asked.as_str(), set.read_back.as_deref()), ("off", Some("off")), "{name}");
    }
    let seen = records[0].target.registers.as_ref().expect("registers=on");
    assert!(seen.compared > 20 && !seen.changed.iter().any(|change| change.name == "ENET_RCR"), "{seen:?}");
    assert_eq!((lab.setting("pause.autoneg").as_str(), flow_control(lab)), ("on", true));

    // The first report's experiment: pause frames as set here, and not as negotiated. The driver takes both ways only,
    // in one request.
    lab.target(&["set", "pause.autoneg=off", "pause.rx=on", "pause.tx=on"]);
    assert_eq!(["pause.autoneg", "pause.rx", "pause.tx"].map(|name| lab.setting(name)), ["off", "on", "on"]);
    assert!(flow_control(lab) && shown_flow_control(lab));
    lab.target(&["set", "pause.tx=off", "pause.rx=off"]);
    assert!(!flow_control(lab) && !shown_flow_control(lab));
    lab.target(&["restore"]);
    assert_eq!((lab.setting("pause.autoneg").as_str(), flow_control(lab)), ("on", true));
    assert_eq!(["pause.rx", "pause.tx"].map(|name| lab.setting(name)), before);

    // Both as factors: the levels that the driver has are measured, whichever was before, and the others refused.
    let factors = ["duration=1s", "direction=tx", "target.pause.autoneg=off"];
    let (_, records) =
        lab.run("tcp-stream", &[&factors[..], &["target.pause.rx=on,off", "target.pause.tx=on,off"]].concat());
    let mut levels: Vec<(&str, &str, bool)> = records
        .iter()
        .map(|record| {
            let level = |name: &str| record.trial.factors[name].as_str();
            (level("target.pause.rx"), level("target.pause.tx"), record.error.is_none())
        })
        .collect();
    levels.sort_unstable();
    assert_eq!(levels, [("off", "off", true), ("off", "on", false), ("on", "off", false), ("on", "on", true)]);
    assert_eq!((lab.setting("pause.autoneg").as_str(), flow_control(lab)), ("on", true));
    assert_eq!(["pause.rx", "pause.tx"].map(|name| lab.setting(name)), before);

    // The driver knows no pause one way only. The refusal is in the record, and nothing of the request is set.
    let one_way = ["duration=1s", "target.pause.autoneg=off", "target.pause.rx=on", "target.pause.tx=off"];
    let (ran, records) = lab.run("tcp-stream", &one_way);
    assert_ne!(ran.status.code(), Some(0));
    check_failed(&records, "pause.autoneg=off pause.rx=on cannot be set together on eth0: Invalid argument");
    assert_eq!((lab.setting("pause.autoneg").as_str(), flow_control(lab)), ("on", true));
}

/// What changes beneath a trial is in its record: here the board's own shell turns flow control off.
#[track_caller]
fn registers_tell_what_changed_meanwhile(lab: &Lab) {
    let before = lab.bench.records().len();
    let running = lab.begin("tcp-stream", &["direction=tx", "duration=15s", "registers=on"]);
    wait_for_traffic(lab);
    lab.shell("ethtool -A eth0 autoneg off rx off tx off");
    let ran = running.wait(CAMPAIGN);
    let records = lab.bench.records().split_off(before);
    check_records(&ran, &records, 1, "fec");
    let seen = records[0].target.registers.as_ref().expect("registers=on");
    let change = seen.changed.iter().find(|change| change.name == "ENET_RCR");
    let change = change.unwrap_or_else(|| panic!("ENET_RCR is as it was: {seen:?}"));
    let field = change.fields.iter().find(|field| field.name == "FCE").expect("the field changed");
    assert_eq!((change.address.as_str(), field.before, field.after), ("0x02188084", 1, 0), "{change:?}");
    lab.shell("ethtool -A eth0 autoneg on rx off tx off");
    lab.bench.wait_until("the ports have negotiated again", COMMAND, || flow_control(lab));
}

/// Waits until a trial's packets leave the board.
#[track_caller]
fn wait_for_traffic(lab: &Lab) {
    let sent = || lab.shell("cat /sys/class/net/eth0/statistics/tx_packets").parse::<u64>().unwrap_or(0);
    let at_first = sent();
    lab.bench.wait_until("traffic passes", CAMPAIGN, || sent() > at_first + 500);
}

#[track_caller]
fn a_killed_controller_s_settings_are_put_back(lab: &Lab) {
    let off = ["target.pause.autoneg=off", "target.pause.rx=off", "target.pause.tx=off"];
    let running = lab.begin("tcp-stream", &[&["duration=120s"], &off[..]].concat());
    lab.bench.wait_until("pause is off", CAMPAIGN, || !flow_control(lab));
    running.signal("KILL");
    running.wait(COMMAND);
    lab.bench.wait_until("pause is on again", COMMAND, || flow_control(lab));
    assert_eq!(lab.setting("pause.autoneg"), "on");
}

#[track_caller]
fn a_pulled_cable_is_named_and_the_campaign_goes_on(lab: &Lab) {
    let before = lab.bench.records().len();
    let running = lab.begin("tcp-stream", &["direction=tx", "duration=12s,10s"]);
    wait_for_traffic(lab);
    lab.cable("pulled");
    let failed = || lab.bench.records().split_off(before).iter().any(|record| record.error.is_some());
    lab.bench.wait_until("the trial fails", COMMAND, failed);
    lab.cable("plugged");
    let ran = running.wait(CAMPAIGN);
    assert!(ran.stderr.contains("eth0 has no carrier; the next trial waits for it"), "{ran:#?}");
    let records = lab.bench.records().split_off(before);
    let errors: Vec<_> = records.iter().map(|record| record.error.as_deref()).collect();
    assert_eq!(errors.len(), 2, "{ran:#?}");
    let sentence = errors.iter().flatten().next().expect("one trial failed");
    assert!(sentence.contains("eth0 has no carrier"), "{sentence}");
    assert!(errors.contains(&None), "the other was measured: {errors:?}");
}

#[test]
fn mcimx6ul_evk() {
    let Some(lab) = Lab::up("mcimx6ul-evk") else { return };
    let (ran, records) = lab.run("tcp", &["duration=1s", "warmup=0s"]);
    check_records(&ran, &records, 2, "fec");
    // The driver says how large a frame can be, and takes what fits.
    let (_, records) = lab.run("tcp-stream", &["duration=1s", "direction=tx", "target.mtu=9000"]);
    check_failed(&records, "mtu cannot be 9000 on eth0");
    assert_eq!(lab.setting("mtu"), "1500");
    // Coalescing is accepted, read back, and put back.
    let original = lab.setting("coalesce.rx_usecs");
    let (ran, records) = lab.run("tcp-stream", &["duration=1s", "direction=rx", "target.coalesce.rx_usecs=100"]);
    check_records(&ran, &records, 1, "fec");
    let set = &records[0].target.settings;
    assert!(set.iter().any(|one| one.name == "coalesce.rx_usecs" && one.read_back.is_some()), "{set:?}");
    assert_eq!(lab.setting("coalesce.rx_usecs"), original);
}

#[test]
fn zcu102() {
    let Some(lab) = Lab::up("zcu102") else { return };
    check_traffic(&lab, "macb");
    check_frames(&lab, "macb");
    report_redone(&lab, 4);
    // QEMU's GEM counts octets in the upper half of the driver's counters: noticed, not believed.
    let contradicted = |record: &Record| {
        let mut doubts = record.doubts.iter().filter(|doubt| doubt.kind() == DoubtKind::CountersContradict);
        doubts.any(|doubt| doubt.to_string().contains("rx_octets") && doubt.to_string().contains("shifted by 32 bits"))
    };
    assert!(lab.bench.records().iter().any(contradicted), "{:#?}", lab.bench.records()[0].doubts);

    // The driver rounds a ring's size up to a power of two: asked, set and read back are told apart.
    let (ran, records) = lab.run("tcp-stream", &["duration=1s", "direction=rx", "target.ring.rx=1000"]);
    check_records(&ran, &records, 1, "macb");
    let ring = records[0].target.settings.iter().find(|one| one.name == "ring.rx").expect("the ring was set");
    assert_eq!((ring.asked.as_str(), ring.read_back.as_deref()), ("1000", Some("1024")));
    assert!(records[0].doubts.iter().any(|doubt| doubt.kind() == DoubtKind::SettingNotTaken));
    assert_eq!(lab.setting("ring.rx"), "4096");

    // With a small ring QEMU's GEM stops receiving for good: a flood fills it, then nothing arrives.
    let small = ["direction=rx", "target.ring.rx=64"];
    lab.run("udp-stream", &[&["duration=3s", "rate=unlimited"], &small[..]].concat());
    let (ran, records) = lab.run("tcp-stream", &[&["duration=30s"], &small[..]].concat());
    let error = records[0].error.as_deref().unwrap_or_else(|| panic!("it did not stall: {ran:#?}"));
    assert!(error.contains("no test traffic passed for 5 s") || error.contains("cannot reach"), "{error}");
    // With the ring as it was, the board receives again.
    let (ran, records) = lab.run("tcp-stream", &["duration=1s", "direction=rx"]);
    check_records(&ran, &records, 1, "macb");
}
