//! Writes down the state of this machine, as far as it can be read. Nothing here changes anything.
//! Knows where each part is read; what the fields mean is in [`linerate_machine::environment`].

use linerate_machine::environment::Environment;

use crate::files::Files;

mod machine;
mod modules;
mod nic;
mod qdiscs;
mod sysctls;

pub(crate) use machine::kernel_is_at_least;

/// The machine, `interface` on it, and the builds of these modules beside its driver's, seen from the calling thread's network namespace. What cannot be read is
/// absent; the agent's version is for the agent to fill in.
pub fn describe(interface: Option<&str>, modules: &[String]) -> Environment {
    let environment = environment_of(&Files::here(), interface);
    let modules = modules::read(environment.nic.as_ref(), modules);
    Environment { modules, ..environment }
}

/// The same of a machine with these files, as far as they tell.
pub fn environment_of(files: &Files, interface: Option<&str>) -> Environment {
    let nic = interface.and_then(|interface| match files.are_here() {
        true => nic::describe(interface),
        false => Some(nic::of_files(files, interface)),
    });
    let sysctls = sysctls::of(interface, |path| files.line(path));
    Environment { nic, sysctls, ..machine::describe(files) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_described() {
        let environment = describe(Some("lo"), &[]);
        assert!(environment.kernel.is_some_and(|kernel| !kernel.is_empty()));
        assert!(environment.memory_octets > Some(1 << 20));
        assert!(environment.cpu.count >= Some(1));
        assert!(environment.sysctls.contains_key("net.core.rmem_max"));
        let nic = environment.nic.unwrap();
        assert_eq!((nic.name.as_str(), nic.link_detected.is_some()), ("lo", true));
        assert!(nic.offloads.contains_key("tx-scatter-gather"), "{:?}", nic.offloads);
    }

    #[test]
    fn an_interface_that_is_not_there_is_absent() {
        assert_eq!(describe(Some("no-such-one"), &[]).nic, None);
        assert_eq!(describe(None, &[]).nic, None);
    }

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
        let environment = environment_of(&files, Some("eth0"));
        let nic = environment.nic.unwrap();
        assert_eq!((nic.mtu, nic.speed_mbps, nic.driver.as_deref()), (Some(1500), None, Some("fec")));
        assert_eq!(nic.kind, None);
        // Of one without a device nobody says what made it, but that it is no hardware.
        let made = environment_of(&files, Some("veth0")).nic.unwrap();
        assert_eq!((made.kind.as_deref(), made.driver), (Some("virtual"), None));
        assert_eq!(environment.machine.as_deref(), Some("Boundary Devices SABRE Lite"));
        assert_eq!((environment.cpu.model.as_deref(), environment.cpu.count), (Some("ARMv7"), Some(2)));
        assert_eq!(environment.sysctls["net.ipv4.tcp_rmem"], "4096 131072 6291456");
        assert_eq!(environment.sysctls.len(), 2);
        assert_eq!((environment.boot_id, environment.kernel.as_deref()), (None, Some("6.6.1")));
    }
}
