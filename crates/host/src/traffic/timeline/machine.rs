//! What is seen of the machine in a slice: its CPUs, the interface, its queueing disciplines, softirqs, quotas.
//! Knows no flow. Every source is kept open, and one that takes long is read less often.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Instant;

use linerate_trial::timeline::MachineColumn;

use crate::cgroup::Throttling;
use crate::counters::qdisc::carries;
use crate::cpu::{StatFile, StatReading};
use crate::interfaces::{self, IFF_LOWER_UP, IFLA_STATS, IFLA_STATS64};
use crate::netlink::{Netlink, attributes};
use crate::sys;

/// The machine's sources; those that it has not are absent.
pub struct MachineSampler {
    cpus: Option<Paced<StatFile>>,
    link: Option<LinkSource>,
    qdiscs: Option<Paced<QdiscSource>>,
    softnet: Option<Paced<Softnet>>,
    throttling: Option<Paced<Throttling>>,
    last: MachineReading,
}

/// What the sources said last.
#[derive(Clone, Default)]
pub struct MachineReading {
    cpus: Option<StatReading>,
    /// The reading of the CPUs before that one, and how many looks ago it was.
    cpus_before: Option<(StatReading, u32)>,
    /// Looks since the CPUs were read.
    stale: u32,
    link: Option<LinkReading>,
    qdiscs: Option<QdiscReading>,
    time_squeeze: Option<u64>,
    throttled_us: Option<u64>,
}

/// A source that is read every so many looks, so that it takes little of a CPU.
struct Paced<S> {
    source: S,
    quickest_ns: u64,
    reads: u32,
    skip: u32,
}

/// Lateness that is told.
const LEAST_LATE_US: u64 = 1000;

/// The part of a CPU's time that a source may take.
const MOST_COST: u64 = 500;
/// The first readings are no measure: nothing is in any cache.
const FIRST: u32 = 4;

impl<S> Paced<S> {
    fn new(source: S) -> Paced<S> {
        Paced { source, quickest_ns: u64::MAX, reads: 0, skip: 0 }
    }

    /// What `read` makes of the source; `None` where it is not its turn.
    fn read<T>(&mut self, period_ns: u64, read: impl FnOnce(&mut S) -> Option<T>) -> Option<Option<T>> {
        if let Some(skip) = self.skip.checked_sub(1) {
            self.skip = skip;
            return None;
        }
        let began = Instant::now();
        let value = read(&mut self.source);
        // The quickest time is the source's own; others were waits for a CPU.
        self.quickest_ns = self.quickest_ns.min(began.elapsed().as_nanos() as u64);
        self.reads += 1;
        if self.reads > FIRST {
            self.skip = (self.quickest_ns.saturating_mul(MOST_COST) / period_ns.max(1)).min(40) as u32;
        }
        Some(value)
    }
}

impl MachineSampler {
    /// Opens what there is. `is_soaked`: threads of ours fill the idle time, so that /proc/stat says nothing.
    pub fn open(interface: Option<&str>, is_soaked: bool) -> MachineSampler {
        let index = interface.and_then(|interface| sys::netlink::interface_index(interface).ok());
        MachineSampler {
            cpus: StatFile::open().ok().filter(|_| !is_soaked).map(Paced::new),
            link: index.and_then(LinkSource::open),
            qdiscs: index.and_then(QdiscSource::open).map(Paced::new),
            softnet: Softnet::open().map(Paced::new),
            throttling: Throttling::open().map(Paced::new),
            last: MachineReading::default(),
        }
    }

