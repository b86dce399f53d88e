//! A menu as numbered lines, for a terminal of any width.
//! Knows no terminal's commands: a screen reader reads it as it stands.

use linerate_machine::printable::in_line;

use crate::menu::Shown;

/// Values longer than that are told in short; a menu is no place for them.
const LONGEST: usize = 200;

/// The menu: its title, and its rows.
pub fn menu(menu: &Shown, width: usize) -> Vec<String> {
    let mut lines = wrapped(&in_line(&menu.title, LONGEST), width.max(20));
    lines.extend(rows(menu, width).into_iter().map(|(_, line)| line));
    lines
}

/// Its notes, an item a line with its value in brackets, and the way out, which is behind the last item; each line with the
/// number, from 0, of the item that it belongs to.
pub fn rows(menu: &Shown, width: usize) -> Vec<(Option<usize>, String)> {
    let width = width.max(20);
    let mut rows = Vec::new();
    for note in &menu.notes {
        rows.extend(wrapped(&in_line(note, LONGEST), width).into_iter().map(|line| (None, line)));
    }
    let longest = menu.items.iter().map(|item| item.label.chars().count()).max().unwrap_or(0);
    for (at, item) in menu.items.iter().enumerate() {
        let label = in_line(&item.label, LONGEST);
        let line = match &item.value {
            Some(value) => format!("{label:<longest$}  [{}]", in_line(value, LONGEST)),
            None => label.into_owned(),
        };
        rows.extend(hanging(&format!("{:>3}", at + 1), &line, width).into_iter().map(|line| (Some(at), line)));
    }
    rows.push((Some(menu.items.len()), format!("  0  {}", menu.way_out)));
    rows
}

/// What each item does.
pub fn help(menu: &Shown, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for (at, item) in menu.items.iter().enumerate().filter(|(_, item)| !item.help.is_empty()) {
        let line = format!("{}: {}", in_line(&item.label, LONGEST), item.help);
        lines.extend(hanging(&format!("{:>3}", at + 1), &line, width.max(20)));
    }
    lines.push("  0  leaves; Enter alone shows the menu again; a question is left with a full stop.".to_owned());
    lines.into_iter().flat_map(|line| wrapped_as_is(&line, width.max(20))).collect()
}

/// A number, and beside it a text whose further lines stand below the first.
fn hanging(number: &str, text: &str, width: usize) -> Vec<String> {
    let begin = number.chars().count() + 2;
    let mut lines = fitted(text, width - begin).into_iter();
    let first = format!("{number}  {}", lines.next().unwrap_or_default());
    std::iter::once(first).chain(lines.map(|line| format!("{}{line}", " ".repeat(begin)))).collect()
}

/// As it is where it fits, blanks and all; else in lines.
fn fitted(text: &str, width: usize) -> Vec<String> {
    if text.chars().count() <= width { vec![text.to_owned()] } else { wrapped(text, width) }
}

fn wrapped_as_is(line: &str, width: usize) -> Vec<String> {
    fitted(line, width)
}

/// A sentence in lines, broken between words; within one that is longer than a line.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let (mut lines, mut line, mut used) = (Vec::new(), String::new(), 0);
    for word in text.split_whitespace() {
        let mut signs: &str = word;
        loop {
            let long = signs.chars().count();
            let gap = usize::from(used > 0);
            if used + gap + long <= width {
                if gap == 1 {
                    line.push(' ');
                }
                line.push_str(signs);
                used += gap + long;
                break;
            }
            if used > 0 {
                lines.push(std::mem::take(&mut line));
                used = 0;
                continue;
            }
            let cut = signs.char_indices().nth(width).map_or(signs.len(), |(at, _)| at);
            lines.push(signs[..cut].to_owned());
            signs = &signs[cut..];
        }
    }
    if used > 0 || lines.is_empty() {
        lines.push(line);
    }
    lines
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
        all.item("Show", None, "", ());
        let all = all.shown;
        assert_eq!(
            menu(&all, 80),
            [
                "Link of the target",
                "Tests run with these.",
                "  1  Speed         [1000]",
                "  2  Pause frames  [rx on tx off]",
                "  3  Show",
                "  0  Back",
            ]
        );
        assert_eq!(help(&all, 80)[0], "  1  Speed: What is offered.");
        for width in 20..80 {
            assert!(menu(&all, width).iter().chain(&help(&all, width)).all(|line| line.chars().count() <= width));
            assert!(menu(&all, width).join(" ").contains("off]"), "{width}");
        }
    }

    #[test]
    fn sentences_are_broken_between_words() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("abcdefgh ij", 3), ["abc", "def", "gh", "ij"]);
        assert_eq!(wrapped("", 3), [""]);
    }
}
