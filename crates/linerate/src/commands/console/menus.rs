//! The console's menus, item by item: what report 003's people had on a serial line, and what came since.
//! Knows what there is to choose and its present value; what follows from a choice is in `tasks.rs`.

use linerate_machine::end::{Direction, End};
use linerate_machine::screen::Screen;
use linerate_machine::setting;
use linerate_menu::groups::GROUPS;
use linerate_menu::menu::Menu;
use linerate_trial::spec::Workload;
use linerate_trial::tool::Tool;

use super::queue::List;
use super::services::States;
use super::state::{AS_IT_IS, State, option_key, setting_key};

/// Where one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MenuId {
    Main,
    /// One of the groups of settings.
    Settings(usize),
    Servers,
    Screens(End),
    Watch,
    Plans,
    Records,
    Team,
}

/// What an item does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Go(MenuId),
    Machine(End),
    Interface(End),
    Check,
    Setting(&'static str, &'static str),
    Api(Workload, &'static str),
    Test(Workload, Direction),
    Canned,
    Serve(Tool),
    Remote,
    /// What the servers said.
    Said,
    Screen(End, Screen),
    Statistics(End),
    Stages(End),
    ListPlans,
    ReadPlan,
    TryPlan,
    StartPlan,
    ListRecords,
    ShowRecord,
    Compare,
    Explain,
    List(List),
    ShowJob,
    CancelJob,
    DeadJobs,
}

/// The one-way tests of report 003.
const TESTS: [(&str, Workload, Direction); 4] = [
    ("TX TCP test", Workload::TcpStream, Direction::Tx),
    ("RX TCP test", Workload::TcpStream, Direction::Rx),
    ("TX UDP test", Workload::UdpStream, Direction::Tx),
    ("RX UDP test", Workload::UdpStream, Direction::Rx),
];

/// What a test is asked for, in this order.
pub(super) const ASKED: [(&str, &str); 5] = [
    ("duration", "How long"),
    ("message_size", "Message size, bytes"),
    ("socket_buffer", "Socket buffer, bytes"),
    ("streams", "Streams"),
    ("rate", "Offered load of each stream"),
];

/// Whose API, and how it is called.
const APIS: [(&str, Workload, &str); 4] = [
    ("Socket API, TCP, sending", Workload::TcpStream, "sender_api"),
    ("Socket API, TCP, receiving", Workload::TcpStream, "receiver_api"),
    ("Socket API, UDP, sending", Workload::UdpStream, "sender_api"),
    ("Socket API, UDP, receiving", Workload::UdpStream, "receiver_api"),
];

/// The menu of a place.
pub(super) fn menu(place: MenuId, state: &State, services: &States) -> Menu<Action> {
    match place {
        MenuId::Main => main(state, services),
        MenuId::Settings(at) => settings(at, state),
        MenuId::Servers => servers(services),
        MenuId::Screens(end) => screens(end, state),
        MenuId::Watch => watch(state),
        MenuId::Plans => plans(state),
        MenuId::Records => records(state),
        MenuId::Team => team(state),
    }
}

fn machine(end: End, state: &State) -> String {
    state.endpoint(end).map_or_else(|| "none yet".to_owned(), |endpoint| endpoint.to_string())
}

fn main(state: &State, services: &States) -> Menu<Action> {
    let mut menu = Menu::new("linerate console", "Exit");
    menu.item("Target", Some(machine(End::Target, state)), "the machine under test", Action::Machine(End::Target));
    menu.item("Host", Some(machine(End::Host, state)), "the machine at the other end", Action::Machine(End::Host));
    menu.item("Does anything come through?", None, "links, addresses, requests, from the bottom up", Action::Check);
    for (at, group) in GROUPS.iter().enumerate() {
        let set = group.rows.iter().filter(|(name, _)| state.changes().any(|(other, _)| other == *name)).count();
        let value = (set > 0).then(|| format!("{set} set for tests"));
        menu.item(group.title, value, group.help, Action::Go(MenuId::Settings(at)));
    }
    for (label, workload, direction) in TESTS {
        let last: Vec<String> = ASKED
            .iter()
            .map(|(name, _)| option_key(workload, name))
            .zip(["", "message ", "buffer ", "streams ", "load "])
            // How long is said always.
            .filter(|(key, what)| what.is_empty() || state.value(key) != State::usual(key))
            .map(|(key, what)| format!("{what}{}", state.value(&key)))
            .collect();
        let help = match direction {
            Direction::Tx => "the target sends; asks for time and sizes first",
            _ => "the target receives; asks for time and sizes first",
        };
        menu.item(label, Some(last.join(", ")), help, Action::Test(workload, direction));
    }
    menu.item(
        "Canned suite",
        Some(format!("{} each", state.value("canned"))),
        "every mode, message size and buffer: an hour; Ctrl-C ends it",
        Action::Canned,
    );
    menu.item(
        "Servers for other tools",
        Some(services.running.clone()),
        "iperf3, netperf and others measure against this machine",
        Action::Go(MenuId::Servers),
    );
    menu.item(
        "Utility screens",
        None,
        "tasks, sockets, buffers, statistics, addresses, of either machine",
        Action::Go(MenuId::Screens(End::Target)),
    );
    menu.item("Watch", None, "a line of statistics every 5 s; counters by stage", Action::Go(MenuId::Watch));
    menu.item("Plans", None, "list, read, try out, start", Action::Go(MenuId::Plans));
    menu.item("Records", None, "what was measured: list, show, compare, explain", Action::Go(MenuId::Records));
    menu.item(
        "Remote control of this machine",
        Some(services.remote.clone()),
        "let controllers with the key measure with this machine",
        Action::Remote,
    );
    if let Some(queue) = &state.queue {
        let help = "benches, jobs and workers of the queue";
        menu.item("Team", Some(queue.shown().to_owned()), help, Action::Go(MenuId::Team));
    }
    menu
}

