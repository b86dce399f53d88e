//! What a run found, in sentences: how much arrived, and where the rest was lost.
//! Says only what figures and counters show; a cause that no counter shows is called unaccounted.

use std::collections::BTreeSet;

use linerate_machine::end::Direction;
use linerate_path::stage::Stage;
use linerate_results::figure::Source;
use linerate_results::record::{FlowFigures, Machine, Record};
use linerate_results::total::Total;
use linerate_stats::median;
use linerate_trial::doubt::DoubtKind;
use linerate_trial::outcome::TcpSummary;
use linerate_trial::spec::Workload;

use super::apis;
use super::groups::in_groups;
use super::number::{count, figure, first_of_most, percent};

/// From this share of its time on a CPU is worth a word: there is little left to give.
const BUSY: f64 = 0.95;
/// A smaller part of what was lost is left out where its place is told.
const SOME: f64 = 0.05;

/// A few sentences, one a line: for every kind of traffic and direction what arrived, the trial that lost the most
/// and where, and which CPUs had nothing left.
pub(crate) fn summary(records: &[Record]) -> String {
    let mut sentences = told(records, |who, workload, group| match workload {
        Workload::UdpStream | Workload::Frames => numbered(who, group),
        workload => of_connections(who, workload, group),
    });
    sentences.extend(busy_cpus(records));
    let failed = records.iter().filter(|record| record.result.is_none()).count();
    if failed > 0 {
        sentences.push(format!("{failed} of {} trials failed; the table says why.", records.len()));
    }
    lines(&sentences)
}

/// The same of one record, without what its loss budget says.
pub(super) fn summary_beside_budget(record: &Record) -> String {
    let records = std::slice::from_ref(record);
    let mut sentences = told(records, |who, workload, group| match workload {
        Workload::UdpStream | Workload::Frames => Vec::new(),
        workload => of_connections(who, workload, group),
    });
    sentences.extend(busy_cpus(records));
    lines(&sentences)
}

/// What tables of these do not say: at which load the most arrived, where the most was lost, what held TCP up.
pub(crate) fn summary_beside_tables(records: &[Record]) -> String {
    lines(&told(records, |who, workload, group| match workload {
        Workload::UdpStream | Workload::Frames => sweep(who, group).into_iter().collect(),
        Workload::TcpStream => match held_up(group) {
            held if held.is_empty() => Vec::new(),
            held => vec![format!("{who}: {}.", held.join("; "))],
        },
        _ => Vec::new(),
    }))
}

/// What is told of each kind of traffic and direction, in the plan's order.
fn told(records: &[Record], of: impl Fn(&str, Workload, &[&Record]) -> Vec<String>) -> Vec<String> {
    let mut in_order: Vec<&Record> = records.iter().filter(|record| record.result.is_some()).collect();
    in_order.sort_by_key(|record| record.trial.configuration);
    let groups = in_groups(in_order, |record| (record.workload, record.direction));
    let said = |((workload, direction), group): ((Workload, Direction), Vec<&Record>)| {
        let way = if direction == Direction::Both { "both ways at once" } else { direction.name() };
        of(&format!("{workload} {way}"), workload, &group)
    };
    groups.into_iter().flat_map(said).collect()
}

fn of_connections(who: &str, workload: Workload, group: &[&Record]) -> Vec<String> {
    let said = if workload == Workload::TcpStream { stream(who, group) } else { requests(who, group) };
    said.into_iter().collect()
}

fn lines(sentences: &[String]) -> String {
    sentences.iter().map(|sentence| format!("{}\n", super::sentence(sentence))).collect()
}

fn flow(record: &Record) -> Option<&FlowFigures> {
    record.result.as_ref().map(|figures| &figures.flow)
}

/// The socket APIs, where they are not what an ordinary program uses.
fn by(record: &Record) -> String {
    apis::of(&Source::whole(record)).map(|apis| format!(" ({apis})")).unwrap_or_default()
}

/// The finite load that a trial was offered, Mbit/s.
fn offered(record: &Record) -> Option<f64> {
    Source::whole(record).offered_bps().filter(|bps| bps.is_finite()).map(|bps| bps / 1e6)
}

