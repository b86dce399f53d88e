//! Settings are put back with all that changes with them, or refused: everything that others see of a network namespace
//! is the same before and after. Needs root and `ip`, `tc` and `ethtool`; says so and passes where they are missing.
//!
//! ```text
//!   namespace a                                        namespace b
//!   mac0, mac1 (macvlans), vlan5 ── link0 ── 4 queues ── link0
//! ```

use std::collections::BTreeMap;

use linerate_host::settings::{DependentSetting, SettingError, Settings};
use linerate_machine::setting::overlap;
use namespaces::{LINK, Pair, within};
use snapshot::{check_same, take};

mod namespaces;
mod snapshot;

/// The machines of the picture above. A kernel without VLANs does without.
fn pair(test: &str) -> Option<Pair> {
    let pair = Pair::make(
        test,
        "queues='numtxqueues 4 numrxqueues 4'
         for end in $A $B; do
             for no in accept_dad accept_ra; do
                 ip netns exec $end sh -c \"echo 0 > /proc/sys/net/ipv6/conf/default/$no\"
             done
             ip -n $end link set lo up
         done
         ip -n $A link add $LINK mtu 9000 $queues type veth peer name $LINK mtu 9000 $queues netns $B
         ip -n $A addr add 10.97.0.1/24 dev $LINK; ip -n $A addr add fd97::1/64 dev $LINK
         ip -n $A link set $LINK up; ip -n $B link set $LINK up
         ip -n $A link add mac0 link $LINK mtu 4000 type macvlan mode bridge
         ip -n $A link add mac1 link $LINK mtu 2000 type macvlan mode bridge
         ip -n $A link add vlan5 link $LINK mtu 8000 type vlan id 5 || echo no VLANs here
         ip -n $A link set mac0 up; ip -n $A link set mac1 up
         ip -n $A addr add 10.98.0.1/24 dev mac0; ip -n $A addr add fd98::1/64 dev mac0
         ip -n $A route add 10.99.0.0/16 via 10.97.0.2; ip -n $A route add 10.99.1.0/24 via 10.97.0.2 mtu 1400
         ip -n $A route add fd99::/32 via fd97::2; ip -n $A route add fd99:1::/48 via fd97::2 mtu 1300
         ip -n $A neigh add 10.97.0.7 lladdr 02:00:00:00:00:07 dev $LINK
         ip -n $A neigh add fd97::7 lladdr 02:00:00:00:00:07 dev $LINK
         ip netns exec $A sh -c 'cd /sys/class/net/link0/queues; echo 1 > rx-0/rps_cpus; echo 2 > rx-3/rps_cpus
             echo 64 > rx-2/rps_flow_cnt; echo 1 > tx-1/xps_cpus; echo 2 > tx-3/xps_cpus
             echo 8000 > /proc/sys/net/ipv6/conf/link0/mtu; echo 3000 > /proc/sys/net/ipv6/conf/mac0/mtu
             echo 30500 > /proc/sys/net/ipv4/neigh/link0/base_reachable_time_ms'",
    )?;
    Some(pair)
}

/// Notes what a change touches and changes it, as an agent does; puts all back in the other order.
#[derive(Default)]
struct Noted(Vec<(DependentSetting, String)>);

impl Noted {
    fn change(&mut self, name: &str, value: &str) -> Result<(), SettingError> {
        let settings = Settings::new(Some(LINK));
        let main = DependentSetting { interface: Some(LINK.to_owned()), name: name.to_owned() };
        for one in settings.dependants(name, value)?.into_iter().chain([main]) {
            if !self.0.iter().any(|(known, _)| known.name == one.name && known.interface == one.interface) {
                let original = Settings::new(one.interface.as_deref()).get(&one.name)?;
                self.0.push((one, original));
            }
        }
        settings.set(name, value)
    }

    fn put_back(self) {
        for last in [false, true] {
            for (one, original) in self.0.iter().rev() {
                let settings = Settings::new(one.interface.as_deref());
                let now = settings.get(&one.name);
                if now.as_ref() != Ok(original)
                    && let Err(error) = settings.set(&one.name, original)
                {
                    assert!(!last, "{} cannot be put back from {now:?} to {original}: {error}", one.name);
                }
            }
        }
    }
}

/// Changes settings and puts them back; everything is as it was. The error is of the change that was refused.
#[track_caller]
fn check(pair: &Pair, changes: &[(&str, &str)]) -> Vec<SettingError> {
    let before = take(pair, &pair.a);
    let refused = within(&pair.a, || {
        let mut noted = Noted::default();
        let refused = changes.iter().filter_map(|(name, value)| noted.change(name, value).err()).collect();
        noted.put_back();
        refused
    });
    check_same(pair, &pair.a, &before, &format!("{changes:?}"));
    refused
}

