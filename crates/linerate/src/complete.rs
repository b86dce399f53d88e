//! Completions: a shell asks this program which words could follow.
//! Knows what each kind of word can be; which option takes which is declared in `cli`.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;

use clap_complete::CompleteEnv;
use clap_complete::engine::{CompletionCandidate, PathCompleter, ValueCompleter};
use clap_complete::env::{self, EnvCompleter, Shells};
use linerate_lab::Forwards;
use linerate_lab::boards::BOARDS;
use linerate_machine::end::Party;
use linerate_machine::setting::{self, SETTINGS};
use linerate_results::figure::METRICS;
use linerate_results::findings::RULES;
use linerate_results::search::stages::Stage;
use linerate_results::select::LAST;
use linerate_results::store::Store;
use linerate_trial::options::{self, OPTIONS, REPEAT};
use linerate_trial::search::goal::Goal;
use linerate_trial::spec::Workload;
use linerate_trial::tool::Tool;

use crate::commands::selection;
use crate::default_store;

/// In the environment of a process that is to answer; its value is the shell's name.
const ASKED: &str = "LINERATE_COMPLETE";

/// More campaigns than these are no help.
const CAMPAIGNS: u32 = 30;

/// Answers a shell that asks for completions of a command line, and ends the process; returns where none asks.
pub(crate) fn answer(command: fn() -> clap::Command) {
    CompleteEnv::with_factory(command).var(ASKED).shells(SHELLS).complete();
}

