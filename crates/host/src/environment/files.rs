//! A machine without an agent, from the texts of its files: what of a record's environment they tell.
//! Knows which files, not how their texts came here.

use linerate_trial::environment::{Cpu, Environment, Nic};

use super::machine::{cpu_count, cpu_model, memory_octets};
use super::sysctls;
use crate::elsewhere::Files;

/// Files with several lines each.
pub(crate) const MACHINE_TABLES: [&str; 3] = ["/proc/cpuinfo", "/proc/stat", "/proc/meminfo"];
/// Files with a line each, as patterns of a shell; `INTERFACE` stands for its name.
pub(crate) const MACHINE_VALUES: [&str; 18] = [
    "/proc/sys/kernel/osrelease",
    "/proc/sys/kernel/version",
    "/proc/sys/kernel/arch",
    "/proc/sys/kernel/random/boot_id",
    "/proc/cmdline",
    "/proc/device-tree/model",
    "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
    "/sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq",
    "/sys/class/net/INTERFACE/address",
    "/sys/class/net/INTERFACE/mtu",
    "/sys/class/net/INTERFACE/speed",
    "/sys/class/net/INTERFACE/duplex",
    "/sys/class/net/INTERFACE/carrier",
    "/sys/class/net/INTERFACE/carrier_changes",
    "/sys/class/net/INTERFACE/tx_queue_len",
    "/proc/sys/net/core/*",
    "/proc/sys/net/ipv4/*",
    "/proc/sys/net/ipv4/conf/INTERFACE/rp_filter",
];

/// What the machine is, as far as its files tell.
pub fn environment_of(files: &Files, interface: &str) -> Environment {
    let cpuinfo = files.get("/proc/cpuinfo").unwrap_or_default();
    let number = |path: &str| files.line(path)?.parse::<u32>().ok();
    let of_link = |name: &str| format!("/sys/class/net/{interface}/{name}");
    let device = files.device(interface);
    let nic = Nic {
        name: interface.to_owned(),
        driver: device.driver,
        bus: device.bus.into_iter().next(),
        mac: files.line(&of_link("address")),
        mtu: number(&of_link("mtu")),
        // What is no number, as -1 without a link, is not known.
        speed_mbps: number(&of_link("speed")),
        duplex: files.line(&of_link("duplex")).filter(|duplex| duplex != "unknown"),
        link_detected: number(&of_link("carrier")).map(|carrier| carrier != 0),
        carrier_changes: number(&of_link("carrier_changes")),
        queue_length: number(&of_link("tx_queue_len")),
        ..Nic::default()
    };
    Environment {
        kernel: files.line("/proc/sys/kernel/osrelease"),
        kernel_version: files.line("/proc/sys/kernel/version"),
        architecture: files.line("/proc/sys/kernel/arch"),
        boot_id: files.line("/proc/sys/kernel/random/boot_id"),
        command_line: files.line("/proc/cmdline"),
        machine: files.line("/proc/device-tree/model"),
        memory_octets: files.get("/proc/meminfo").and_then(memory_octets),
        cpu: Cpu {
            model: cpu_model(cpuinfo),
            count: files.get("/proc/stat").and_then(cpu_count),
            governor: files.line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            max_frequency_khz: number("/sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq").map(u64::from),
            ..Cpu::default()
        },
        nic: Some(nic),
        sysctls: sysctls::of(Some(interface), |path| files.line(path)),
        ..Environment::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_files_tell_and_nothing_else() {
        let texts = [
            ("/proc/sys/kernel/osrelease", "6.6.1\n"),
            ("/proc/device-tree/model", "Boundary Devices SABRE Lite\0"),
            ("/proc/cpuinfo", "processor\t: 0\nmodel name\t: ARMv7\n"),
            ("/proc/stat", "cpu 1 2\ncpu0 1 2\ncpu1 0 0\n"),
            ("/sys/class/net/eth0/mtu", "1500\n"),
            ("/sys/class/net/eth0/speed", "-1\n"),
            ("/sys/class/net/eth0/device/uevent", "DRIVER=fec\n"),
            ("/proc/sys/net/core/rmem_max", "212992\n"),
            ("/proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456\n"),
        ];
        let files = Files::of(texts.map(|(path, text)| (path.to_owned(), text.to_owned())).into());
        let environment = environment_of(&files, "eth0");
        let nic = environment.nic.unwrap();
        assert_eq!((nic.mtu, nic.speed_mbps, nic.driver.as_deref()), (Some(1500), None, Some("fec")));
        assert_eq!(environment.machine.as_deref(), Some("Boundary Devices SABRE Lite"));
        assert_eq!((environment.cpu.model.as_deref(), environment.cpu.count), (Some("ARMv7"), Some(2)));
        assert_eq!(environment.sysctls["net.ipv4.tcp_rmem"], "4096 131072 6291456");
        assert_eq!(environment.sysctls.len(), 2);
        assert_eq!((environment.boot_id, environment.kernel.as_deref()), (None, Some("6.6.1")));
    }
}