/// As [`check`], of changes that are made.
#[track_caller]
fn check_made(pair: &Pair, changes: &[(&str, &str)]) {
    assert_eq!(check(pair, changes), [], "{changes:?}");
}

/// As [`check`], of one that is refused with these words and changes nothing.
#[track_caller]
fn check_refused(pair: &Pair, name: &str, value: &str, contains: &[&str]) {
    let refused = check(pair, &[(name, value)]);
    let sentence = refused.first().unwrap_or_else(|| panic!("{name} = {value} was made")).to_string();
    for part in contains {
        assert!(sentence.contains(part), "{sentence}");
    }
}

#[test]
fn what_a_change_touches_is_put_back() {
    let Some(pair) = pair("dependants of settings") else { return };
    check_made(&pair, &[("mtu", "1500")]);
    check_made(&pair, &[("mtu", "2500")]);
    check_made(&pair, &[("channels.rx", "1")]);
    check_made(&pair, &[("channels.tx", "1"), ("channels.rx", "2"), ("rps.all", "0-1")]);
    check_made(&pair, &[("rps.all", "0"), ("channels.rx", "3")]);
    check_made(&pair, &[("rps.all", "0"), ("rps.1", "1")]);
    check_made(&pair, &[("xps.1", "1"), ("xps.all", "none")]);
    check_made(&pair, &[("sysctl.net.ipv4.neigh.link0.base_reachable_time", "40")]);
    check_made(&pair, &[("sysctl.net.ipv6.route.gc_min_interval", "1")]);
    check_made(&pair, &[("sysctl.net.ipv4.conf.default.rp_filter", "2"), ("sysctl.net.ipv4.conf.mac1.rp_filter", "0")]);
    check_made(&pair, &[("queue_length", "77"), ("qdisc", "pfifo"), ("mtu", "1500")]);
    check_made(&pair, &[("queue_length", "0"), ("qdisc", "pfifo limit 5")]);
    check_made(&pair, &[("sg", "off"), ("tso", "off"), ("tx_checksum", "off"), ("gso", "off")]);
    check_made(&pair, &[("tso", "off"), ("feature.tx-tcp-segmentation", "on")]);
    check_made(&pair, &[("gro", "on"), ("napi.threaded", "on")]);
}

/// Of these the kernel gives the first read what fits, and a second one nothing.
#[test]
fn a_long_list_is_put_back_whole() {
    let Some(pair) = pair("long lists") else { return };
    let lists = [
        ("ipv4/ip_local_reserved_ports", "1001,1003,1005,10001,10003,10005,20001,20003,30000-32767"),
        ("ipv4/ip_local_reserved_ports", "3000-3010,4789,5432,6443,8080,9090,10250-10259,30000-32767"),
        ("ipv6/icmp/ratemask", "0,2,4,6,8,10,12,14,16,18,20,22,24,26,28"),
    ];
    for (file, list) in lists {
        pair.must(&format!("ip netns exec $A sh -c 'echo {list} > /proc/sys/net/{file}'"));
        check_made(&pair, &[(&format!("sysctl.net.{}", file.replace('/', ".")), "77")]);
    }
}

