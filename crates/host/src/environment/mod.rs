//! Writes down the state of this machine, as far as it can be read. Nothing here changes anything.
//! Knows where each part is read; what the fields mean is in [`linerate_trial::environment`].

use linerate_trial::environment::Environment;

pub(crate) mod files;
mod machine;
mod modules;
mod nic;
mod sysctls;

pub(crate) use machine::kernel_is_at_least;

/// The machine, `interface` on it, and the builds of these modules beside its driver's, seen from the calling thread's network namespace. What cannot be read is
/// absent; the agent's version is for the agent to fill in.
pub fn describe(interface: Option<&str>, modules: &[String]) -> Environment {
    let nic = interface.and_then(nic::describe);
    let modules = modules::read(nic.as_ref(), modules);
    Environment { nic, modules, sysctls: sysctls::read(interface), ..machine::describe() }
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
}
