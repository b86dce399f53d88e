//! A doubt in one short line, for the end of an answer; its whole sentence is the record's (`linerate_trial::doubt`).
//! Knows which figures a kind of doubt is about.

use std::collections::BTreeSet;

use linerate_results::figure::About;
use linerate_trial::doubt::{Doubt, DoubtKind, Doubted, mbit};

/// The most that is said of different failures.
const FAILURES: usize = 3;

/// What was noted beneath tables: one number a kind of doubt, or for what failed.
#[derive(Default)]
pub(crate) struct Notes(Vec<Note>);

struct Note {
    kind: Option<DoubtKind>,
    /// In the order in which they came, and the same to look into: ten thousand records may have one each.
    sentences: Vec<String>,
    known: BTreeSet<String>,
}

impl Notes {
    /// The number of this doubt, from 1.
    pub(super) fn doubt(&mut self, doubt: &Doubt) -> usize {
        self.of(Some(doubt.kind()), in_short(doubt))
    }

    /// The number of what failed.
    pub(super) fn failure(&mut self, error: &str) -> usize {
        self.of(None, error.to_owned())
    }

    fn of(&mut self, kind: Option<DoubtKind>, sentence: String) -> usize {
        let at = self.0.iter().position(|note| note.kind == kind).unwrap_or_else(|| {
            self.0.push(Note { kind, sentences: Vec::new(), known: BTreeSet::new() });
            self.0.len() - 1
        });
        let note = &mut self.0[at];
        if !note.known.contains(&sentence) {
            note.known.insert(sentence.clone());
            note.sentences.push(sentence);
        }
        at + 1
    }

    /// A line each.
    pub(super) fn lines(&self) -> Vec<String> {
        let line = |(number, note): (usize, &Note)| {
            let most = if note.kind.is_some() { 1 } else { FAILURES };
            let more = match note.sentences.len().saturating_sub(most) {
                0 => String::new(),
                more => format!("; {more} more like it"),
            };
            let shown: Vec<&str> = note.sentences.iter().take(most).map(String::as_str).collect();
            format!("[{number}] {}: {}{more}", note.kind.map_or("failed", DoubtKind::name), shown.join("; "))
        };
        (1..).zip(&self.0).map(line).collect()
    }
}

/// What people need to know while they read a table.
fn in_short(doubt: &Doubt) -> String {
    match &doubt.what {
        Doubted::SenderFellBehind { asked_bps, offered_bps, .. } => format!(
            "asked for {} Mbit/s, offered {} ({:+.1} %)",
            mbit(*asked_bps),
            mbit(*offered_bps),
            100.0 * (offered_bps / asked_bps - 1.0)
        ),
        Doubted::IrqTimeByTicks => "interrupt time is only sampled; try cpu_method=soak".to_owned(),
        Doubted::ShortForCpu(_) => "too few clock ticks for CPU use; measure for longer".to_owned(),
        Doubted::NoisyMachine { steal } => format!("a hypervisor took {:.1} % of the CPU time", 100.0 * steal),
        Doubted::BusyMachine { share, most, .. } => {
            format!("other programs used {:.0} % of CPU time, mostly {most}", 100.0 * share)
        }
        Doubted::CountersContradict { .. } => "counters contradict each other".to_owned(),
        Doubted::SharedMachine => "both ends share a machine: CPU use is of both".to_owned(),
        Doubted::Fragmented { fragments, .. } => format!("a datagram travels in {fragments} fragments"),
        Doubted::FragmentsLost(_) => "fragments were dropped at several stages".to_owned(),
        Doubted::Segmented(_) => "counters took large buffers for one packet each".to_owned(),
        Doubted::SocketBufferClamped { asked, given } => format!("{given} bytes where {asked} were asked for"),
        Doubted::SoakNotCalibrated { .. } => "the machine was not idle at calibration".to_owned(),
        Doubted::PartsApart { .. } => "the receiver measured another part of the stream than the sender".to_owned(),
        Doubted::EndMarkLost { .. } => "the last datagrams are judged by a time-out".to_owned(),
        Doubted::ImplausibleReport { .. } => "what the other tool told of its end cannot be".to_owned(),
        Doubted::CountersMissing { .. } => "some counters could not be read".to_owned(),
        Doubted::ProfileReduced { .. } => "a part of the profile is missing".to_owned(),
        Doubted::SettingNotTaken { setting, asked, read_back } => match read_back {
            Some(read) => format!("{setting} is {read} where {asked} was asked for"),
            None => format!("{setting}={asked} could not be read back"),
        },
        Doubted::SettingOverridden { setting, asked, read_back } => format!(
            "another program made {setting} {} in mid-trial, which was set to {asked}",
            read_back.as_deref().unwrap_or("something else")
        ),
        Doubted::BootUnchecked { level } => format!("nothing tells whether it runs {level}"),
        Doubted::Emulated => "an emulated board's figures say nothing of hardware".to_owned(),
        Doubted::LinkWentDown { .. } => "the link went down or came up in the trial".to_owned(),
        Doubted::Silence { silence } => format!("nothing arrived for {} in mid-trial", silence.words()),
        Doubted::MiddleSharesMachine { .. } => "the middle shares a machine with an end: CPU use is of both".to_owned(),
        Doubted::MiddleNotOnPath { .. } => "the middle did not see what passed: it is not on the way".to_owned(),
    }
}

/// Whether a figure of this kind is in doubt.
pub(super) fn is_doubted(kind: DoubtKind, about: About) -> bool {
    match kind {
        DoubtKind::SenderFellBehind => about == About::SentLoad,
        DoubtKind::IrqTimeByTicks
        | DoubtKind::ShortForCpu
        | DoubtKind::NoisyMachine
        | DoubtKind::BusyMachine
        | DoubtKind::SharedMachine
        | DoubtKind::SoakNotCalibrated => about.is_cpu(),
        DoubtKind::CountersContradict | DoubtKind::EndMarkLost | DoubtKind::CountersMissing | DoubtKind::Segmented => {
            about == About::Loss
        }
        // Loss is the emulator's too: a ring runs full while it finds no time.
        DoubtKind::Emulated => matches!(about, About::Rate | About::Loss) || about.is_cpu(),
        DoubtKind::Fragmented
        | DoubtKind::FragmentsLost
        | DoubtKind::LinkWentDown
        | DoubtKind::Silence
        | DoubtKind::SocketBufferClamped
        | DoubtKind::SettingNotTaken
        | DoubtKind::SettingOverridden
        | DoubtKind::BootUnchecked
        | DoubtKind::ImplausibleReport => matches!(about, About::Rate | About::Loss),
        DoubtKind::PartsApart => about == About::Rate,
        DoubtKind::MiddleNotOnPath => about == About::Loss,
        // No figure of a table is of the profile, or of the middle's CPUs.
        DoubtKind::ProfileReduced | DoubtKind::MiddleSharesMachine => false,
    }
}
