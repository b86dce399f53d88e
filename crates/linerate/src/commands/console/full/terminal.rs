//! The terminal: taken whole, and given back whole, whatever ends the console.
//! Knows crossterm; what is drawn is `draw.rs`'s.

use std::io::{self, Stdout};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use linerate_host::sys::signals;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
    size as size_of_terminal,
};
use ratatui::layout::Rect;
use ratatui::{Frame, Terminal, TerminalOptions, Viewport};

use crate::output;

/// What a terminal has that does not say (a serial line's pty says 0 x 0).
const USUAL: (u16, u16) = (80, 24);

/// The terminal is the console's.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// The terminal in raw mode, on its other screen. Dropping it gives it back.
pub(super) struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
}

/// Columns and rows.
pub(super) fn size() -> (u16, u16) {
    or_usual(size_of_terminal().unwrap_or(USUAL))
}

/// What the terminal says, unless it says nothing.
pub(super) fn or_usual((columns, rows): (u16, u16)) -> (u16, u16) {
    if columns == 0 || rows == 0 { USUAL } else { (columns, rows) }
}

impl Screen {
    /// Takes it.
    pub(super) fn take() -> io::Result<Screen> {
        static HOOK: Once = Once::new();
        // A panic's words would be lost on the other screen, and the shell left without echo.
        HOOK.call_once(|| {
            let usual = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |info| {
                give_back();
                usual(info);
            }));
        });
        TAKEN.store(true, Ordering::Relaxed);
        enable_raw_mode()?;
        let taken = execute!(output::terminal(), EnterAlternateScreen).and_then(|()| cleared(size()));
        taken.map(|terminal| Screen { terminal }).inspect_err(|_| give_back())
    }

    /// Takes it again from a shell that had it while this process stood still; its size may be another.
    pub(super) fn take_again(&mut self) -> io::Result<()> {
        TAKEN.store(true, Ordering::Relaxed);
        // Else it passes for raw already, whatever the shell made of it.
        disable_raw_mode()?;
        enable_raw_mode()?;
        execute!(output::terminal(), EnterAlternateScreen)?;
        self.draw_anew(size())
    }

    /// It has this size now, and the next drawing is of everything.
    pub(super) fn draw_anew(&mut self, size: (u16, u16)) -> io::Result<()> {
        self.terminal = cleared(size)?;
        Ok(())
    }

    /// Draws what has changed.
    pub(super) fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        self.terminal.draw(draw).map(|_| ())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

/// Of this size, with nothing on it. Not by ratatui's own means, which ask the terminal where its cursor is: on a line that is slow,
/// or whose other end is a program, nobody answers.
fn cleared((columns, rows): (u16, u16)) -> io::Result<Terminal<CrosstermBackend<Stdout>>> {
    execute!(output::terminal(), Clear(ClearType::All))?;
    let options = TerminalOptions { viewport: Viewport::Fixed(Rect::new(0, 0, columns, rows)) };
    Terminal::with_options(CrosstermBackend::new(output::terminal()), options)
}

/// Gives it to the shell, and stands still until this process is let go on.
pub(super) fn stand_still() {
    give_back();
    signals::stop();
}

/// Once: what a panic says next must not be written over. A terminal that is gone takes nothing back, and needs nothing.
fn give_back() {
    if !TAKEN.swap(false, Ordering::Relaxed) {
        return;
    }
    let _ = disable_raw_mode();
    let _ = execute!(output::terminal(), LeaveAlternateScreen, Show);
}