/// What a shell reads once, so that it asks `program` from then on.
pub(crate) fn registration(shell: &str, program: &str) -> io::Result<String> {
    let mut text = Vec::new();
    let shell = SHELLS.completer(shell).ok_or(io::ErrorKind::Unsupported)?;
    shell.write_registration(ASKED, "linerate", "linerate", program, &mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

const SHELLS: Shells<'static> = Shells(&[&Bash, &env::Elvish, &env::Fish, &env::Powershell, &env::Zsh]);

/// Bash cuts words at `=` and `:`, which ours are full of: they are put together again, and what bash has of the word
/// already is taken off the answers.
struct Bash;

const BASH: &str = r#"
_linerate() {
    local rest="$COMP_LINE" word i
    local -a words=()
    for (( i = 0; i <= COMP_CWORD; i++ )); do
        word="${COMP_WORDS[i]}"
        if (( i == 0 )) || [[ "$rest" == [[:space:]]* ]]; then words+=("$word"); else words[-1]+="$word"; fi
        rest="${rest#"${rest%%[![:space:]]*}"}"
        rest="${rest#"$word"}"
    done
    local had="${words[-1]%"$2"}"
    mapfile -t COMPREPLY < <(ASKED=bash _CLAP_IFS=$'\n' _CLAP_COMPLETE_INDEX=$(( ${#words[@]} - 1 )) \
        PROGRAM -- "${words[@]}" 2> /dev/null)
    COMPREPLY=("${COMPREPLY[@]#"$had"}")
    if [[ "${COMPREPLY[*]}" == *[=:./~] ]]; then compopt -o nospace; fi
}
complete -o bashdefault -o nosort -F _linerate linerate
"#;

impl EnvCompleter for Bash {
    fn name(&self) -> &'static str {
        "bash"
    }

    fn is(&self, name: &str) -> bool {
        name == self.name()
    }

    fn write_registration(
        &self,
        var: &str,
        _name: &str,
        _bin: &str,
        completer: &str,
        buf: &mut dyn io::Write,
    ) -> io::Result<()> {
        let quoted = format!("'{}'", completer.replace('\'', r"'\''"));
        buf.write_all(BASH.trim_start().replace("ASKED", var).replace("PROGRAM", &quoted).as_bytes())
    }

    fn write_complete(
        &self,
        cmd: &mut clap::Command,
        args: Vec<OsString>,
        current_dir: Option<&Path>,
        buf: &mut dyn io::Write,
    ) -> io::Result<()> {
        env::Bash.write_complete(cmd, args, current_dir, buf)
    }
}

/// Those that begin as the word does.
fn that_begin<T: Into<CompletionCandidate>>(
    word: &OsStr,
    all: impl IntoIterator<Item = T>,
) -> Vec<CompletionCandidate> {
    let begun = word.to_string_lossy();
    let all = all.into_iter().map(Into::into);
    all.filter(|one| one.get_value().to_string_lossy().starts_with(&*begun)).collect()
}

fn with_help(value: impl Into<OsString>, help: &str) -> CompletionCandidate {
    CompletionCandidate::new(value).help(Some(help.to_owned().into()))
}

/// Built-in plans and plan files.
pub(crate) fn plans(word: &OsStr) -> Vec<CompletionCandidate> {
    let builtin = linerate_plan::builtins().into_iter().map(|plan| with_help(&plan.name, &plan.about));
    let mut all = that_begin(word, builtin);
    all.extend(PathCompleter::file().filter(|path| path.extension().is_some_and(|end| end == "toml")).complete(word));
    all
}

/// How machines are reached.
pub(crate) fn endpoints(word: &OsStr) -> Vec<CompletionCandidate> {
    let mut all = ["local", "ssh:", "tcp:", "exec:", "labgrid:"].map(str::to_owned).to_vec();
    let namespaces = std::fs::read_dir("/run/netns").into_iter().flatten().flatten();
    all.extend(namespaces.map(|one| format!("netns:{}", one.file_name().to_string_lossy())));
    all.extend(BOARDS.iter().map(|board| format!("board:{}", board.name)));
    all.extend(Tool::ALL.iter().map(|tool| format!("{}:", tool.name)));
    that_begin(word, all)
}

/// `NAME=VALUE` of what `--set` takes; of several values, the last.
pub(crate) fn options(word: &OsStr) -> Vec<CompletionCandidate> {
    let text = word.to_string_lossy();
    if let Some((name, _)) = text.split_once('=') {
        let words = match options::setting_of(name) {
            Some((_, setting)) => words_of(setting),
            None => options::find(name).map(|row| row.words()).unwrap_or_default(),
        };
        let begun = text.rfind([',', '=']).map_or("", |at| &text[..=at]);
        return that_begin(word, words.into_iter().map(|word| format!("{begun}{word}")));
    }
    let mut all: Vec<_> = OPTIONS.iter().map(|row| with_help(format!("{}=", row.name), &row.in_short())).collect();
    all.push(with_help(format!("{REPEAT}="), "how often to measure each configuration"));
    for end in Party::ALL {
        all.extend(SETTINGS.iter().map(|row| with_help(format!("{end}.{}", change(row.name)), row.about)));
    }
    that_begin(word, all)
}

/// Names of settings.
pub(crate) fn settings(word: &OsStr) -> Vec<CompletionCandidate> {
    that_begin(word, SETTINGS.iter().map(|row| with_help(row.name.trim_end_matches('*'), row.about)))
}

/// `NAME=VALUE` of settings.
pub(crate) fn changes(word: &OsStr) -> Vec<CompletionCandidate> {
    match word.to_string_lossy().split_once('=') {
        Some((name, _)) => that_begin(word, words_of(name).into_iter().map(|word| format!("{name}={word}"))),
        None => that_begin(word, SETTINGS.iter().map(|row| with_help(change(row.name), row.about))),
    }
}

/// The name of a setting as it is set; of a family, what its members' names begin with.
fn change(name: &str) -> String {
    name.strip_suffix('*').map_or_else(|| format!("{name}="), str::to_owned)
}

/// The words that a setting can be.
fn words_of(name: &str) -> Vec<&'static str> {
    let Ok(row) = setting::find(name) else { return Vec::new() };
    let said = row.allowed.split([' ', ',', '|']).map(str::trim);
    said.filter(|word| !word.is_empty() && setting::canonical(name, word).is_ok()).collect()
}

/// Emulated boards.
pub(crate) fn boards(word: &OsStr) -> Vec<CompletionCandidate> {
    that_begin(word, BOARDS.iter().map(|board| board.name))
}

/// Whatever `lab up` makes.
pub(crate) fn labs(word: &OsStr) -> Vec<CompletionCandidate> {
    let between = Forwards::ALL.iter().map(|forwards| forwards.name()).chain(["double"]);
    that_begin(word, BOARDS.iter().map(|board| board.name).chain(between))
}

/// Metrics by their short names.
pub(crate) fn metrics(word: &OsStr) -> Vec<CompletionCandidate> {
    that_begin(word, METRICS.iter().map(|metric| with_help(metric.short(), &metric.title)))
}

/// Findings by their names.
pub(crate) fn findings(word: &OsStr) -> Vec<CompletionCandidate> {
    that_begin(word, RULES.iter().map(|rule| rule.name))
}

/// Goals of a search that have a name.
pub(crate) fn goals(word: &OsStr) -> Vec<CompletionCandidate> {
    that_begin(word, Goal::PRESETS.map(|(name, _)| name))
}

/// Stages of a search.
pub(crate) fn stages(word: &OsStr) -> Vec<CompletionCandidate> {
    that_begin(word, Stage::ALL.map(Stage::name))
}

/// Machines of the model.
pub(crate) fn modelled(word: &OsStr) -> Vec<CompletionCandidate> {
    that_begin(word, linerate_model::machine::Machine::names())
}

/// Workloads.
pub(crate) fn workloads(word: &OsStr) -> Vec<CompletionCandidate> {
    that_begin(word, Workload::ALL.map(Workload::name))
}

/// Campaigns of the usual store, and behind a colon the levels of their factors.
pub(crate) fn selections(word: &OsStr) -> Vec<CompletionCandidate> {
    let Some(store) = default_store::records() else { return Vec::new() };
    that_begin(word, selected(&store, &word.to_string_lossy()).unwrap_or_default())
}

fn selected(store: &Store, text: &str) -> Option<Vec<CompletionCandidate>> {
    let Some((name, levels)) = text.split_once(':') else {
        let (campaigns, _) = store.campaigns(None, Some(CAMPAIGNS)).ok()?;
        let ids: Vec<&str> = campaigns.iter().map(|one| one.campaign.id.as_str()).collect();
        let digits = store.digits_of_campaigns(&ids).ok()?;
        let mut all = vec![with_help(LAST, "the newest campaign"), with_help(format!("{LAST}~1"), "the one before")];
        let plans: BTreeSet<&str> = campaigns.iter().map(|one| one.campaign.plan.as_str()).collect();
        all.extend(plans.into_iter().map(|plan| with_help(plan, "its newest campaign")));
        for one in campaigns.iter().rev().map(|one| &one.campaign) {
            let help = format!("{} of {}, {}", one.plan, one.target, one.started_at.get(..16).unwrap_or_default());
            all.push(with_help(one.id.get(..digits).unwrap_or(&one.id), &help));
        }
        return Some(all);
    };
    let wanted = selection::named(store, name).ok()?;
    let begun = text.rfind([',', ':']).map_or("", |at| &text[..=at]);
    let level = levels.rsplit(',').next().unwrap_or_default();
    let observed = store.observations(&wanted).ok()?;
    let factors = observed.iter().flat_map(|one| &one.around.asked.factors);
    let all: BTreeSet<String> = match level.split_once('=') {
        Some((name, _)) => {
            factors.filter(|(factor, _)| *factor == name).map(|(_, level)| format!("{begun}{name}={level}")).collect()
        }
        None => factors.map(|(factor, _)| format!("{begun}{factor}=")).collect(),
    };
    Some(all.into_iter().map(CompletionCandidate::new).collect())
}