#[test]
fn what_would_be_lost_is_refused() {
    let Some(pair) = pair("what settings would take away") else { return };
    let run = |command: &str| pair.must(&format!("ip netns exec {} sh -ec '{command}'", pair.a));
    run("echo 1 >/sys/class/net/link0/queues/tx-1/xps_rxqs");
    check_refused(&pair, "channels.tx", "1", &["write 0 to queues/tx-1/xps_rxqs of link0"]);
    run("echo 0 >/sys/class/net/link0/queues/tx-1/xps_rxqs");
    check_refused(&pair, "mtu", "1200", &["takes the address fd97::1 away from link0", "use 1280 at least"]);
    let off = "sysctl.net.ipv6.conf.link0.disable_ipv6";
    check_refused(&pair, off, "1", &["takes the address fd97::1 away"]);
    // With routes and neighbours that need no address of the subnet.
    run("ip addr del fd97::1/64 dev link0; ip -6 route flush dev link0 proto boot; ip -6 neigh flush dev link0 nud permanent
         ip route add fd99:2::/48 dev link0");
    check_refused(&pair, "mtu", "1200", &["takes the route to fd99:2::/48 away from link0"]);
    check_refused(&pair, off, "1", &["takes the route to fd99:2::/48 away"]);
    run("ip -6 route flush dev link0 proto boot; ip neigh add fe80::7 lladdr 02:00:00:00:00:07 dev link0");
    check_refused(&pair, "mtu", "1200", &["takes the neighbour fe80::7 away from link0"]);
    check_refused(&pair, off, "1", &["takes the neighbour fe80::7 away"]);
    run("ip neigh del fe80::7 dev link0; ip neigh add proxy fe80::8 dev link0");
    check_refused(&pair, off, "1", &["takes the neighbour fe80::8 away"]);
    run("ip neigh del proxy fe80::8 dev link0");
    check_made(&pair, &[(off, "1")]);
    // What stands on it loses its own.
    check_refused(&pair, "mtu", "1200", &["takes the address fd98::1 away from mac0"]);
    run("ip addr del fd98::1/64 dev mac0; ip addr add fe80::9/64 dev mac1");
    check_refused(&pair, "mtu", "1200", &["takes the address fe80::9 away from mac1"]);
    run("ip addr del fe80::9/64 dev mac1");
    // And now there is nothing that would not come back by itself, but sysctls.
    run("cd /proc/sys/net/ipv6; echo 7 > conf/link0/hop_limit; echo 9 > conf/mac0/dad_transmits; echo 1 > conf/mac1/forwarding
         echo 12 > neigh/mac1/mcast_solicit; echo 1 > conf/mac1/disable_ipv6");
    check_made(&pair, &[("mtu", "1200")]);
    check_made(&pair, &[("mtu", "1200"), ("sysctl.net.ipv6.conf.default.hop_limit", "3")]);
    check_made(&pair, &[("sysctl.net.ipv6.conf.default.hop_limit", "3"), ("mtu", "1000"), ("mtu", "1500")]);
}

/// It comes back when IPv6 does, and not with the MTU.
#[test]
fn the_address_of_the_loopback_is_kept() {
    let Some(pair) = pair("the loopback's address") else { return };
    let before = take(&pair, &pair.a);
    within(&pair.a, || {
        let settings = Settings::new(Some("lo"));
        let refused = settings.set("mtu", "1200").unwrap_err().to_string();
        assert!(refused.contains("takes the address ::1 away from lo; use 1280 at least"), "{refused}");
        for (name, values) in [("mtu", ["1280", "65536"]), ("sysctl.net.ipv6.conf.lo.disable_ipv6", ["1", "0"])] {
            values.into_iter().for_each(|value| settings.set(name, value).unwrap());
        }
    });
    check_same(&pair, &pair.a, &before, "the loopback");
}

/// A route's own MTU, unless it is locked, becomes that of its interface.
#[test]
fn mtus_of_routes_are_kept() {
    let Some(pair) = pair("MTUs of routes") else { return };
    let run = |command: &str| pair.must(&format!("ip netns exec {} sh -ec '{command}'", pair.a));
    run("ip route add fd99:3::/48 via fd97::2 mtu 4444");
    check_refused(&pair, "mtu", "1500", &["the mtu 4444 of the route to fd99:3::/48", "mtu lock 4444"]);
    check_made(&pair, &[("mtu", "7000")]);
    run("ip route replace fd99:3::/48 via fd97::2 mtu lock 4444; ip route add fd98:3::/48 via fd98::2 mtu 3500");
    check_made(&pair, &[("mtu", "5000")]);
    check_refused(&pair, "mtu", "1500", &["the mtu 3500 of the route to fd98:3::/48", "that of mac0"]);
}

/// No namespace lists what stands on its interfaces in another.
#[test]
fn what_stands_on_an_interface_in_another_namespace_is_found() {
    let Some(pair) = pair("macvlans in other namespaces") else { return };
    let third = format!("{}-third", pair.a);
    pair.must(&format!("ip netns add {third}; ip -n $A link set mac0 netns $B; ip -n $B link set mac0 netns {third}"));
    let path = format!("/run/netns/{third}");
    check_refused(&pair, "mtu", "1500", &["changes that of mac0 too", "in another network namespace", &path]);
    let made = || check_made(&pair, &[("mtu", "4500")]);
    made();
    let mtu = pair.must(&format!("ip -n {third} -o link show mac0"));
    pair.must(&format!("ip netns del {third}"));
    assert!(mtu.contains(" mtu 4000 "), "{mtu}");
    // Its namespace is gone, and it with it.
    check_made(&pair, &[("mtu", "2500")]);
}

#[test]
fn what_is_one_request_is_refused_as_one() {
    let Some(pair) = pair("requests of several settings") else { return };
    let before = take(&pair, &pair.a);
    within(&pair.a, || {
        let settings = Settings::new(Some(LINK));
        settings.set_together(&[("channels.rx", "2"), ("channels.tx", "3")]).unwrap();
        assert_eq!(
            (settings.get("channels.rx").as_deref(), settings.get("channels.tx").as_deref()),
            (Ok("2"), Ok("3"))
        );
        let error = settings.set_together(&[("channels.rx", "1"), ("channels.tx", "9")]).unwrap_err().to_string();
        assert!(error.contains("channels.tx cannot be 9 on link0: the driver takes 4 at most"), "{error}");
        // A veth has a queue each way at least.
        let error = settings.set_together(&[("channels.rx", "0"), ("channels.tx", "1")]).unwrap_err();
        assert!(matches!(error, SettingError::RefusedTogether { .. }), "{error:?}");
        let error = error.to_string();
        assert!(error.contains("channels.rx=0 channels.tx=1 cannot be set together on link0: "), "{error}");
        assert_eq!(
            (settings.get("channels.rx").as_deref(), settings.get("channels.tx").as_deref()),
            (Ok("2"), Ok("3"))
        );
        settings.set_together(&[("channels.rx", "4"), ("channels.tx", "4")]).unwrap();
    });
    let gone = |line: &String| line.contains("rps_") || line.contains("xps_");
    let left = snapshot::differences(&before, &take(&pair, &pair.a));
    assert!(left.iter().all(gone), "{left:?}");
}

/// splitmix64 (Steele, Lea and Flood 2014): a seed makes the same choices again.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % bound as u64) as usize
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }

    /// A value that a setting might take, of the kind that it has.
    fn value(&mut self, name: &str, now: &str) -> String {
        match name {
            "mtu" => return self.one(&["1500", "1400", "2500", "9000", "9500", "1280", "1200", "5000"]).to_owned(),
            "qdisc" => {
                let all =
                    ["pfifo", "bfifo limit 9K", "tbf rate 100M burst 32K limit 64K", "mq", "pfifo_fast", "default"];
                return self.one(&all).to_owned();
            }
            _ if name.starts_with("rps.") || name.starts_with("xps.") => {
                return self.one(&["0", "1", "0-1", "none"]).to_owned();
            }
            _ => {}
        }
        match now.parse::<i64>() {
            Ok(number) => {
                let near = [number + 1, number - 1, number * 2, number / 2, 0, 1, 2, 3];
                near[self.below(near.len())].max(0).to_string()
            }
            Err(_) if now == "on" => "off".to_owned(),
            Err(_) if ["off", "off (wanted)"].contains(&now) => "on".to_owned(),
            Err(_) if now.split_whitespace().all(|word| word.parse::<i64>().is_ok()) => {
                let more = |word: &str| word.parse::<i64>().map_or(0, |number| number + 1).to_string();
                now.split_whitespace().map(more).collect::<Vec<_>>().join(" ")
            }
            Err(_) => now.to_owned(),
        }
    }
}

