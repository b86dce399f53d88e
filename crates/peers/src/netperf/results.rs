//! What a netperf server tells after a test: the words of its results, and where they stand in a message's data.
//! Knows no arithmetic but service demand's.

use super::message::{Message, OMNI_RESULTS, float, int, put, put_text, text, word};

/// The results of the server's end. Absent is what was not told, or is none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Results {
    /// Octets received.
    pub received: u64,
    /// Calls that received.
    pub receive_calls: u32,
    /// SO_RCVBUF at the end.
    pub receive_buffer: Option<u32>,
    /// Octets sent.
    pub sent: u64,
    /// Calls that sent.
    pub send_calls: u32,
    /// SO_SNDBUF at the end.
    pub send_buffer: Option<u32>,
    /// Sends that the kernel refused.
    pub failed_sends: u32,
    /// Transactions.
    pub transactions: u32,
    /// Seconds.
    pub elapsed_s: Option<f64>,
    /// Of the whole machine.
    pub cpu: Option<Cpu>,
    /// Microseconds of CPU time for a KiB, or a transaction. netserver's is garbage: never read.
    pub service_demand: Option<f64>,
    /// Segments retransmitted.
    pub retransmissions: Option<u32>,
    /// The interface of the data.
    pub interface: Option<String>,
    /// Its driver, the driver's version, its firmware, its bus.
    pub driver: Option<String>,
    /// Of the driver.
    pub driver_version: Option<String>,
    /// Of the device.
    pub firmware: Option<String>,
    /// Where the device is.
    pub bus: Option<String>,
    /// TCP_CONGESTION.
    pub congestion_control: Option<String>,
}

/// CPU use of a whole machine: per cent of all its CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cpu {
    /// Not idle.
    pub busy: f64,
    /// In user mode.
    pub user: f64,
    /// In the kernel.
    pub system: f64,
    /// In hardware interrupts.
    pub irq: f64,
    /// In software interrupts.
    pub softirq: f64,
    /// How it was measured; see [`method`].
    pub method: i32,
    /// How many CPUs.
    pub cpus: u32,
    /// The busiest CPU, and its use.
    pub peak: Option<(u32, f64)>,
}

/// The method of the kernel's own accounts.
pub const PROC_STAT: i32 = 8;

/// The name of a method by its code; `None`: unknown.
pub fn method(code: i32) -> Option<&'static str> {
    Some(match code {
        2 => "pstat",
        3 => "times",
        4 => "looper",
        5 => "getrusage",
        7 => "kstat",
        PROC_STAT => "/proc/stat",
        9 => "sysctl",
        10 => "perfstat",
        11 => "kstat10",
        12 => "osx",
        _ => return None,
    })
}

/// netperf's service demand: microseconds of CPU time for each unit, of so many a second.
pub fn service_demand(cpu: &Cpu, units_per_s: f64) -> Option<f64> {
    (units_per_s > 0.0).then(|| cpu.busy * 10_000.0 * f64::from(cpu.cpus) / units_per_s)
}

impl Results {
    /// Reads a message's data. Its kind says nothing; see [`OMNI_RESULTS`].
    pub fn parse(message: &Message) -> Results {
        let data = &message.data;
        let long = |at| u64::from(word(data, at)) << 32 | u64::from(word(data, at + 4));
        let known = |at| u32::try_from(int(data, at)).ok();
        let percent = |at| float(data, at).filter(|share| (0.0..=100.0).contains(share));
        let cpu = || {
            let code = int(data, 72);
            method(code)?;
            Some(Cpu {
                busy: percent(44)?,
                user: percent(48).unwrap_or(0.0),
                system: percent(52).unwrap_or(0.0),
                irq: percent(60).unwrap_or(0.0),
                softirq: percent(64).unwrap_or(0.0),
                method: code,
                cpus: known(76).filter(|cpus| (1..=1 << 16).contains(cpus))?,
                peak: known(80).zip(percent(84)),
            })
        };
        Results {
            received: long(0),
            receive_calls: word(data, 8),
            receive_buffer: known(12),
            sent: long(16),
            send_calls: word(data, 24),
            send_buffer: known(28),
            failed_sends: word(data, 32),
            transactions: word(data, 36),
            elapsed_s: float(data, 40).filter(|time| (0.0..=1e6).contains(time)),
            cpu: cpu(),
            service_demand: None,
            retransmissions: known(104),
            interface: text(data, 108, 16),
            driver: text(data, 124, 32),
            driver_version: text(data, 156, 32),
            firmware: text(data, 188, 32),
            bus: text(data, 220, 32),
            congestion_control: text(data, 268, 16),
        }
    }

