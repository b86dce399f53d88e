//! The full screen at the sizes that it has to hold, and what keys do there.

use std::time::{Duration, Instant};

use linerate_control::Endpoint;
use linerate_machine::end::PerEnd;
use linerate_machine::screen::{Kind as ColumnKind, Screen, View};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyModifiers};

use super::super::draw::draw;
use super::*;

fn app(columns: u16, rows: u16) -> App {
    let ends = PerEnd { target: Some(Endpoint::Netns("b".to_owned())), host: Some(Endpoint::Netns("a".to_owned())) };
    let states = States { running: "off".to_owned(), remote: "off".to_owned(), ..States::default() };
    let mut state = State::default();
    state.ends = ends;
    App::new(state, states, columns, rows)
}

/// What stands on the screen, without what is blank at the end of a line.
fn drawn(app: &App) -> String {
    let mut terminal = Terminal::new(TestBackend::new(app.columns, app.rows)).unwrap();
    terminal.draw(|frame| draw(app, frame)).unwrap();
    let buffer = terminal.backend().buffer();
    let row = |y| (0..app.columns).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
    (0..app.rows).map(row).collect::<Vec<_>>().join("\n")
}

fn key(app: &mut App, code: KeyCode) -> Vec<Effect> {
    app.handle(Event::Key(code, KeyModifiers::NONE))
}

fn keys(app: &mut App, text: &str) -> Vec<Effect> {
    text.chars().flat_map(|c| key(app, if c == '\n' { KeyCode::Enter } else { KeyCode::Char(c) })).collect()
}

#[test]
fn the_first_menu_is_whole_in_80_by_24() {
    insta::assert_snapshot!(drawn(&app(80, 24)));
}

#[test]
fn in_60_by_20_every_item_can_be_seen() {
    let mut app = app(60, 20);
    let (menu, _) = app.menu();
    let mut seen = String::new();
    for _ in 0..=menu.shown.items.len() {
        seen += &drawn(&app);
        key(&mut app, KeyCode::Down);
    }
    for item in &menu.shown.items {
        assert!(seen.contains(&item.label), "{}", item.label);
    }
    assert!(seen.contains("0  Exit"));
    insta::assert_snapshot!(drawn(&app));
}

#[test]
fn menus_of_settings_fit_and_show_what_is_set() {
    let mut app = app(80, 24);
    let readings = vec![Reading { name: "mtu".to_owned(), value: Some("1500".to_owned()), error: None }];
    assert_eq!(keys(&mut app, "4\n"), [Effect::ReadSettings(0)]);
    app.handle(Event::Settings(Ok(readings)));
    keys(&mut app, "5\n9000\n");
    insta::assert_snapshot!(drawn(&app));
    keys(&mut app, "5\n");
    insta::assert_snapshot!(drawn(&app));
}

