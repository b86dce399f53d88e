//! What a sample's functions were for: the table of the kernel's functions, and the rule that reads it.
//! Knows no figures; [`super::account`] makes them.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::profile::Category;
use linerate_machine::pattern::fits_stars;
use linerate_machine::profile::{Function, Profile, ProfileClock, Stack};
use serde::Deserialize;

/// The table as it is shipped.
const TABLE: &str = include_str!("categories.toml");

/// Which function of the kernel does which kind of work.
pub struct Table {
    whole: HashMap<String, Category>,
    /// Those with a star.
    patterns: Vec<(String, Category)>,
    shadow: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    category: Vec<Section>,
    shadow: Shadow,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Section {
    name: Category,
    #[allow(dead_code, reason = "for whoever reads the table")]
    about: String,
    #[allow(dead_code, reason = "for whoever reads the table")]
    source: String,
    functions: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Shadow {
    #[allow(dead_code, reason = "for whoever reads the table")]
    source: String,
    functions: Vec<String>,
}

impl Table {
    /// The one that is shipped.
    pub fn shipped() -> &'static Table {
        static SHIPPED: LazyLock<Table> = LazyLock::new(|| Table::read(TABLE).expect("a test reads the shipped table"));
        &SHIPPED
    }

    fn read(text: &str) -> Result<Table, toml::de::Error> {
        let file: File = toml::from_str(text)?;
        let mut table = Table { whole: HashMap::new(), patterns: Vec::new(), shadow: file.shadow.functions };
        for section in file.category {
            for function in section.functions {
                if function.contains('*') {
                    table.patterns.push((function, section.name));
                } else {
                    table.whole.insert(function, section.name);
                }
            }
        }
        Ok(table)
    }

    /// What a function of the kernel is for; `None`: it works for its caller.
    fn of_function(&self, name: &str) -> Option<Category> {
        let name = without_suffix(name);
        let letters = |pattern: &str| pattern.bytes().filter(|&octet| octet != b'*').count();
        self.whole.get(name).copied().or_else(|| {
            let fitting = self.patterns.iter().filter(|(pattern, _)| fits_stars(pattern, name));
            fitting.max_by_key(|(pattern, _)| letters(pattern)).map(|&(_, category)| category)
        })
    }

    /// What a function is for, if it is the kernel's and known.
    pub fn of_kernel(&self, function: &Function) -> Option<Category> {
        self.of_function(function.name.as_deref().filter(|_| function.is_kernel())?)
    }

    /// Reads the stacks of a profile; `driver` is the kernel module of the machine's NIC.
    pub fn reader<'a>(&'a self, profile: &'a Profile, driver: Option<&str>) -> Reader<'a> {
        let driver = driver.map(|name| name.replace('-', "_"));
        let of = |function: &Function| -> Meaning {
            let Some(name) = function.name.as_deref().filter(|_| function.is_kernel()) else {
                return if function.is_kernel() { Meaning::Passed } else { Meaning::Program };
            };
            let shadow = profile.clock == ProfileClock::CpuClock
                && self.shadow.iter().any(|one| fits_stars(one, without_suffix(name)));
            let by_name = if shadow { None } else { self.of_function(name) };
            // Whatever the table does not have of the NIC's module is its driver all the same.
            let is_driver = function.module().is_some() && function.module() == driver.as_deref();
            by_name.or(is_driver.then_some(Category::DriverInterrupt)).map_or(Meaning::Passed, Meaning::For)
        };
        Reader { profile, meanings: profile.functions.iter().map(of).collect() }
    }
}

/// What one function says of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    /// It was for this.
    For(Category),
    /// It worked for its caller.
    Passed,
    /// The stack goes on in a program.
    Program,
}

/// What each function of one profile says, looked up once.
pub struct Reader<'a> {
    profile: &'a Profile,
    meanings: Vec<Meaning>,
}

impl Reader<'_> {
    /// What a stack was found doing: the innermost function that says so. A program of the agent's in user mode is the
    /// generator itself.
    pub fn of(&self, stack: &Stack) -> Category {
        let known = stack.frames.iter().filter_map(|&frame| self.meanings.get(frame as usize));
        let of_program = || match self.profile.process(stack) {
            Some(process) if process.agent => Category::Generator,
            _ => Category::Other,
        };
        for (depth, meaning) in known.enumerate() {
            match meaning {
                Meaning::For(category) => return *category,
                Meaning::Passed => {}
                // In the kernel for a reason that nothing tells: not the program's own doing.
                Meaning::Program if depth > 0 => return Category::Other,
                Meaning::Program => return of_program(),
            }
        }
        Category::Other
    }
}

impl Reader<'_> {
    /// What the profile's functions are for by themselves, in their order; `None`: they work for their callers. What many
    /// programs share, such as a library, is nobody's own.
    pub fn of_functions(&self) -> Vec<Option<Category>> {
        let is_agent = |name: &str| self.profile.processes.iter().any(|one| one.agent && one.name == name);
        let of = |(function, meaning): (&Function, &Meaning)| match meaning {
            Meaning::For(category) => Some(*category),
            Meaning::Program if is_agent(&function.object) => Some(Category::Generator),
            Meaning::Passed | Meaning::Program => None,
        };
        self.profile.functions.iter().zip(&self.meanings).map(of).collect()
    }
}