fn team(state: &State) -> Menu<Action> {
    let mut menu = Menu::new("Team", "Back");
    menu.note(state.queue.as_ref().map_or("There is no queue.", |queue| queue.shown()));
    for list in List::ALL {
        menu.item(list.title(), None, "again every 5 s", Action::List(list));
    }
    let job = || Some(state.value("job").to_owned()).filter(|job| !job.is_empty());
    menu.item("Show a job", job(), "who wants what where, and what became of it", Action::ShowJob);
    menu.item("Take a job back", job(), "one that runs puts settings back and keeps its records", Action::CancelJob);
    menu.item("Jobs that are dead", None, "and why they never came to their end", Action::DeadJobs);
    menu
}

fn settings(at: usize, state: &State) -> Menu<Action> {
    let group = &GROUPS[at];
    let mut menu = Menu::new(format!("{} of the target, {}", group.title, machine(End::Target, state)), "Back");
    menu.note("What is set here holds in tests, and is put back after each.");
    if let Some(interface) = state.interface(End::Target) {
        menu.note(format!("Shown of {interface}; tests go where their addresses are: --target-address."));
    }
    if let Some(sentence) = &state.unread {
        menu.note(sentence);
    }
    if at == 0 {
        for (label, workload, name) in APIS {
            let value = state.value(&option_key(workload, name)).to_owned();
            menu.item(label, Some(value), "how data goes to and from the socket", Action::Api(workload, name));
        }
    }
    for (name, label) in group.rows {
        let reading = state.readings.get(*name);
        let now = match reading {
            Some(reading) => reading.value.as_deref().unwrap_or("not here"),
            None => "unknown",
        };
        let key = setting_key(name);
        let value = match state.value(&key) {
            "" | AS_IT_IS => now.to_owned(),
            wanted => format!("{now}; in tests {wanted}"),
        };
        let about = setting::find(name).map_or("", |info| info.about);
        menu.item(*label, Some(value), about, Action::Setting(name, label));
    }
    menu
}

fn servers(services: &States) -> Menu<Action> {
    let mut menu = Menu::new("Servers for other tools, on this machine", "Back");
    menu.note("Whoever reaches this machine can measure against a server that is on; each test becomes a record.");
    for row in &Tool::ALL {
        menu.item(row.name, services.tools.get(&row.tool).cloned(), row.clients, Action::Serve(row.tool));
    }
    menu.item("What they said", None, "the last lines of each", Action::Said);
    menu
}

fn screens(end: End, state: &State) -> Menu<Action> {
    let mut menu = Menu::new("Utility screens", "Back");
    menu.item(
        "Machine",
        Some(format!("{}, {}", end.name(), machine(end, state))),
        "changes to the other machine",
        Action::Go(MenuId::Screens(end.other())),
    );
    for &screen in Screen::listed() {
        menu.item(screen.title(), None, "again every 5 s, with rates", Action::Screen(end, screen));
    }
    menu.item(
        "Interface that is looked at",
        Some(state.interface(end).unwrap_or_else(|| "the first that is up".to_owned())),
        "where a machine has several; here, in Watch and in settings",
        Action::Interface(end),
    );
    menu
}

fn watch(state: &State) -> Menu<Action> {
    let mut menu = Menu::new("Watch", "Back");
    for end in End::BOTH {
        let of = Some(machine(end, state));
        menu.item(
            format!("Statistics line of the {}", end.name()),
            of.clone(),
            "errors, drops, frames, CPU load, every 5 s",
            Action::Statistics(end),
        );
        menu.item(format!("Counters of the {} by stage", end.name()), of, "what moves, a second", Action::Stages(end));
    }
    menu
}

fn plans(state: &State) -> Menu<Action> {
    let mut menu = Menu::new("Plans", "Back");
    let plan = || Some(state.value("plan").to_owned());
    menu.item("List", None, "the built-in plans", Action::ListPlans);
    menu.item("Read one", plan(), "as its file has it", Action::ReadPlan);
    menu.item(
        "Try one out",
        plan(),
        "every trial in its order and the time it takes; nothing is measured",
        Action::TryPlan,
    );
    menu.item("Start one", plan(), "asks for options first; Ctrl-C ends it in good order", Action::StartPlan);
    menu
}

fn records(state: &State) -> Menu<Action> {
    let mut menu = Menu::new("Records", "Back");
    let record = || Some(state.value("record").to_owned());
    let both = format!("{} and {}", state.value("baseline"), state.value("candidate"));
    menu.item("List", None, "the latest, a line each", Action::ListRecords);
    menu.item("Show one", record(), "in full", Action::ShowRecord);
    menu.item("Explain one", record(), "where its packets went, and what limits it", Action::Explain);
    menu.item("Compare two", Some(both), "is the difference real?", Action::Compare);
    menu
}