#[test]
fn a_test_asks_and_becomes_a_command() {
    let mut app = app(80, 24);
    assert_eq!(keys(&mut app, "9\n2s\nmany\n"), []);
    assert!(app.asking.as_ref().unwrap().complaint.is_some());
    let effects = keys(&mut app, "1470\n\n\n100M\n");
    let words = "run udp-stream --live --target netns:b --host netns:a --set direction=tx --set duration=2s \
                 --set message_size=1470 --set streams=1 --set rate=100M";
    let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
    assert_eq!(effects, [Effect::Command(words.clone())]);
    app.begin(&words, "linerate run udp-stream …");
    app.handle(Event::Output("a line".to_owned()));
    // It is not left while it runs; Ctrl-C is for it.
    key(&mut app, KeyCode::Esc);
    assert!(app.page.is_some() && drawn(&app).contains("It still runs"));
    let ctrl_c = Event::Key(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(app.handle(ctrl_c), [Effect::EndCommand]);
    key(&mut app, KeyCode::Enter);
    app.handle(Event::Ended(Some("Ended by Ctrl-C.".to_owned())));
    assert!(drawn(&app).contains("a line") && drawn(&app).contains("Ended by Ctrl-C."));
    assert!(!drawn(&app).contains("It still runs"), "{}", drawn(&app));
    key(&mut app, KeyCode::Esc);
    // What was asked for last stands in brackets.
    assert!(drawn(&app).contains("[2s, message 1470, load 100M]"), "{}", drawn(&app));
    keys(&mut app, "9\n1\nauto\n\n2\nunlimited\n");
    app.handle(Event::Ended(None));
    key(&mut app, KeyCode::Esc);
    assert!(drawn(&app).contains("[1, streams 2]"), "{}", drawn(&app));
    let ctrl_c = Event::Key(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(app.handle(ctrl_c), [Effect::Quit]);
}

#[test]
fn a_list_is_read_from_its_beginning_and_what_is_measured_at_its_end() {
    let of_campaign =
        CampaignEvent::Booting { end: End::Target, level: "6.12".to_owned(), elapsed_s: 1.0, at_most_s: 9.0 };
    let last = 61 + 2 - 20;
    for (chosen, event, top) in [("15\n1\n", None, 0), ("15\n1\n", Some(of_campaign), last), ("3\n", None, last)] {
        let mut app = app(80, 24);
        let effects = keys(&mut app, chosen);
        let [Effect::Command(words)] = &effects[..] else { panic!("{effects:?}") };
        app.begin(words, "linerate …");
        event.into_iter().for_each(|event| drop(app.handle(Event::Campaign(Box::new(event)))));
        (0..61).for_each(|at| drop(app.handle(Event::Output(format!("line {at}")))));
        app.handle(Event::Ended(None));
        assert_eq!(app.page.as_ref().unwrap().top, top);
    }
}

#[test]
fn a_screen_is_looked_at_again() {
    let mut app = app(60, 20);
    let of = |count: u64| View {
        rows: (0..40).map(|at| vec![format!("Tcp Counter{at}").into(), (count + at).into()]).collect(),
        ..View::new(&[("counter", ColumnKind::Text), ("value", ColumnKind::Counter)])
    };
    let effects = keys(&mut app, "13\n8\n");
    assert_eq!(effects, [Effect::Look(End::Target, Screen::Tcp)]);
    let now = Instant::now();
    app.handle(Event::Viewed(Ok(of(100)), now));
    let due = app.due().unwrap();
    assert_eq!(app.handle(Event::Tick(due)), [Effect::Look(End::Target, Screen::Tcp)]);
    assert_eq!(app.due(), None, "one look at a time");
    app.handle(Event::Viewed(Ok(of(150)), now + Duration::from_secs(5)));
    insta::assert_snapshot!(drawn(&app));
    key(&mut app, KeyCode::End);
    assert!(drawn(&app).contains("Tcp Counter39"));
    app.handle(Event::Viewed(Err("the machine is gone".to_owned()), now));
    assert!(drawn(&app).contains("the machine is gone.") && app.due().is_none());
    key(&mut app, KeyCode::Esc);
    assert!(drawn(&app).contains("Utility screens"));
}

#[test]
fn lines_of_statistics_follow_each_other() {
    use linerate_machine::screen::row;
    let mut app = app(80, 24);
    let of = |frames: u64| View {
        rows: vec![vec![row::RX_FRAMES.into(), frames.into()]],
        ..View::new(&[("statistic", ColumnKind::Text), ("value", ColumnKind::Counter)])
    };
    assert_eq!(keys(&mut app, "14\n1\n"), [Effect::Look(End::Target, Screen::Statistics)]);
    let begin = Instant::now();
    for at in 0..60 {
        app.handle(Event::Viewed(Ok(of(at * 500)), begin + Duration::from_secs(at * 5)));
    }
    let text = drawn(&app);
    assert!(text.contains("RX 100/s") && text.contains("of 60"), "{text}");
}

#[test]
fn a_number_goes_to_its_item() {
    let mut app = app(80, 24);
    for (typed, want) in [("1", 0), ("7", 16), ("0", 17), ("3", 2), ("9", 8)] {
        keys(&mut app, typed);
        assert_eq!(app.menu().1, want, "{typed}");
    }
    key(&mut app, KeyCode::Home);
    assert_eq!(key(&mut app, KeyCode::Up), []);
    assert_eq!(key(&mut app, KeyCode::Enter), [Effect::Quit]);
}

#[test]
fn no_key_and_no_size_breaks_it() {
    // Everything that can be pressed, in an order that a seed gives; what is drawn only must not panic.
    let mut random: u64 = 7;
    let mut next = || {
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        random >> 33
    };
    let codes = [
        KeyCode::Up,
        KeyCode::Down,
        KeyCode::Enter,
        KeyCode::Enter,
        KeyCode::Esc,
        KeyCode::PageDown,
        KeyCode::End,
        KeyCode::Backspace,
        KeyCode::Char('1'),
        KeyCode::Char('?'),
        KeyCode::Char('ä'),
        KeyCode::F(1),
    ];
    for (columns, rows) in [(80, 24), (60, 20), (1, 1), (20, 3), (300, 90)] {
        let mut app = app(columns, rows);
        for _ in 0..400 {
            let code = codes[next() as usize % codes.len()];
            for effect in key(&mut app, code) {
                if matches!(effect, Effect::Command(_)) {
                    app.begin(&["run".to_owned()], "linerate run");
                    app.handle(Event::Output("x".repeat(next() as usize % 200)));
                    app.handle(Event::Ended(None));
                }
            }
            drawn(&app);
        }
    }
}