    /// Reads what is due; the next time will be after `period_ns`. `is_last`: there will be none of which the CPUs could
    /// be read.
    pub fn read(&mut self, period_ns: u64, is_last: bool) -> MachineReading {
        let last = &mut self.last;
        last.stale += 1;
        if is_last {
            self.cpus.iter_mut().for_each(|cpus| cpus.skip = 0);
        }
        if let Some(cpus) = self.cpus.as_mut().and_then(|cpus| cpus.read(period_ns, |file| file.read().ok())) {
            last.cpus_before = last.cpus.take().map(|before| (before, last.stale));
            (last.cpus, last.stale) = (cpus, 0);
        }
        // Always: it tells of the carrier, too.
        last.link = self.link.as_mut().and_then(LinkSource::read);
        update(&mut last.qdiscs, &mut self.qdiscs, period_ns, QdiscSource::read);
        update(&mut last.time_squeeze, &mut self.softnet, period_ns, Softnet::time_squeeze);
        update(&mut last.throttled_us, &mut self.throttling, period_ns, |groups| Some(groups.read_us()));
        last.clone()
    }
}

fn update<S, T>(
    last: &mut Option<T>,
    source: &mut Option<Paced<S>>,
    period_ns: u64,
    read: impl FnOnce(&mut S) -> Option<T>,
) {
    if let Some(now) = source.as_mut().and_then(|source| source.read(period_ns, read)) {
        *last = now;
    }
}

/// What a look saw, against the one before.
pub struct MachineSample {
    columns: Vec<(MachineColumn, Option<u64>)>,
    /// The CPUs' columns, where they were read now, and how many slices they are of.
    pub cpus: Option<([(MachineColumn, u64); 3], u32)>,
    knows_cpus: bool,
    /// What tells of events.
    pub signs: EventSources,
}

/// What tells of events.
#[derive(Clone, Copy, Debug, Default)]
pub struct EventSources {
    /// The interface; `None` where it cannot be asked, or is gone.
    pub link: Option<LinkState>,
    /// Time in which a quota was used up, µs.
    pub throttled_us: u64,
    /// Share of the machine that a hypervisor took, per mille.
    pub steal: u64,
    /// How busy the busiest CPU was, per mille, where that is known.
    pub busiest: Option<u64>,
}

/// How the interface stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkState {
    /// Set up by its administrator.
    pub is_up: bool,
    /// There is somebody alive at the other end of its cable.
    pub has_carrier: bool,
    /// How often that changed.
    pub changes: Option<u64>,
}

impl MachineReading {
    /// What changed since `before`.
    pub fn since(&self, before: &MachineReading) -> MachineSample {
        let cpus = (self.stale == 0)
            .then(|| self.cpus.as_ref().zip(self.cpus_before.as_ref()))
            .flatten()
            .map(|(now, (before, looks))| (of_cpus(&now.since(before)), *looks));
        let grew = |now: Option<u64>, before: Option<u64>| Some(now?.saturating_sub(before?));
        let mut columns = Vec::with_capacity(16);
        let counts = |reading: &MachineReading| reading.link.as_ref().map(|link| link.counts);
        for (at, column) in LinkReading::COLUMNS.iter().enumerate() {
            let of = |reading| counts(reading).and_then(|counts| counts[at]);
            let grew = match self.link.as_ref().is_some_and(|link| link.is_narrow) {
                true => {
                    of(self).zip(of(before)).map(|(now, before)| u64::from((now as u32).wrapping_sub(before as u32)))
                }
                false => grew(of(self), of(before)),
            };
            columns.push((*column, grew));
        }
        let changes = |reading: &MachineReading| reading.link.as_ref().and_then(|link| link.state.changes);
        columns.push((MachineColumn::CarrierChanges, grew(changes(self), changes(before))));
        let of_qdiscs =
            |of: fn(&QdiscReading) -> u64| grew(self.qdiscs.as_ref().map(of), before.qdiscs.as_ref().map(of));
        columns.push((MachineColumn::Backlog, self.qdiscs.as_ref().map(|qdiscs| qdiscs.backlog)));
        columns.push((MachineColumn::QdiscDropped, of_qdiscs(|qdiscs| qdiscs.dropped)));
        columns.push((MachineColumn::QdiscOverlimits, of_qdiscs(|qdiscs| qdiscs.overlimits)));
        // The kernel prints 32 bits of each CPU's, and so many are known of the sum.
        let squeezed = self.time_squeeze.zip(before.time_squeeze);
        let squeezed = squeezed.map(|(now, before)| u64::from((now as u32).wrapping_sub(before as u32)));
        columns.push((MachineColumn::TimeSqueeze, squeezed));
        let throttled_us = grew(self.throttled_us, before.throttled_us);
        columns.push((MachineColumn::ThrottledUs, throttled_us));
        let share = |column: usize| cpus.as_ref().map(|(cpus, _)| cpus[column].1);
        MachineSample {
            columns,
            knows_cpus: self.cpus.is_some(),
            signs: EventSources {
                link: self.link.as_ref().map(|link| link.state),
                throttled_us: throttled_us.unwrap_or(0),
                steal: share(2).unwrap_or(0),
                busiest: share(0),
            },
            cpus,
        }
    }
}