/// Settings of the whole machine, which other tests run on.
fn is_of_machine(name: &str) -> bool {
    ["governor", "cpuidle.", "irq_affinity."].iter().any(|family| name.starts_with(family))
}

/// Any few settings of the table, with any values: all is as it was. `LINERATE_CHANGES` says how many campaigns, and
/// `LINERATE_SEED` repeats what was seen.
#[test]
fn any_settings_are_put_back_with_all_that_they_touch() {
    let Some(pair) = pair("random settings") else { return };
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let campaigns = number("LINERATE_CHANGES").unwrap_or(60);
    let seed = number("LINERATE_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    println!("LINERATE_CHANGES={campaigns} LINERATE_SEED={seed}");
    let all: BTreeMap<String, String> = within(&pair.a, || {
        let settings = Settings::new(Some(LINK));
        let names = settings.names().into_iter().filter(|name| !is_of_machine(name));
        names.map(|name| (name.clone(), settings.get(&name).unwrap())).collect()
    });
    let (sysctls, others): (Vec<&str>, Vec<&str>) =
        all.keys().map(String::as_str).partition(|name| name.starts_with("sysctl."));
    let (mut made, mut refused) = (0, 0);
    for campaign in 0..campaigns {
        let mut chance = Chance(seed.wrapping_mul(1_000_003).wrapping_add(campaign));
        let mut changes: Vec<(&str, String)> = Vec::new();
        for _ in 0..1 + chance.below(4) {
            // There are many more sysctls than other settings, and fewer that do more than they say.
            let family = if chance.below(3) == 0 { &sysctls } else { &others };
            let name = chance.one(family);
            if overlap::among(changes.iter().map(|(name, _)| *name).chain([name])).is_none() {
                let value = chance.value(name, &all[name]);
                changes.push((name, value));
            }
        }
        let changes: Vec<(&str, &str)> = changes.iter().map(|(name, value)| (*name, value.as_str())).collect();
        println!("campaign {campaign} of seed {seed}: {changes:?}");
        let errors = check(&pair, &changes).len();
        refused += errors;
        made += changes.len() - errors;
    }
    println!("{made} changes made and undone, {refused} refused");
    assert!(made > refused, "too few of them meant anything");
}