/// Which trial of its group: its load, and whatever else was varied.
fn at(record: &Record, group: &[&Record]) -> String {
    let mut text = match offered(record) {
        Some(mbit) => format!("at {} Mbit/s offered", figure(mbit, 4)),
        // Of a sender that asks for none and reports none, nobody knows the rate.
        None if flow(record).is_some_and(|flow| flow.achieved_load_bps.is_none()) => "at an unknown rate".to_owned(),
        None => "at an unlimited rate".to_owned(),
    };
    for (name, level) in record.trial.factors.iter().filter(|(name, _)| *name != "rate") {
        if group.iter().any(|other| other.trial.factors.get(name) != Some(level)) {
            text += &format!(", {name}={level}");
        }
    }
    text
}

/// The trials of a group by their load.
fn by_load<'a>(group: &[&'a Record]) -> Vec<&'a Record> {
    let mut by_load: Vec<(f64, &Record)> = group.iter().map(|record| (load(record), *record)).collect();
    by_load.sort_by(|a, b| a.0.total_cmp(&b.0));
    by_load.into_iter().map(|(_, record)| record).collect()
}

/// The same, and of an unlimited one more than any.
pub(super) fn load(record: &Record) -> f64 {
    offered(record).unwrap_or(f64::INFINITY)
}

/// The trials of the highest load: of its repeats a slow one says less than the others.
fn of_highest_load<'a>(group: &[&'a Record]) -> Vec<&'a Record> {
    let highest = group.iter().map(|record| load(record)).fold(0.0, f64::max);
    group.iter().copied().filter(|record| load(record) == highest).collect()
}

fn lost(record: &Record) -> Option<u64> {
    flow(record)?.packets_lost
}

/// The trials of each load and of whatever else was varied, by load.
fn configurations<'a>(group: &[&'a Record]) -> Vec<Vec<&'a Record>> {
    let groups = in_groups(by_load(group), |record| (load(record).to_bits(), &record.trial.factors));
    groups.into_iter().map(|(_, trials)| trials).collect()
}

/// A figure of a configuration's trials: of one it is that, of several the middle and from where to where they are.
struct Middle<'a> {
    /// Of which it is known.
    trials: Vec<&'a Record>,
    values: Vec<f64>,
    median: f64,
}

impl<'a> Middle<'a> {
    fn of(trials: &[&'a Record], of: impl Fn(&Record) -> Option<f64>) -> Option<Middle<'a>> {
        let known = trials.iter().filter_map(|record| Some((*record, of(record)?)));
        let (trials, values): (Vec<_>, Vec<_>) = known.unzip();
        Some(Middle { median: median(&values)?, trials, values })
    }

    fn most(&self) -> f64 {
        self.values.iter().copied().fold(0.0, f64::max)
    }

    /// What is said behind the median of several.
    fn spread(&self, write: impl Fn(f64) -> String) -> String {
        let written = |value: Option<f64>| value.map(&write).unwrap_or_default();
        let low = written(self.values.iter().copied().reduce(f64::min));
        let high = written(self.values.iter().copied().reduce(f64::max));
        match self.values.len() {
            1 => String::new(),
            trials if low == high => format!(" (each of {trials} trials)"),
            trials => format!(" (median of {trials} trials, {low} to {high})"),
        }
    }
}

/// The configuration that lost the most, by the share of the middle trial, and the trial of it that did; nothing where nobody knows.
fn most_lost<'a>(group: &[&'a Record]) -> Option<(Middle<'a>, &'a Record)> {
    let share = |record: &Record| flow(record)?.loss_ratio.filter(|_| lost(record).is_some());
    let middles = configurations(group).into_iter().filter_map(|trials| Middle::of(&trials, share));
    let most = middles.max_by(|a, b| a.median.total_cmp(&b.median).then(a.most().total_cmp(&b.most())))?;
    let worst = most.trials.iter().copied().max_by_key(|record| lost(record))?;
    Some((most, worst))
}