impl MachineSample {
    /// The columns of a slice. Of CPUs that were not read they are 0 until they are.
    pub fn columns(&self, late_ns: u64) -> Vec<(MachineColumn, Option<u64>)> {
        let mut columns = self.columns.clone();
        for column in [MachineColumn::BusiestCpu, MachineColumn::BusiestSoftirq, MachineColumn::Steal] {
            columns.push((column, self.knows_cpus.then_some(0)));
        }
        // Every thread wakes some tens of microseconds late; that says nothing, and would be written out for each slice.
        columns.push((MachineColumn::LateUs, Some(late_ns / 1000).map(|us| if us < LEAST_LATE_US { 0 } else { us })));
        columns
    }
}

fn of_cpus(growth: &StatReading) -> [(MachineColumn, u64); 3] {
    let per_mille = |share: f64| (share * 1000.0).round() as u64;
    let shares = growth.shares();
    let most = |of: fn(&linerate_machine::cpu::CpuShares) -> f64| shares.values().map(of).fold(0.0, f64::max);
    let steal = growth.machine().shares().map_or(0.0, |machine| machine.steal);
    [
        (MachineColumn::BusiestCpu, per_mille(most(|cpu| cpu.busy))),
        (MachineColumn::BusiestSoftirq, per_mille(most(|cpu| cpu.softirq))),
        (MachineColumn::Steal, per_mille(steal)),
    ]
}

/// The interface, asked over a socket of its own.
struct LinkSource {
    netlink: Netlink,
    request: Vec<u8>,
}

#[derive(Clone)]
struct LinkReading {
    state: LinkState,
    /// In the order of [`LinkReading::COLUMNS`].
    counts: [Option<u64>; 6],
    /// They have 32 bits.
    is_narrow: bool,
}

// linux/if_link.h.
const IFLA_CARRIER: u16 = 33;
const IFLA_CARRIER_CHANGES: u16 = 35;

impl LinkReading {
    const COLUMNS: [MachineColumn; 6] = [
        MachineColumn::RxPackets,
        MachineColumn::TxPackets,
        MachineColumn::RxOctets,
        MachineColumn::TxOctets,
        MachineColumn::RxDropped,
        MachineColumn::TxDropped,
    ];

    /// struct ifinfomsg and attributes.
    fn parse(reply: &[u8]) -> Option<LinkReading> {
        let flags = u32::from_ne_bytes(*reply.get(8..)?.first_chunk()?);
        let is_up = flags & libc::IFF_UP as u32 != 0;
        let mut state = LinkState { is_up, has_carrier: flags & IFF_LOWER_UP != 0, changes: None };
        let (mut counts, mut is_narrow) = ([None; 6], true);
        for (kind, content) in attributes(reply.get(16..)?) {
            match kind {
                IFLA_CARRIER => state.has_carrier = content.first() == Some(&1),
                IFLA_CARRIER_CHANGES => {
                    state.changes = content.first_chunk().map(|four| u64::from(u32::from_ne_bytes(*four)));
                }
                IFLA_STATS64 => (counts, is_narrow) = (LinkReading::counts(content, 8), false),
                IFLA_STATS if is_narrow => counts = LinkReading::counts(content, 4),
                _ => {}
            }
        }
        state.has_carrier &= is_up;
        Some(LinkReading { state, counts, is_narrow })
    }

