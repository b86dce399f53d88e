//! Addresses of every interface of the thread's network namespace.
//! Knows how a row of them looks.

use linerate_machine::screen::{Kind, View};

use crate::interfaces;

/// A row an address.
pub(super) fn read() -> View {
    let mut view =
        View::new(&[("interface", Kind::Text), ("address", Kind::Text), ("state", Kind::Text), ("link", Kind::Text)]);
    match interfaces::addresses() {
        Ok(addresses) => view.rows.extend(addresses.into_iter().map(|one| {
            let link = interfaces::carrier(&one.interface).map(|is| if is { "carrier" } else { "no carrier" });
            let state = if one.up { "up" } else { "down" };
            vec![one.interface.into(), format!("{}/{}", one.address, one.prefix_len).into(), state.into(), link.into()]
        })),
        Err(error) => view.missing.push(format!("The addresses could not be read: {}.", crate::text_of(&error))),
    }
    view
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_has_one() {
        let view = read();
        assert!(view.rows.iter().any(|row| row[1] == "127.0.0.1/8".into() && row[2] == "up".into()), "{view:?}");
    }
}