fn through(record: &Record) -> Option<f64> {
    flow(record)?.throughput_bps.map(|bps| bps / 1e6)
}

/// The configuration of which the most arrived, by its middle trial, Mbit/s.
fn most_arrived<'a>(group: &[&'a Record]) -> Option<Middle<'a>> {
    // By load, so that of equals the lowest load is named.
    let middles = configurations(group).into_iter().filter_map(|trials| Middle::of(&trials, through));
    let most = first_of_most(middles.map(|middle| {
        let median = middle.median;
        (middle, median)
    }));
    most.map(|(middle, _)| middle)
}

/// Mbit/s, and of several trials how far apart they are.
fn mbit(middle: &Middle<'_>) -> (String, String) {
    let write = |mbit| figure(mbit, 4);
    (write(middle.median), middle.spread(write))
}

fn best(who: &str, group: &[&Record]) -> Option<String> {
    let most = most_arrived(group)?;
    let (best, (mbits, spread)) = (*most.trials.first()?, mbit(&most));
    let mut text = format!(
        "{who}: the most that arrived was {mbits} Mbit/s{spread} of {}{}, {}",
        if best.workload == Workload::Frames { "frames with FCS" } else { "UDP payload" },
        by(best),
        at(best, group)
    );
    if let Some(last) = most_arrived(&of_highest_load(group))
        && last.median < 0.95 * most.median
    {
        let (mbits, spread) = mbit(&last);
        text += &format!("; {} it was {mbits}{spread}", at(last.trials.first()?, group));
    }
    Some(text + ".")
}

/// Where the most arrived and the most was lost of several loads; nothing of one.
fn sweep(who: &str, group: &[&Record]) -> Option<String> {
    let loads: BTreeSet<u64> = group.iter().map(|record| load(record).to_bits()).collect();
    let most = most_arrived(group).filter(|_| loads.len() > 1)?;
    let (mbits, spread) = mbit(&most);
    let mut text =
        format!("{who}: the most that arrived was {mbits} Mbit/s{spread}, {}", at(most.trials.first()?, group));
    match most_lost(group) {
        Some((loss, worst)) if loss.most() > 0.0 => {
            let share = percent(loss.median);
            text += &format!("; {} {share} % was lost{}, {}", at(worst, group), loss.spread(percent), mostly_at(worst));
        }
        // The table says it.
        Some(_) => return None,
        None => {}
    }
    Some(text + ".")
}

/// Where a trial lost its packets: the one place of nearly all, or several with the share of each.
fn mostly_at(record: &Record) -> String {
    let mut places: Vec<(Option<String>, u64)> = Vec::new();
    for line in record.loss_budget.iter().flatten() {
        let place = Some(format!("at {}", place(record, line.stage)));
        match places.iter_mut().find(|(other, _)| *other == place) {
            Some((_, packets)) => *packets = packets.saturating_add(line.packets),
            None => places.push((place, line.packets)),
        }
    }
    places.extend(record.unaccounted.and_then(|rest| Some((None, u64::try_from(rest).ok()?))));
    let all = places.iter().map(|(_, packets)| *packets).total() as f64;
    places.retain(|(_, packets)| *packets as f64 >= SOME * all && *packets > 0);
    match &places[..] {
        [] | [(None, _)] => "no counter says where".to_owned(),
        [(Some(place), _)] => place.clone(),
        several => {
            let share = |(place, packets): &(Option<String>, u64)| {
                let place = place.as_deref().unwrap_or("unaccounted");
                format!("{} % of it {place}", percent(*packets as f64 / all))
            };
            several.iter().map(share).collect::<Vec<_>>().join(", ")
        }
    }
}

