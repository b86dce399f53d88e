//! A menu as numbered lines, for a terminal of any width.
//! Knows no terminal's commands: a screen reader reads it as it stands.
//!
//! A page is text whose every line has its end.

use std::fmt::Write;

use linerate_machine::printable::in_line;

use crate::menu::MenuView;

/// Values longer than that are told in short; a menu is no place for them.
const LONGEST: usize = 200;
/// Sentences have an end too: another machine may have said them.
const LONGEST_SENTENCE: usize = 4000;
/// An item's number, and what stands around its value.
const BESIDE: usize = 5 + 4;
/// The narrowest terminal that is written for.
pub(crate) const NARROWEST: usize = 20;

/// The menu as a page: its title, its notes, an item a line with its value in brackets, and the way out.
pub fn menu(menu: &MenuView, width: usize) -> String {
    let mut page = String::new();
    write_text(&mut page, "", &in_line(&menu.title, LONGEST), width);
    write_notes(&mut page, menu, width);
    for at in 0..=menu.items.len() {
        write_item(&mut page, menu, at, width);
    }
    page
}

/// The lines of a menu without its title, each with the number, from 0, of the item that it belongs to; the way out is behind the
/// last item.
pub fn rows(menu: &MenuView, width: usize) -> Vec<(Option<usize>, String)> {
    let lines = |item: Option<usize>, write: &dyn Fn(&mut String)| -> Vec<(Option<usize>, String)> {
        lines(write).into_iter().map(|line| (item, line)).collect()
    };
    let mut rows = lines(None, &|page| write_notes(page, menu, width));
    for at in 0..=menu.items.len() {
        rows.extend(lines(Some(at), &|page| write_item(page, menu, at, width)));
    }
    rows
}

/// What each item does, as a page.
pub fn help(menu: &MenuView, width: usize) -> String {
    let mut page = String::new();
    for (at, item) in menu.items.iter().enumerate().filter(|(_, item)| !item.help.is_empty()) {
        let colon = if item.label.ends_with('?') { "" } else { ":" };
        let text = format!("{}{colon} {}", in_line(&item.label, LONGEST), item.help);
        write_numbered(&mut page, at + 1, &text, width);
    }
    let leaves = "leaves; Enter alone shows the menu again; a question is left with a full stop.";
    write_numbered(&mut page, 0, leaves, width);
    page
}

/// A sentence as a page.
pub fn sentence(sentence: &str, width: usize) -> String {
    let mut page = String::new();
    write_text(&mut page, "", &in_line(sentence, LONGEST_SENTENCE), width);
    page
}

/// A sentence in lines, broken between words; within one that is longer than a line.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    lines(&|page| broken(page, "", text, width.max(1)))
}

fn lines(write: &dyn Fn(&mut String)) -> Vec<String> {
    let mut page = String::new();
    write(&mut page);
    page.lines().map(str::to_owned).collect()
}

fn write_notes(page: &mut String, menu: &MenuView, width: usize) {
    for note in &menu.notes {
        write_text(page, "", &in_line(note, LONGEST), width);
    }
}

/// An item, or behind the last one the way out.
fn write_item(page: &mut String, menu: &MenuView, at: usize, width: usize) {
    let Some(item) = menu.items.get(at) else { return write_numbered(page, 0, menu.way_out, width) };
    let longest = menu.items.iter().map(|item| item.label.chars().count()).max().unwrap_or(0);
    let mut line = in_line(&item.label, LONGEST).into_owned();
    if let Some(value) = &item.value {
        let value = in_line(value, LONGEST);
        // Where a column of values does not fit, each stands behind its label.
        let fits = BESIDE + longest + value.chars().count() <= width;
        let column = if fits { longest } else { 0 };
        line = format!("{line:<column$}  [{value}]");
    }
    write_numbered(page, at + 1, &line, width);
}

fn write_numbered(page: &mut String, number: usize, text: &str, width: usize) {
    write_text(page, &format!("{number:>3}  "), text, width);
}

/// Appends a text to a page, at no less than the least width.
pub(crate) fn write_text(page: &mut String, first: &str, text: &str, width: usize) {
    broken(page, first, text, width.max(NARROWEST));
}

/// Appends a text of one line to a page: behind `first`, which is ASCII, and broken at blanks; its further lines stand below the first.
fn broken(page: &mut String, first: &str, text: &str, width: usize) {
    let begin = first.len();
    page.push_str(first);
    let mut rest = text.trim();
    loop {
        let (line, more) = split_at_char(rest, width - begin);
        // Behind the last word that fits, or within one that is longer than a line.
        let end = match line.rfind(' ') {
            Some(blank) if !more.is_empty() && !more.starts_with(' ') => blank,
            _ => line.len(),
        };
        let (line, more) = rest.split_at(end);
        page.push_str(line.trim());
        page.push('\n');
        rest = more.trim();
        if rest.is_empty() {
            return;
        }
        let _ = write!(page, "{:begin$}", "");
    }
}

/// The first so many characters, and the rest.
pub(crate) fn split_at_char(text: &str, most: usize) -> (&str, &str) {
    text.split_at(text.char_indices().nth(most).map_or(text.len(), |(at, _)| at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::menu::Menu;

    #[test]
    fn a_menu_as_text() {
        let mut all = Menu::new("Link of the target", "Back");
        all.note("Tests run with these.");
        all.item("Speed", Some("1000".into()), "What is offered.", ());
        all.item("Pause frames", Some("rx on tx off".into()), "", ());
        all.item("Is it up?", None, "Asks both ends.", ());
        let all = all.shown;
        assert_eq!(
            menu(&all, 80),
            "Link of the target\n\
             Tests run with these.\n  \
               1  Speed         [1000]\n  \
               2  Pause frames  [rx on tx off]\n  \
               3  Is it up?\n  \
               0  Back\n"
        );
        let all_help = help(&all, 80);
        let lines: Vec<&str> = all_help.lines().take(2).collect();
        assert_eq!(lines, ["  1  Speed: What is offered.", "  3  Is it up? Asks both ends."]);
        for width in 20..80 {
            let (menu, help) = (menu(&all, width), help(&all, width));
            assert!(menu.lines().chain(help.lines()).all(|line| line.chars().count() <= width));
            assert!(menu.contains("off]"), "{width}");
            let rows: Vec<String> = rows(&all, width).into_iter().map(|(_, row)| row + "\n").collect();
            assert!(menu.ends_with(&rows.concat()), "{width}");
        }
    }

    #[test]
    fn sentences_are_broken_between_words() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("abcdefgh ij", 3), ["abc", "def", "gh", "ij"]);
        assert_eq!(wrapped("", 3), [""]);
    }
}