/// A name without what compilers put behind it.
fn without_suffix(name: &str) -> &str {
    name.split_once('.').map_or(name, |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use linerate_machine::profile::{Process, ProfileScope};

    use super::*;

    #[test]
    fn the_table_says_each_thing_once_and_where_from() {
        let file: File = toml::from_str(TABLE).unwrap();
        let mut seen = HashSet::new();
        for section in &file.category {
            assert!(section.about.len() > 10 && section.source.contains(".c") || section.source.contains('/'));
            for function in &section.functions {
                assert!(seen.insert(function.clone()), "{function} stands twice");
            }
        }
        let named: HashSet<Category> = file.category.iter().map(|section| section.name).collect();
        let all: HashSet<Category> = Category::ALL.into_iter().filter(|one| *one != Category::Generator).collect();
        assert_eq!(named, all);
        // A function that a longer pattern of the same category says already is there for nothing, and misleads.
        let table = Table::shipped();
        for function in &seen {
            let probe = function.replace('*', "x");
            assert!(table.of_function(&probe).is_some(), "{function}");
        }
    }

    fn profile(clock: ProfileClock, frames: &[&str], agent: bool) -> Profile {
        let function = |text: &&str| {
            let (name, object) = text.split_once('@').unwrap_or((text, "kernel"));
            Function { name: (!name.is_empty()).then(|| name.to_owned()), object: object.to_owned() }
        };
        Profile {
            clock,
            scope: ProfileScope::Machine,
            kernel: true,
            hz: 999,
            cpus: 1,
            span_s: 1.0,
            samples: 1,
            lost: 0,
            cut: 0,
            reader_cpu_s: 0.0,
            sample_cost_us: None,
            cpu: None,
            notes: Vec::new(),
            processes: vec![Process { name: "one".to_owned(), agent }],
            functions: frames.iter().map(function).collect(),
            stacks: vec![Stack { process: 0, frames: (0..frames.len() as u32).collect(), samples: 1 }],
        }
    }

    #[track_caller]
    fn check(frames: &[&str], category: Category) {
        let profile = profile(ProfileClock::CpuClock, frames, true);
        assert_eq!(Table::shipped().reader(&profile, Some("my-nic")).of(&profile.stacks[0]), category, "{frames:?}");
    }

    #[test]
    fn the_innermost_function_that_is_known_decides() {
        check(&["rep_movs_alternative", "_copy_to_iter", "udp_recvmsg", "do_syscall_64"], Category::Copy);
        check(&["__fentry__", "udp_queue_rcv_one_skb", "net_rx_action"], Category::Protocol);
        check(&["csum_partial", "skb_checksum"], Category::Checksum);
        check(&["kmem_cache_alloc_node_noprof", "__alloc_skb"], Category::AllocateFree);
        check(&["kfree", "skb_free_head.isra.0"], Category::AllocateFree);
        check(&["veth_xmit", "dev_hard_start_xmit", "__dev_queue_xmit"], Category::DriverInterrupt);
        check(&["something@[my_nic]", "net_rx_action"], Category::DriverInterrupt);
        check(&["something@[other]", "net_rx_action"], Category::SoftirqNapi);
        check(&["inet_gro_receive", "dev_gro_receive"], Category::SoftirqNapi);
        check(&["try_to_wake_up", "__wake_up_common", "sock_def_readable", "udp_rcv"], Category::SocketSyscall);
        check(&["native_queued_spin_lock_slowpath", "_raw_spin_lock", "sch_direct_xmit"], Category::Locking);
        check(&["__rcu_read_lock", "__dev_queue_xmit"], Category::Qdisc);
        check(&["pv_native_safe_halt", "default_idle", "do_idle"], Category::Idle);
        check(&["handle_edge_irq", "common_interrupt", "pv_native_safe_halt"], Category::DriverInterrupt);
        check(&["clear_something", "asm_exc_page_fault", "main@app"], Category::Other);
    }

    #[test]
    fn programs_are_the_generator_or_others() {
        check(&["@linerate-agent", "start_thread@libc.so.6"], Category::Generator);
        let other = profile(ProfileClock::CpuClock, &["main@cc1"], false);
        assert_eq!(Table::shipped().reader(&other, None).of(&other.stacks[0]), Category::Other);
        check(&["unheard_of", "main@linerate"], Category::Other);
        check(&[""], Category::Other);
        check(&[], Category::Other);
    }

    #[test]
    fn with_the_software_clock_unlocking_stands_for_what_went_before() {
        let frames = ["_raw_spin_unlock_irqrestore", "sock_def_readable", "udp_rcv"];
        check(&frames, Category::SocketSyscall);
        let by_cycles = profile(ProfileClock::Cycles, &frames, true);
        assert_eq!(Table::shipped().reader(&by_cycles, None).of(&by_cycles.stacks[0]), Category::Locking);
    }

    #[test]
    fn a_stack_that_points_nowhere_is_borne() {
        let mut profile = profile(ProfileClock::Cycles, &["ip_rcv"], true);
        profile.stacks[0].frames = vec![7, u32::MAX];
        profile.stacks[0].process = 9;
        assert_eq!(Table::shipped().reader(&profile, None).of(&profile.stacks[0]), Category::Other);
    }
}