fn numbered(who: &str, group: &[&Record]) -> Vec<String> {
    let mut sentences: Vec<String> = best(who, group).into_iter().collect();
    let by_load = by_load(group);
    let sent = |record| flow(record).and_then(|flow| flow.achieved_load_bps).map(|bps| bps / 1e6);
    let most = first_of_most(of_highest_load(group).into_iter().filter_map(|record| Some((record, sent(record)?))));
    if let Some((record, sent)) = most
        && offered(record).is_some_and(|asked| sent < 0.98 * asked)
    {
        sentences.push(format!("{who} {}: the sender sent only {} Mbit/s.", at(record, group), figure(sent, 4)));
    }
    match most_lost(group) {
        None => {}
        Some((loss, _)) if loss.most() == 0.0 => {
            let known: Vec<_> = group.iter().filter(|record| lost(record).is_some()).collect();
            let sent = known.iter().filter_map(|record| flow(record)?.packets_sent).total();
            let trials = if known.len() == 1 { "the trial".to_owned() } else { format!("{} trials", known.len()) };
            sentences.push(format!("{who}: none of the {} {} of {trials} was lost.", count(sent), packets(group[0])));
        }
        Some((loss, record)) => {
            // Of every trial at that load and below it: repeats of a load may differ.
            let first_loss = by_load.iter().find(|record| lost(record) != Some(0)).map_or(f64::INFINITY, |r| load(r));
            let clean = by_load.iter().map(|record| load(record)).take_while(|load| *load < first_loss).last();
            if let Some(clean) = clean {
                sentences.push(format!("{who}: nothing was lost up to {} Mbit/s offered.", figure(clean, 4)));
            }
            let several = match loss.trials.len() {
                1 => String::new(),
                _ => format!("{} % was lost{}; in the worst of them ", percent(loss.median), loss.spread(percent)),
            };
            let worst = where_lost(record, lost(record).unwrap_or(0));
            sentences.push(format!("{who} {}: {several}{worst}", at(record, group)));
        }
    }
    sentences
}

/// What its packets are called.
fn packets(record: &Record) -> &'static str {
    if record.workload == Workload::Frames { "frames" } else { "datagrams" }
}

/// How many packets a trial lost, and at which stages, as far as counters show.
fn where_lost(record: &Record, lost: u64) -> String {
    let flow = flow(record);
    let of = flow.and_then(|flow| flow.packets_sent).map_or(String::new(), |sent| format!(" of {}", count(sent)));
    let share = flow.and_then(|flow| flow.loss_ratio).map_or(String::new(), |ratio| format!(" ({} %)", percent(ratio)));
    let said = format!("{}{of} {}{share} were lost", count(lost), packets(record));
    let Some(budget) = &record.loss_budget else {
        return format!("{said}; no counter was read that says where.");
    };
    let mut places: Vec<String> = budget
        .iter()
        .filter(|line| line.packets > 0)
        .map(|line| {
            let way = if record.direction == Direction::Both { format!("{}: ", line.direction) } else { String::new() };
            format!("{} at {} ({way}{})", count(line.packets), place(record, line.stage), line.evidence())
        })
        .collect();
    let explained = budget.iter().map(|line| line.packets).total();
    match record.unaccounted {
        Some(more) if more < 0 => places.push(format!("which is {} more than were lost", count(more.unsigned_abs()))),
        Some(rest) if rest > 0 => places.push(format!("{} unaccounted", count(rest as u64))),
        _ => {}
    }
    if places.is_empty() {
        return format!("{said}; no counter says where.");
    }
    // The budget is of the whole trial, the figures of its measured part.
    let total = explained.saturating_add_signed(record.unaccounted.unwrap_or(0));
    let over = if total == lost {
        String::new()
    } else {
        format!("over the whole trial, warm-up included, {}: ", count(total))
    };
    format!("{said}: {over}{}.", places.join(", "))
}

/// A stage, and on which machine it is where the trial went one way.
fn place(record: &Record, stage: Stage) -> String {
    let target_sends = match record.direction {
        Direction::Tx => true,
        Direction::Rx => false,
        Direction::Both => return format!("the {stage}"),
    };
    match stage {
        Stage::Link | Stage::Unplaced => format!("the {stage}"),
        sent if (sent < Stage::Link) == target_sends => format!("the target's {stage}"),
        _ => format!("the host's {stage}"),
    }
}

