//! A board without an operating system: its MAC, driven by `linerate-nic`, answers what the library answers.
#![no_std]
#![no_main]

mod board;
mod boards;
mod console;
mod machine;
mod serve;
mod time;

use core::fmt::Write;

use boards::BOARD;
use console::Console;

/// What the machine begins with, once it has a stack.
fn run() -> ! {
    let mut console = Console::start(&BOARD.uart);
    let stopped = serve::serve(&BOARD, &mut console);
    let _ = writeln!(console, "{stopped}\r");
    console.flush();
    machine::halt()
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    let mut console = Console::start(&BOARD.uart);
    let _ = writeln!(console, "\r\n{info}\r");
    console.flush();
    machine::halt()
}
