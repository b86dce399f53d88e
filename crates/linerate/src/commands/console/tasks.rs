//! What follows from a choice: questions first, then a command of linerate's, a screen, or a server on or off.

use linerate_machine::end::{Direction, End};
use linerate_machine::screen::Screen;
use linerate_trial::tool::Tool;

use super::menus::{ASKED, Action, MenuId};
use super::queue::List;
use super::state::{Check, Field, NONE, State, option_key};
use linerate_trial::spec::Workload;

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Task {
    /// Another menu.
    Go(MenuId),
    /// A command of linerate's, without `linerate`, whose output is shown.
    Command(Vec<String>),
    /// A screen of a machine, again and again.
    Screen(End, Screen),
    /// A line of statistics of a machine, again and again.
    Statistics(End),
    /// A list of the team's queue, again and again.
    List(List),
    /// A server on or off.
    Serve(Tool),
    /// Remote control on or off.
    Remote,
    /// What the servers said.
    Said,
    /// It was asked for, and that is all.
    Nothing,
    /// It cannot be done: a sentence.
    Refused(String),
}

/// What has to be asked first.
pub(super) fn fields(action: Action, state: &State, remote_is_on: bool) -> Vec<Field> {
    let name = |key: &str, prompt: &str, allowed: &str| state.field(key, prompt, allowed, Check::Name);
    let plan = || name("plan", "Plan", "a built-in plan, as 'List' shows them, or a file like ./mine.toml");
    let sets =
        || state.field("sets", "Options", "options like duration=5s target.mtu=9000, or - for none", Check::Sets);
    match action {
        Action::Machine(end) => vec![state.machine_field(end)],
        Action::Interface(end) => vec![state.interface_field(end)],
        Action::Setting(name, label) => vec![state.setting_field(name, label)],
        Action::Api(workload, option) => vec![state.option_field(workload, option, "Socket API")],
        Action::Test(workload, _) => {
            ASKED.iter().map(|(option, prompt)| state.option_field(workload, option, prompt)).collect()
        }
        Action::Canned => {
            vec![state.option_field_at("canned", Workload::TcpStream, "duration", "How long each trial")]
        }
        Action::Remote if !remote_is_on => vec![
            state.field("listen", "Listen at", "an address and a port, like [::]:7777 or 10.0.0.2:7777", Check::Name),
            name("key", "File of the key", "a file of 64 hexadecimal digits; linerate agent --new-psk FILE makes one"),
        ],
        Action::ReadPlan => vec![plan()],
        Action::TryPlan | Action::StartPlan => vec![plan(), sets()],
        Action::ShowRecord | Action::Explain => {
            vec![name("record", "Record", "a record's name like 01M7Y0AB, or last, last~1, last:direction=tx")]
        }
        Action::ShowJob | Action::CancelJob => {
            vec![name("job", "Job", "a job's identifier as 'Jobs that wait or run' lists it, or its beginning")]
        }
        Action::Compare => vec![
            name("baseline", "Baseline", "a campaign like last~1, or last:target.mtu=1500"),
            name("candidate", "Candidate", "a campaign like last, or last:target.mtu=9000"),
        ],
        _ => Vec::new(),
    }
}

/// What is done once everything was answered.
pub(super) fn task(action: Action, state: &State) -> Task {
    match action {
        Action::Go(place) => Task::Go(place),
        Action::Machine(_) | Action::Interface(_) | Action::Setting(..) | Action::Api(..) => Task::Nothing,
        Action::Check => measuring(state, &["check"], Vec::new()),
        Action::Test(workload, direction) => {
            let sets = test_sets(state, workload, direction);
            measuring(state, &["run", workload.name(), "--live"], sets)
        }
        Action::Canned => measuring(state, &["run", "canned"], vec![format!("duration={}", state.value("canned"))]),
        Action::TryPlan => measuring(state, &["run", state.value("plan"), "--dry-run"], more_sets(state)),
        Action::StartPlan => measuring(state, &["run", state.value("plan"), "--live"], more_sets(state)),
        Action::Serve(tool) => Task::Serve(tool),
        Action::Remote => Task::Remote,
        Action::Said => Task::Said,
        Action::Screen(end, screen) => with_machine(state, end, |_| Task::Screen(end, screen)),
        Action::Statistics(end) => with_machine(state, end, |_| Task::Statistics(end)),
        Action::Stages(end) => with_machine(state, end, |endpoint| {
            let mut words = vec!["target", &endpoint, "watch", "--interval", "5s"];
            let interface = state.interface(end);
            words.extend(interface.iter().flat_map(|name| ["--interface", name]));
            command(&words)
        }),
        Action::ListPlans => command(&["plans"]),
        Action::ReadPlan => command(&["plans", state.value("plan")]),
        Action::ListRecords => command(&["records", "list", "--limit", "12"]),
        Action::ShowRecord => command(&["records", "show", state.value("record")]),
        Action::Explain => command(&["explain", state.value("record")]),
        Action::List(list) => Task::List(list),
        Action::ShowJob => of_queue(state, &["jobs", "show", state.value("job")]),
        Action::CancelJob => of_queue(state, &["jobs", "cancel", state.value("job")]),
        Action::DeadJobs => of_queue(state, &["jobs", "dead"]),
        Action::Compare => command(&["compare", state.value("baseline"), state.value("candidate")]),
    }
}

fn command(words: &[&str]) -> Task {
    Task::Command(words.iter().map(|word| (*word).to_owned()).collect())
}

/// A command that asks the same queue.
fn of_queue(state: &State, words: &[&str]) -> Task {
    let more = state.queue.iter().flat_map(|queue| queue.words().iter().map(String::as_str));
    command(&words.iter().copied().chain(more).collect::<Vec<_>>())
}

fn with_machine(state: &State, end: End, task: impl FnOnce(String) -> Task) -> Task {
    match state.endpoint(end) {
        Some(endpoint) => task(endpoint.to_string()),
        None => Task::Refused("Which machine is the target? Choose Target in the first menu, and name it.".to_owned()),
    }
}

/// A command between the two machines.
fn measuring(state: &State, words: &[&str], sets: Vec<String>) -> Task {
    with_machine(state, End::Target, |target| {
        let mut all: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        all.extend(["--target".to_owned(), target]);
        if let Some(host) = &state.ends.host {
            all.extend(["--host".to_owned(), host.to_string()]);
        }
        all.extend(state.further_words.iter().cloned());
        if words[0] == "run" {
            let changes = state.changes().map(|(name, value)| format!("target.{name}={value}"));
            all.extend(changes.chain(sets).flat_map(|set| ["--set".to_owned(), set]));
        }
        Task::Command(all)
    })
}

/// The options of a test that are not the usual ones.
fn test_sets(state: &State, workload: Workload, direction: Direction) -> Vec<String> {
    let asked = ASKED.iter().map(|(name, _)| *name).chain(["sender_api", "receiver_api"]);
    let given = asked.map(|name| (name, state.value(&option_key(workload, name))));
    let given = given.filter(|(_, value)| !["auto", "unlimited"].contains(value));
    let direction = format!("direction={direction}");
    std::iter::once(direction).chain(given.map(|(name, value)| format!("{name}={value}"))).collect()
}

fn more_sets(state: &State) -> Vec<String> {
    let sets = state.value("sets");
    if sets == NONE { Vec::new() } else { sets.split_whitespace().map(str::to_owned).collect() }
}