fn stream(who: &str, group: &[&Record]) -> Option<String> {
    let of = |value: &dyn Fn(&FlowFigures) -> Option<f64>| -> Vec<f64> {
        group.iter().filter_map(|record| value(flow(record)?)).collect()
    };
    let through = of(&|flow| flow.throughput_bps.map(|bps| bps / 1e6));
    let mut used = group.iter().map(|record| by(record));
    let first = used.next().unwrap_or_default();
    let by = if used.all(|by| by == first) { first } else { String::new() };
    let mut text = format!("{who}: {} Mbit/s of TCP payload{by}", span(&through, 4)?);
    let again = of(&|flow| flow.tcp.as_ref().map(|tcp| tcp.retransmissions as f64));
    let sent = of(&|flow| flow.tcp.as_ref()?.segments_sent.map(|sent| sent as f64));
    if !again.is_empty() {
        let total: f64 = again.iter().sum();
        let were = if total == 1.0 { "segment was" } else { "segments were" };
        text += &format!("; {} {were} retransmitted", count(total as u64));
        let all: f64 = sent.iter().sum();
        if sent.len() == again.len() && all > 0.0 {
            text += &format!(" ({} %)", percent(total / all));
        }
    }
    held_up(group).iter().for_each(|held| text += &format!("; {held}"));
    Some(text + ".")
}

/// What TCP waited for, where that was a good part of the time.
fn held_up(group: &[&Record]) -> Vec<String> {
    type Limit = fn(&Record, &TcpSummary) -> Option<f64>;
    let limits: [(&str, Limit); 3] = [
        ("sending waited for the receiver's window", |_, tcp| tcp.limited_by_receive_window),
        ("sending waited for room in the send buffer", |_, tcp| tcp.limited_by_send_buffer),
        // Of one that keeps to a rate, it is that rate.
        ("TCP waited for its sender's thread", |record, tcp| {
            tcp.limited_by_application.filter(|_| offered(record).is_none())
        }),
    ];
    let told = |(words, share): (&str, Limit)| {
        let shares: Vec<f64> = group.iter().filter_map(|record| share(record, flow(record)?.tcp.as_ref()?)).collect();
        let share = median(&shares).filter(|share| *share >= 0.1)?;
        Some(format!("{words} {} % of the time", figure(share * 100.0, 2)))
    };
    limits.into_iter().filter_map(told).collect()
}

fn requests(who: &str, group: &[&Record]) -> Option<String> {
    let figures = || group.iter().filter_map(|record| record.result.as_ref());
    let rates: Vec<f64> = figures().filter_map(|figures| figures.transactions_per_s).collect();
    let mut text = format!("{who}: {} transactions/s", span(&rates, 4)?);
    for (words, name) in [("median", "p50"), ("p99", "p99")] {
        let times: Vec<f64> = figures()
            .filter_map(|figures| figures.latency.as_ref()?.percentiles.get(name))
            .map(|seconds| seconds * 1e6)
            .collect();
        if let Some(times) = span(&times, 3) {
            text += &format!(", {words} {times} µs");
        }
    }
    Some(text + ".")
}

/// `x`, or `x to y` when the values differ.
fn span(values: &[f64], digits: i32) -> Option<String> {
    let low = values.iter().copied().reduce(f64::min)?;
    let high = values.iter().copied().reduce(f64::max)?;
    let (low, high) = (figure(low, digits), figure(high, digits));
    Some(if low == high { low } else { format!("{low} to {high}") })
}

