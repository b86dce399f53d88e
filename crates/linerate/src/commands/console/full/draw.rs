//! The full screen drawn: a title, the menu or a text, a line of help, and the keys or a question.
//! Knows a buffer of cells, and no terminal.

use linerate_machine::printable::in_line;
use linerate_menu::text;
use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

use super::app::{App, Asking, Page};
use crate::output::{in_ascii, is_ascii_only};

/// Draws all of it.
pub(super) fn draw(app: &App, frame: &mut Frame<'_>) {
    let area = frame.area();
    let width = usize::from(area.width);
    if let Some(asking) = &app.asking {
        body(app, area, frame.buffer_mut());
        let x = question(asking, area, frame.buffer_mut());
        frame.set_cursor_position((area.x + x.min(area.width.saturating_sub(1)), area.bottom().saturating_sub(1)));
        return;
    }
    body(app, area, frame.buffer_mut());
    let keys = match &app.page {
        Some(page) if page.runs() => "Ctrl-C ends it  arrows scroll",
        Some(_) => "Esc goes back  arrows, PgUp, PgDn scroll",
        None => "Enter chooses  Esc goes back  ? explains  q leaves",
    };
    line(
        frame.buffer_mut(),
        area,
        area.height.saturating_sub(1),
        keys,
        width,
        Style::new().add_modifier(Modifier::DIM),
    );
}

fn body(app: &App, area: Rect, buffer: &mut Buffer) {
    let (width, room) = (usize::from(area.width), app.room());
    let (title, below) = match &app.page {
        Some(page) => (page.title.clone(), page_lines(page, area, room, buffer)),
        None => menu_lines(app, area, room, buffer),
    };
    line(buffer, area, 0, &title, width, Style::new().add_modifier(Modifier::BOLD));
    if app.asking.is_none() {
        let status = app.page.as_ref().map(Page::status).unwrap_or_default();
        let below = match (&app.note, status.is_empty()) {
            (None, false) => status,
            (note, _) => text::wrapped(&in_line(note.as_ref().unwrap_or(&below), 2000), width.max(20)),
        };
        for (at, sentence) in below.iter().take(2).enumerate() {
            line(buffer, area, area.height.saturating_sub(3) + at as u16, sentence, width, Style::new());
        }
    }
}

/// The menu's rows around the chosen one; gives the title, and what the chosen item does.
fn menu_lines(app: &App, area: Rect, room: usize, buffer: &mut Buffer) -> (String, String) {
    let width = usize::from(area.width);
    let (menu, selected) = app.menu();
    let menu = menu.shown;
    let rows = text::rows(&menu, width);
    // As far up as can be with the chosen one in sight.
    let last = rows.iter().rposition(|(item, _)| *item == Some(selected)).unwrap_or(0);
    let top = (last + 1).saturating_sub(room);
    for (y, (item, row)) in rows.iter().skip(top).take(room).enumerate() {
        let style = if *item == Some(selected) { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
        line(buffer, area, y as u16 + 1, row, width, style);
    }
    let help = menu.items.get(selected).map_or(menu.way_out, |item| item.help.as_str());
    let below = if top + room < rows.len() { ", more below" } else { "" };
    let more = match rows.len() > room {
        true => format!(" ({} of {}{below})", selected + 1, menu.items.len() + 1),
        false => String::new(),
    };
    (menu.title + &more, help.to_owned())
}

fn page_lines(page: &Page, area: Rect, room: usize, buffer: &mut Buffer) -> String {
    let width = usize::from(area.width);
    let lines = page.drawn(width);
    let top = page.top.min(lines.len().saturating_sub(1));
    for (y, text) in lines.iter().skip(top).take(room).enumerate() {
        line(buffer, area, y as u16 + 1, text, width, Style::new());
    }
    let shown = (top + room).min(lines.len());
    if lines.len() > room { format!("lines {} to {shown} of {}", top + 1, lines.len()) } else { String::new() }
}

/// The question in the two last lines; gives the column of the cursor. What is typed is seen at its end.
fn question(asking: &Asking, area: Rect, buffer: &mut Buffer) -> u16 {
    let width = usize::from(area.width);
    let question = asking.field().question();
    let above = match &asking.complaint {
        Some(sentence) => sentence.clone(),
        None => format!("Enter keeps [{}]; ? says what can stand here; Esc leaves.", question.last),
    };
    let above = text::wrapped(&in_line(&above, 2000), width);
    // A long sentence stands over the end of the menu.
    let first = usize::from(area.height).saturating_sub(1 + above.len()).max(1);
    for (at, sentence) in above.iter().enumerate() {
        let y = (first + at).min(usize::from(area.height.saturating_sub(2))) as u16;
        line(buffer, area, y, sentence, width, Style::new());
    }
    let prompt = format!("{} [{}]: ", question.prompt, question.last);
    let signs: Vec<char> = prompt.chars().chain(asking.typed.chars()).collect();
    let skipped = (signs.len() + 1).saturating_sub(width);
    let shown: String = signs[skipped..].iter().collect();
    line(buffer, area, area.height.saturating_sub(1), &shown, width, Style::new().add_modifier(Modifier::BOLD));
    u16::try_from(signs.len() - skipped).unwrap_or(0)
}

fn line(buffer: &mut Buffer, area: Rect, y: u16, text: &str, width: usize, style: Style) {
    if y >= area.height {
        return;
    }
    let text = in_line(text, width.max(1));
    let text = if is_ascii_only() { in_ascii(&text) } else { text.into_owned() };
    // A cell a character: what is wider or narrower is another's name, and may push its own line.
    buffer.set_stringn(area.x, area.y + y, format!("{text:<width$}"), width, style);
}