    /// The fields of struct rtnl_link_stats64, or the same in 32 bits: packets, octets, errors, dropped of both ways; the
    /// sixteenth is what the device missed (rx_missed_errors).
    fn counts(octets: &[u8], width: usize) -> [Option<u64>; 6] {
        let field = |at: usize| {
            let octets = octets.get(at * width..(at + 1) * width)?;
            match width {
                8 => Some(u64::from_ne_bytes(octets.try_into().ok()?)),
                _ => Some(u64::from(u32::from_ne_bytes(octets.try_into().ok()?))),
            }
        };
        let sum =
            |fields: &[usize]| fields.iter().map(|at| field(*at)).try_fold(0u64, |sum, one| sum.checked_add(one?));
        [field(0), field(1), field(2), field(3), sum(&[4, 6, 15]), sum(&[5, 7])]
    }
}

impl LinkSource {
    fn open(index: u32) -> Option<LinkSource> {
        // struct ifinfomsg: family, padding, type; index; flags; change.
        let request = [0, index, 0, 0].iter().flat_map(|word: &u32| word.to_ne_bytes()).collect();
        Some(LinkSource { netlink: Netlink::route().ok()?, request })
    }

    fn read(&mut self) -> Option<LinkReading> {
        let mut reading = None;
        let asked = self.netlink.request(libc::RTM_GETLINK, 0, &self.request, |reply| {
            reading = LinkReading::parse(reply);
        });
        asked.ok().and(reading)
    }
}

/// The queueing disciplines of the interface and of those that it stands on.
struct QdiscSource {
    netlink: Netlink,
    request: Vec<u8>,
    indices: Vec<u32>,
}

#[derive(Clone, Default)]
struct QdiscReading {
    backlog: u64,
    dropped: u64,
    overlimits: u64,
}

impl QdiscSource {
    fn open(index: u32) -> Option<QdiscSource> {
        let links = interfaces::links().ok()?;
        let own = links.iter().find(|link| link.index == index)?;
        let carriers = links.iter().filter(|link| carries(&links, own, link));
        let indices = carriers.map(|link| link.index).collect();
        Some(QdiscSource { netlink: Netlink::route().ok()?, request: crate::qdiscs::message(index, 0, 0), indices })
    }

    fn read(&mut self) -> Option<QdiscReading> {
        let mut sum = QdiscReading::default();
        let indices = &self.indices;
        let asked = self.netlink.request(libc::RTM_GETQDISC, libc::NLM_F_DUMP as u16, &self.request, |reply| {
            add_qdisc(&mut sum, indices, reply);
        });
        asked.ok().map(|()| sum)
    }
}

/// Adds a discipline: struct tcmsg (family, index, handle, parent, info) and attributes. What waits in a discipline
/// below another, or is dropped there, the one above counts too (net/sched/sch_api.c, qdisc_tree_reduce_backlog).
fn add_qdisc(sum: &mut QdiscReading, indices: &[u32], reply: &[u8]) {
    // linux/rtnetlink.h, linux/gen_stats.h.
    const TCA_STATS2: u16 = 7;
    const TCA_STATS_QUEUE: u16 = 3;
    let word = |octets: &[u8], at: usize| octets.get(at..)?.first_chunk().map(|word| u32::from_ne_bytes(*word));
    let (Some(index), Some(parent)) = (word(reply, 4), word(reply, 12)) else { return };
    if !indices.contains(&index) {
        return;
    }
    let Some((_, statistics)) = attributes(reply.get(20..).unwrap_or_default()).find(|(kind, _)| *kind == TCA_STATS2)
    else {
        return;
    };
    // struct gnet_stats_queue: length, backlog, drops, requeues, overlimits.
    let Some((_, queue)) = attributes(statistics).find(|(kind, _)| *kind == TCA_STATS_QUEUE) else { return };
    let field = |at: usize| word(queue, 4 * at).map_or(0, u64::from);
    if parent == crate::qdiscs::TC_H_ROOT {
        sum.backlog += field(1);
        sum.dropped += field(2);
    }
    sum.overlimits += field(4);
}

