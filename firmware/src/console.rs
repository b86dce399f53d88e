//! The board's console: text waits here until the serial port takes it, so that no frame waits for a text.

use core::fmt;

use crate::board::Uart;

/// Bytes that may wait: a line of some 100 for each test that can end at once, and one of some 200 of statistics.
const WAITING: usize = 2048;

/// A console.
pub struct Console {
    uart: &'static Uart,
    text: [u8; WAITING],
    next: usize,
    waiting: usize,
}

impl Console {
    /// Starts the serial port.
    pub fn start(uart: &'static Uart) -> Console {
        uart.start.iter().for_each(|&(offset, value)| uart.at.write(offset, value));
        Console { uart, text: [0; WAITING], next: 0, waiting: 0 }
    }

    /// Gives the serial port as much as it takes now.
    pub fn poll(&mut self) {
        let (offset, full) = self.uart.full;
        while self.waiting > 0 && self.uart.at.read(offset) & full == 0 {
            self.uart.at.write(self.uart.data, self.text[self.next].into());
            self.next = (self.next + 1) % WAITING;
            self.waiting -= 1;
        }
    }

    /// Waits until all is said.
    pub fn flush(&mut self) {
        while self.waiting > 0 {
            self.poll();
        }
    }
}

impl fmt::Write for Console {
    /// What finds no room is left out.
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for &byte in text.as_bytes().iter().take(WAITING - self.waiting) {
            self.text[(self.next + self.waiting) % WAITING] = byte;
            self.waiting += 1;
        }
        Ok(())
    }
}