    /// The message.
    pub fn emit(&self) -> Message {
        let mut message = Message::new(OMNI_RESULTS, 0);
        let data = &mut message.data;
        let or_unknown = |known: Option<u32>| known.map_or(-1, u32::cast_signed);
        let cpu = self.cpu.unwrap_or_default();
        let (peak, peak_use) = cpu.peak.map_or((-1, -1.0), |(cpu, share)| (cpu.cast_signed(), share));
        for (at, value) in [
            (0, ((self.received >> 32) as u32).cast_signed()),
            (4, (self.received as u32).cast_signed()),
            (8, self.receive_calls.cast_signed()),
            (12, or_unknown(self.receive_buffer)),
            (16, ((self.sent >> 32) as u32).cast_signed()),
            (20, (self.sent as u32).cast_signed()),
            (24, self.send_calls.cast_signed()),
            (28, or_unknown(self.send_buffer)),
            (32, self.failed_sends.cast_signed()),
            (36, self.transactions.cast_signed()),
            (72, cpu.method),
            (76, cpu.cpus.cast_signed()),
            (80, peak),
            (104, or_unknown(self.retransmissions)),
        ] {
            put(data, at, value.to_be_bytes());
        }
        for (at, value) in [
            (40, self.elapsed_s.unwrap_or(-1.0)),
            (44, if self.cpu.is_some() { cpu.busy } else { -1.0 }),
            (48, cpu.user),
            (52, cpu.system),
            (60, cpu.irq),
            (64, cpu.softirq),
            (68, self.service_demand.unwrap_or(-1.0)),
            (84, peak_use),
        ] {
            put(data, at, (value as f32).to_be_bytes());
        }
        for (at, room, text) in [
            (108, 16, &self.interface),
            (124, 32, &self.driver),
            (156, 32, &self.driver_version),
            (188, 32, &self.firmware),
            (220, 32, &self.bus),
            (252, 16, &self.bus),
            (268, 16, &self.congestion_control),
        ] {
            put_text(data, at, room, text.as_deref().unwrap_or(""));
        }
        message
    }
}

#[cfg(test)]
mod tests {
    use super::super::message::{DATA_LEN, SWAPPED_RESPONSE};
    use super::*;

    /// Results as netserver sends them, written octet by octet from the specification: the kind swapped twice, the
    /// service demand garbage.
    fn golden() -> Message {
        let mut data = [0; DATA_LEN];
        for (at, word) in [
            (0, 0x0000_0002u32),
            (4, 0x540b_e400),
            (8, 12_345),
            (12, 131_072),
            (28, 16_384),
            (40, 10.0f32.to_bits()),
            (44, 25.0f32.to_bits()),
            (48, 1.5f32.to_bits()),
            (52, 20.0f32.to_bits()),
            (56, f32::NAN.to_bits()),
            (60, 0.5f32.to_bits()),
            (64, 3.0f32.to_bits()),
            (68, 0x7fc0_dead),
            (72, 8),
            (76, 4),
            (80, 2),
            (84, 80.0f32.to_bits()),
            (104, 0xffff_ffff),
        ] {
            put(&mut data, at, word.to_be_bytes());
        }
        data[108..112].copy_from_slice(b"eth0");
        data[124..127].copy_from_slice(b"fec");
        data[156..159].copy_from_slice(b"1.0");
        data[220..227].copy_from_slice(b"30be000");
        data[268..272].copy_from_slice(b"reno");
        Message { kind: SWAPPED_RESPONSE, second: 0, data }
    }

    #[test]
    fn results_of_a_netserver_are_read_where_they_stand() {
        let results = Results::parse(&golden());
        assert_eq!((results.received, results.sent, results.receive_calls), (10_000_000_000, 0, 12_345));
        assert_eq!((results.elapsed_s, results.service_demand, results.retransmissions), (Some(10.0), None, None));
        let cpu = results.cpu.unwrap();
        assert_eq!((cpu.busy, cpu.softirq, cpu.cpus, cpu.peak), (25.0, 3.0, 4, Some((2, 80.0))));
        assert_eq!(method(cpu.method), Some("/proc/stat"));
        assert_eq!((results.interface.unwrap(), results.driver.unwrap()), ("eth0".to_owned(), "fec".to_owned()));
        assert_eq!((results.firmware, results.bus.unwrap()), (None, "30be000".to_owned()));
        assert_eq!(results.congestion_control.unwrap(), "reno");
    }

    #[test]
    fn what_is_written_is_read_the_same() {
        let cpu = Cpu {
            busy: 50.0,
            user: 1.0,
            system: 2.0,
            irq: 3.0,
            softirq: 4.0,
            method: PROC_STAT,
            cpus: 2,
            peak: Some((1, 75.0)),
        };
        let text = |text: &str| Some(text.to_owned());
        let results = Results {
            received: u64::MAX - 1,
            receive_calls: 1,
            receive_buffer: Some(2),
            sent: 1 << 40,
            send_calls: 3,
            send_buffer: Some(4),
            failed_sends: 5,
            transactions: 6,
            elapsed_s: Some(0.5),
            cpu: Some(cpu),
            service_demand: None,
            retransmissions: Some(7),
            interface: text("eth0"),
            driver: text("fec"),
            driver_version: text("6.1"),
            firmware: text("1"),
            bus: text("0000:00:1f.6"),
            congestion_control: text("bbr"),
        };
        assert_eq!(Results::parse(&results.emit()), results);
        let unknown = Results::parse(&Results::default().emit());
        assert_eq!(unknown, Results::default());
    }

    #[test]
    fn garbage_is_no_figure() {
        for octet in [0xff, 0x7f, 0x80] {
            let results = Results::parse(&Message { kind: 0, second: 0, data: [octet; DATA_LEN] });
            assert_eq!((results.elapsed_s, results.cpu, results.interface), (None, None, None), "{octet}");
        }
    }

    #[test]
    fn service_demand_is_that_of_netperf() {
        // A quarter of four CPUs, at a million KiB/s: a microsecond each.
        let cpu = Cpu { busy: 25.0, cpus: 4, ..Cpu::default() };
        assert_eq!(service_demand(&cpu, 1e6), Some(1.0));
        assert_eq!(service_demand(&cpu, 0.0), None);
    }
}