/// /proc/net/softnet_stat, a line of hexadecimal figures a CPU.
struct Softnet {
    file: File,
    buffer: Vec<u8>,
}

impl Softnet {
    fn open() -> Option<Softnet> {
        // A line has up to 135 octets.
        let file = File::open("/proc/net/softnet_stat").ok()?;
        Some(Softnet { file, buffer: vec![0; 4096] })
    }

    /// The third figure, all CPUs together.
    fn time_squeeze(&mut self) -> Option<u64> {
        let mut len = 0;
        loop {
            let read = self.file.read_at(&mut self.buffer[len..], len as u64).ok()?;
            len += read;
            if read == 0 {
                break;
            }
            if len == self.buffer.len() {
                self.buffer.resize(2 * len, 0);
            }
        }
        let text = std::str::from_utf8(&self.buffer[..len]).ok()?;
        let figure = |line: &str| u64::from_str_radix(line.split_ascii_whitespace().nth(2)?, 16).ok();
        text.lines().map(figure).try_fold(0u64, |sum, one| sum.checked_add(one?)).filter(|_| len > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_seen() {
        let mut sight = MachineSampler::open(Some("lo"), false);
        let before = sight.read(50_000_000, false);
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        for _ in 0..10 {
            socket.send_to(&[0; 100], socket.local_addr().unwrap()).unwrap();
        }
        let look = sight.read(50_000_000, false).since(&before);
        let columns = look.columns(3_000_000);
        let get = |wanted| columns.iter().find(|(column, _)| *column == wanted).unwrap().1;
        assert!(get(MachineColumn::RxPackets) >= Some(10) && get(MachineColumn::TxOctets) >= Some(1000), "{columns:?}");
        assert_eq!((get(MachineColumn::Backlog), get(MachineColumn::LateUs)), (Some(0), Some(3_000)));
        let every = MachineColumn::ALL.iter().all(|column| columns.iter().any(|(one, _)| one == column));
        assert!(every && columns.len() == MachineColumn::ALL.len());
        assert!(look.signs.link.unwrap().is_up);
    }

    #[test]
    fn what_is_not_there_is_absent() {
        let mut sight = MachineSampler::open(Some("no-such-one"), true);
        let before = sight.read(1, false);
        let look = sight.read(1, false).since(&before);
        for column in [MachineColumn::RxPackets, MachineColumn::Backlog, MachineColumn::BusiestCpu] {
            assert!(look.columns(0).contains(&(column, None)), "{column}");
        }
        assert_eq!((look.signs.link, look.cpus.is_none()), (None, true));
    }

    #[test]
    fn an_old_kernel_s_narrow_counts_wrap() {
        let reading = |packets: u32| {
            let mut reply = vec![0; 16];
            reply[8] = 1;
            let mut octets = vec![0; 92];
            octets[..4].copy_from_slice(&packets.to_ne_bytes());
            crate::netlink::push_attribute(&mut reply, IFLA_STATS, &octets);
            MachineReading { link: LinkReading::parse(&reply), ..MachineReading::default() }
        };
        let look = reading(5).since(&reading(u32::MAX - 4));
        assert!(look.columns(0).contains(&(MachineColumn::RxPackets, Some(10))));
        for cut in 0..40 {
            let _ = LinkReading::parse(&vec![0xff; cut]);
        }
    }

    #[test]
    fn a_source_that_takes_long_is_read_less_often() {
        let mut paced = Paced::new(());
        let mut reads = 0;
        for _ in 0..100 {
            paced.read(50_000_000, |()| {
                reads += 1;
                std::thread::sleep(std::time::Duration::from_micros(150));
                Some(())
            });
        }
        assert!((15..=60).contains(&reads), "{reads}");
    }
}