/// The trial in which a machine's CPUs, or one of them, were the busiest; silent where all had time left.
fn busy_cpus(records: &[Record]) -> Vec<String> {
    type MachineOf = fn(&Record) -> &Machine;
    // Of one machine with two names, one sentence is enough.
    let shared = !records.is_empty() && records.iter().all(|record| record.has_doubt(DoubtKind::SharedMachine));
    let machines: &[(&str, MachineOf)] = match shared {
        true => &[("machine", |r| &r.target)],
        false => &[("target", |r| &r.target), ("host", |r| &r.host)],
    };
    let mut sentences = Vec::new();
    for (name, machine) in machines {
        // Of a few clock ticks each CPU is either idle or busy.
        let known = |record| Some((record, machine(record).cpu.as_ref().filter(|cpu| !cpu.is_coarse())?));
        let cpus = records.iter().filter_map(known);
        let busiest = cpus
            .flat_map(|(record, cpu)| cpu.per_cpu.iter().enumerate().map(move |(at, one)| (record, at, one.busy, cpu)))
            .max_by(|a, b| a.2.total_cmp(&b.2));
        if let Some((record, at, busy, cpu)) = busiest.filter(|(_, _, busy, _)| *busy >= BUSY) {
            let all = match cpu.per_cpu.len() {
                1 => String::new(),
                cpus => format!(" (all {cpus} CPUs together: {} %)", percent(cpu.machine.busy).trim_end_matches(".0")),
            };
            sentences.push(format!(
                "The {name}'s CPU {at} was busy {} % of the time in {} {}{all}.",
                percent(busy).trim_end_matches(".0"),
                record.workload,
                record.direction,
            ));
        }
    }
    sentences
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::sample;

    #[test]
    fn a_sweep() {
        insta::assert_snapshot!(summary(&sample::sweep()));
    }

    #[test]
    fn one_of_everything() {
        insta::assert_snapshot!(summary(&sample::everything()));
    }

    #[test]
    fn one_slow_repeat_is_not_what_the_highest_load_gave() {
        use linerate_results::sample::udp;
        let trial = |index, mbit: u32, sent: f64| {
            let mut record = udp(index, Direction::Rx, mbit, 1000.0);
            let flow = &mut record.result.as_mut().unwrap().flow;
            (flow.achieved_load_bps, flow.throughput_bps) = (Some(sent * 1e6), Some(sent * 1e6));
            record
        };
        let said = |records: &[Record]| {
            let text = summary(records);
            (text.contains(" it was "), text.contains("the sender sent only"))
        };
        assert_eq!(said(&[trial(0, 100, 99.0), trial(1, 100, 80.0)]), (false, false));
        assert_eq!(said(&[trial(0, 50, 49.9), trial(1, 100, 30.0), trial(2, 100, 40.0)]), (true, true));
    }

    #[test]
    fn of_repeats_the_middle_is_told_and_how_far_apart_they_are() {
        use linerate_results::sample::udp;
        let trials = |through: &[(u32, f64)]| -> Vec<Record> {
            through.iter().map(|(mbit, through)| udp(0, Direction::Rx, *mbit, *through)).collect()
        };
        let check = |records: &[Record], wants: &[&str]| {
            let text = summary(records) + &summary_beside_tables(records);
            wants.iter().for_each(|want| assert!(text.contains(want), "'{want}' is missing: {text}"));
        };
        let one_of_five = trials(&[(40, 40.0), (40, 40.0), (40, 40.0), (40, 40.0), (40, 20.0)]);
        check(
            &one_of_five,
            &[
                "the most that arrived was 40.00 Mbit/s (median of 5 trials, 20.00 to 40.00) of UDP payload",
                "rx at 40.00 Mbit/s offered: 0.0 % was lost (median of 5 trials, 0.0 to 50.0); in the worst of them 3,401 of 6,802 \
                 datagrams (50.0 %) were lost",
            ],
        );
        // The most arrived in one trial, and the most was lost in another.
        let sweep = trials(&[(20, 20.0), (40, 40.0), (40, 36.0), (40, 36.0), (40, 22.0)]);
        check(
            &sweep,
            &[
                "rx: the most that arrived was 36.00 Mbit/s (median of 4 trials, 22.00 to 40.00), at 40.00 Mbit/s offered; at 40.00 \
                 Mbit/s offered 10.0 % was lost (median of 4 trials, 0.0 to 45.0), at the target's driver RX ring",
            ],
        );
        let alike = trials(&[(40, 30.0), (40, 30.0)]);
        check(
            &alike,
            &[
                "was 30.00 Mbit/s (each of 2 trials) of",
                "25.0 % was lost (each of 2 trials); in the worst of them 1,700 of",
            ],
        );
        check(&trials(&[(40, 30.0)]), &["was 30.00 Mbit/s of UDP", "rx at 40.00 Mbit/s offered: 1,700 of 6,802"]);
    }

    #[test]
    fn a_rate_that_nobody_asked_for_and_nobody_told_is_unknown() {
        let mut record = linerate_results::sample::udp(0, Direction::Rx, 100, 90.0);
        record.asked.insert("rate".to_owned(), "unlimited".to_owned());
        assert!(summary(std::slice::from_ref(&record)).contains("at an unlimited rate"));
        record.result.as_mut().unwrap().flow.achieved_load_bps = None;
        let text = summary(&[record]);
        assert!(text.contains("at an unknown rate") && !text.contains("unlimited"), "{text}");
    }

    #[test]
    fn nothing_was_lost_up_to_a_load_at_which_no_trial_lost() {
        use linerate_results::sample::udp;
        let said = |records: &[Record]| {
            let text = summary(records);
            let up_to = text.split_once("nothing was lost up to ").map(|(_, rest)| rest);
            up_to.map(|rest| rest.split_whitespace().next().unwrap().to_owned())
        };
        let clean = |mbit| udp(0, Direction::Rx, mbit, 1000.0);
        let lossy = |mbit: u32| udp(0, Direction::Rx, mbit, 0.47 * f64::from(mbit));
        assert_eq!(said(&[clean(25), clean(50), lossy(50), lossy(100)]).as_deref(), Some("25.00"));
        assert_eq!(said(&[clean(50), lossy(50)]), None);
        assert_eq!(said(&[clean(25), clean(50), clean(50), lossy(100)]).as_deref(), Some("50.00"));
        // A trial whose loss is not known is not clean.
        let mut unknown = clean(50);
        unknown.result.as_mut().unwrap().flow.packets_lost = None;
        assert_eq!(said(&[clean(25), clean(50), unknown, lossy(100)]).as_deref(), Some("25.00"));
    }

    #[test]
    fn nothing_is_given_a_cause_that_no_counter_shows() {
        let lossy = || linerate_results::sample::udp(0, Direction::Rx, 600, 400.0);
        let check = |change: &dyn Fn(&mut Record), want: &str| {
            let mut record = lossy();
            change(&mut record);
            let text = summary(&[record]);
            assert!(text.contains(want), "{text}");
        };
        check(&|_| {}, "were lost: 33,979 at the target's driver RX ring (target: ifb0 tbf drops 33979 (");
        check(&|_| {}, "on the way in)), 34 unaccounted.");
        check(&|r| r.loss_budget = None, "were lost; no counter was read that says where.");
        check(&|r| (r.loss_budget, r.unaccounted) = (Some(vec![]), Some(34_013)), "were lost: 34,013 unaccounted.");
        check(&|r| r.unaccounted = Some(-5), "on the way in)), which is 5 more");
        check(&|r| r.target.cpu.as_mut().unwrap().per_cpu[1].busy = 0.99, "The target's CPU 1 was busy 99 %");
        assert_eq!(summary(&[]), "");
    }

    #[test]
    fn a_sweep_gives_each_place_its_share_of_the_loss() {
        let said = |unaccounted: i64, change: &dyn Fn(&mut Vec<linerate_path::budget::LossLine>)| {
            let [clean, mut worst] = [(25, 1000.0), (600, 400.0)]
                .map(|(asked, mbit)| linerate_results::sample::udp(0, Direction::Rx, asked, mbit));
            worst.unaccounted = Some(unaccounted);
            change(worst.loss_budget.as_mut().unwrap());
            let text = summary_beside_tables(&[clean, worst]);
            text.split_once("was lost, ").map(|(_, place)| place.trim_end().to_owned()).unwrap()
        };
        assert_eq!(said(34, &|_| {}), "at the target's driver RX ring.");
        let several = "25.0 % of it at the target's driver RX ring, 75.0 % of it unaccounted.";
        assert_eq!(said(101_937, &|_| {}), several);
        assert_eq!(
            said(101_937, &|lines| lines.push(linerate_path::budget::LossLine { packets: 0, ..lines[0].clone() })),
            several
        );
        assert_eq!(said(34_013, &|lines| lines.clear()), "no counter says where.");
    }
}
