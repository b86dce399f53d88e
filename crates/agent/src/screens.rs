//! Utility screens of this machine, and the one that only an agent can tell: who measures here.
//! Knows no drawing.

use linerate_control::Lease;
use linerate_host::sys::local;
use linerate_host::{guard, interfaces, screens};
use linerate_machine::screen::{Kind, Screen, Value, View};

/// A screen, now. Where no interface is named, it is the first that is up and no loopback, or else the loopback.
pub(crate) fn read(screen: Screen, interface: Option<&str>) -> View {
    let usual = if interface.is_none() { usual_interface() } else { None };
    match screen {
        Screen::RemoteControl => remote_control(),
        _ => screens::read(screen, interface.or(usual.as_deref())),
    }
}

/// The interface that a person means who names none.
pub(crate) fn usual_interface() -> Option<String> {
    let addresses = interfaces::addresses().ok()?;
    addresses.into_iter().filter(|one| one.up).min_by_key(|one| one.loopback).map(|one| one.interface)
}

fn remote_control() -> View {
    let mut view = View::new(&[("remote control", Kind::Text), ("state", Kind::Text)]);
    let mut add = |name: String, value: Value| view.rows.push(vec![name.into(), value]);
    match Lease::holder(local::connect) {
        Ok(None) => add("measures here".to_owned(), "nobody".into()),
        Ok(Some((holder, since_s))) => {
            add("measures here".to_owned(), holder.name.into());
            add("for".to_owned(), format!("{since_s} s").into());
        }
        Err(error) => view.missing.push(format!("Who measures here cannot be seen: {error}.")),
    }
    let kept = guard::kept(None);
    add("settings changed to stay".to_owned(), kept.len().to_string().into());
    for (name, original) in kept {
        add(format!("{name}, before"), original.into());
    }
    view
}
