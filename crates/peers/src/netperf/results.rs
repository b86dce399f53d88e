//! What a netperf server tells after a test: the words of its results, and where they stand in a message's data.
//! Knows no arithmetic but service demand's.

use super::message::{Field, Message, OMNI_RESULTS, fields};

fields! {
    /// The results of the server's end. Absent is what was not told, or is none.
    Results {
        /// Octets received.
        0, 8 received: u64 = 0,
        /// Calls that received.
        8, 4 receive_calls: u32 = 0,
        /// SO_RCVBUF at the end.
        12, 4 receive_buffer: Option<u32> = None,
        /// Octets sent.
        16, 8 sent: u64 = 0,
        /// Calls that sent.
        24, 4 send_calls: u32 = 0,
        /// SO_SNDBUF at the end.
        28, 4 send_buffer: Option<u32> = None,
        /// Sends that the kernel refused.
        32, 4 failed_sends: u32 = 0,
        /// Transactions.
        36, 4 transactions: u32 = 0,
        /// Seconds.
        40, 4 elapsed_s: Option<f64> = None,
        /// Of the whole machine.
        44, 44 cpu: Option<Cpu> = None,
        /// Microseconds of CPU time for a KiB, or a transaction. netserver's is garbage: never read.
        68, 4 service_demand: Option<f64> = None,
        /// Segments retransmitted.
        104, 4 retransmissions: Option<u32> = None,
        /// The interface of the data.
        108, 16 interface: Option<String> = None,
        /// Its driver, the driver's version, its firmware, its bus.
        124, 32 driver: Option<String> = None,
        /// Of the driver.
        156, 32 driver_version: Option<String> = None,
        /// Of the device.
        188, 32 firmware: Option<String> = None,
        /// Where the device is.
        220, 32 bus: Option<String> = None,
        /// TCP_CONGESTION.
        268, 16 congestion_control: Option<String> = None,
    }
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

impl Field for Option<Cpu> {
    fn get(data: &[u8], at: usize, len: usize) -> Option<Cpu> {
        let percent = |offset| Option::<f64>::get(data, at + offset, len).filter(|share| (0.0..=100.0).contains(share));
        let known = |offset| Option::<u32>::get(data, at + offset, len);
        let code = i32::get(data, at + 28, len);
        method(code)?;
        Some(Cpu {
            busy: percent(0)?,
            user: percent(4).unwrap_or(0.0),
            system: percent(8).unwrap_or(0.0),
            irq: percent(16).unwrap_or(0.0),
            softirq: percent(20).unwrap_or(0.0),
            method: code,
            cpus: known(32).filter(|cpus| (1..=1 << 16).contains(cpus))?,
            peak: known(36).zip(percent(40)),
        })
    }

    fn put(&self, data: &mut [u8], at: usize, len: usize) {
        let cpu = self.unwrap_or_default();
        let busy = self.map(|cpu| cpu.busy);
        for (offset, share) in [(4, cpu.user), (8, cpu.system), (16, cpu.irq), (20, cpu.softirq)] {
            Some(share).put(data, at + offset, len);
        }
        busy.put(data, at, len);
        cpu.method.put(data, at + 28, len);
        cpu.cpus.put(data, at + 32, len);
        cpu.peak.map(|(cpu, _)| cpu).put(data, at + 36, len);
        cpu.peak.map(|(_, share)| share).put(data, at + 40, len);
    }
}

impl Results {
    /// What a message tells.
    pub fn parse(message: &Message) -> Results {
        let told = Results::get(&message.data);
        let elapsed_s = told.elapsed_s.filter(|time| (0.0..=1e6).contains(time));
        Results { elapsed_s, service_demand: None, ..told }
    }

    /// The message.
    pub fn emit(&self) -> Message {
        let mut message = Message::new(OMNI_RESULTS, 0);
        self.put(&mut message.data);
        // The device's bus and its slot are one.
        self.bus.put(&mut message.data, 252, 16);
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
            word.put(&mut data, at, 4);
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
